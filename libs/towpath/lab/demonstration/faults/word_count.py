"""The word count on a cluster of three workers, slowed down worker by worker."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from towpath.contracts.data_plane import output_stream
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import Input, JobSpec, Output
from towpath.contracts.operators import FieldType, Python
from towpath.contracts.scenario import Collection, OutputGapProbe, Phases, Scenario, ScenarioMesh, Step
from towpath.contracts.scenario_expectations import Expectations
from towpath.contracts.scenario_load import ReplayLoad
from towpath.contracts.site import EngineSpec, FaultSettings, MeshSpec, SiteSpec
from towpath.lab.demonstration.faults.batches import batches_of, delays_of, during, marks_of, phases_of
from towpath.lab.demonstration.faults.report import Staircase, WordCountReport
from towpath.lab.demonstration.faults.rules import METRICS, batch_metrics, slow_worker
from towpath.lab.harness.load import send
from towpath.lab.harness.stage import Say, Stage, quiet
from towpath.lab.scenarios.figures import RunFigures
from towpath.lab.scenarios.playing import play_described
from towpath.lab.scenarios.sampler import Sampler
from towpath.lab.workload.text import lines, words_in
from towpath.streams.pages import read_after

SITE, JOB, TOPIC = "text", "word-count", "site/lines"
WORKERS = ("one", "two", "three")
"""Of the Spark cluster."""

EXECUTORS = ("0", "1", "2")
"""Spark's numbers of the executors of a session: one on each worker, which has one core."""

TASKS = 9
"""Three for each worker: while one is slow, the others take more of them."""

CODE = "word_count"
WARM_WITHIN_S = 180.0
SETTLE_S = 90.0
CLOSING_WORD = "fin"
"""Not in the text: it comes in a later second, so that the windows before it close."""


@dataclass(frozen=True)
class WordCountOptions:
    """The size of a run."""

    rate: float = 4_000.0
    """Lines per second. Two cores cannot bear much more."""
    step_s: float = 10.0
    """Seconds between one rule and the next. The thesis has a minute."""
    delays: tuple[tuple[int, float], ...] = ((1000, 10.0), (40, 10.0))
    """N and milliseconds, one staircase for each: a delay with every Nth line."""
    warm_up_s: float = 45.0
    """Seconds from the first results to the first phase: micro-batches get faster for the better part of a
    minute."""
    trigger_s: float = 1.0


def mesh_spec(master: str) -> MeshSpec:
    """Return a mesh of one site whose tasks run on the cluster at `master`, with one executor per worker."""
    engine = EngineSpec(
        spark_master=master,
        memory="640m",
        executor_memory="512m",
        cluster_cores=len(WORKERS),
        state_memory_mb=64,
    )
    return MeshSpec(sites=[SiteSpec(name=SITE, engine=engine)], faults=FaultSettings(enabled=True))


def provide_code(artefacts: Path) -> None:
    """Copy the user code into the mesh's artefacts. Raises `TowpathError` if it is not installed."""
    beside = Path(__file__).with_name(f"{CODE}_code.py")
    repository = Path(__file__).parents[5] / "examples" / "user_code" / f"{CODE}.py"
    source = next((path for path in (beside, repository) if path.exists()), None)
    if source is None:
        raise TowpathError(
            ErrorCode.FAILED, "the user code is not installed", field="artefact", value=str(beside)
        )
    target = artefacts / CODE
    target.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target / f"{CODE}.py")


def job_spec(trigger_s: float) -> JobSpec:
    """Return a job that counts words per second in Python functions of a user."""
    return JobSpec(
        name=JOB,
        site=SITE,
        inputs=[Input(site=SITE, topic=TOPIC, start="latest")],
        output=Output(topic="words/counted"),
        operator=Python(
            fields={"line": FieldType.STRING},
            artefact=CODE,
            entry=f"{CODE}:count_words",
            parameters={"window_s": 1, "tasks": TASKS},
            identity=["window", "word"],
        ),
        trigger_s=trigger_s,
    )


def staircase(every: int, delay_ms: float, options: WordCountOptions) -> Scenario:
    """Describe a run in which delays are loaded on the workers one by one, then unloaded one by one."""
    rules = [slow_worker(executor, SITE, every, delay_ms) for executor in EXECUTORS]
    loaded, unloaded = options.step_s, (len(rules) + 1) * options.step_s
    timeline = [
        Step(at=0, load=[batch_metrics(JOB)]),
        *(Step(at=loaded + n * options.step_s, load=[rule]) for n, rule in enumerate(rules)),
        *(Step(at=unloaded + n * options.step_s, unload=[rule.name]) for n, rule in enumerate(rules)),
    ]
    return Scenario(
        name="word-count",
        mesh=ScenarioMesh(sites=[SITE], emulate_links=False),
        jobs=[job_spec(options.trigger_s)],
        load=[ReplayLoad(replay="lines", site=SITE, topic=TOPIC, rate=options.rate)],
        steady_state=[OutputGapProbe(job=JOB, at_most_s=WARM_WITHIN_S)],
        phases=Phases(
            before_s=options.warm_up_s,
            begin_within_s=WARM_WITHIN_S,
            during_s=(2 * len(rules) + 1) * options.step_s,
            after_s=0,
            steady_s=0,
            drain_s=SETTLE_S,
        ),
        timeline=timeline,
        # Spark decides which worker gets a task: one worker may do all the work of a step.
        expect=Expectations(recovers_within_s=None, rules_act=False),
        collect=Collection(metrics=[*METRICS]),
    )


@dataclass
class CountedWords(RunFigures):
    """The words of closed windows, once they are those that were sent, or it is too late."""

    stage: Stage
    trigger_s: float
    sent: int = 0
    counted: int = 0

    async def end(self, sampler: Sampler) -> None:
        """Send lines of a later second until all windows before it are closed."""
        [device] = sampler.devices
        self.sent = words_of_events(device.report.acknowledged)
        closing = [json.dumps({"line": CLOSING_WORD}).encode()]
        end = time.monotonic() + SETTLE_S
        while True:
            await send(self.stage.mesh.site(SITE), TOPIC, closing, 1.0)
            await asyncio.sleep(2 * self.trigger_s)
            stored = await read_after(self.stage.bus.connection, SITE, output_stream(JOB), 0)
            self.counted = words_of_results([message.body for message in stored])
            if self.counted >= self.sent or time.monotonic() > end:
                return


@dataclass
class WordCount:
    """The experiment on a mesh that is up. `say` shows people what is under way."""

    stage: Stage
    options: WordCountOptions
    output: Path
    """A directory; each staircase gets one in it, for its journal."""
    say: Say = quiet
    _words_sent: int = 0
    _words_counted: int = 0

    async def run(self) -> WordCountReport:
        """Run everything in order. Raises `TowpathError` if a command is refused or fails."""
        options = self.options
        staircases = [await self._staircase(every, delay_ms) for every, delay_ms in options.delays]
        return WordCountReport(
            workers=len(WORKERS),
            rate=options.rate,
            step_s=options.step_s,
            trigger_s=options.trigger_s,
            staircases=staircases,
            words_sent=self._words_sent,
            words_counted=self._words_counted,
        )

    async def _staircase(self, every: int, delay_ms: float) -> Staircase:
        named = f"{delay_ms:g} ms with every {every:,}th line"
        words = CountedWords(self.stage, self.options.trigger_s)
        played = await play_described(
            self.stage,
            staircase(every, delay_ms, self.options),
            self.output / f"every-{every}",
            say=lambda text: self.say(f"{named}: {text}"),
            figures=words,
        )
        played.report.check()
        self._words_sent += words.sent
        self._words_counted += words.counted
        [load] = played.report.loads
        batches, marks = batches_of(played.lines), marks_of(played.lines)
        return Staircase(
            every=every,
            delay_ms=delay_ms,
            sent=load.acknowledged,
            rate=round(load.acknowledged / load.seconds, 1),
            phases=phases_of(batches, marks, *during(played.lines)),
            marks=marks,
            batches=batches,
            delays=delays_of(played.report),
        )


def words_of_results(bodies: Sequence[bytes]) -> int:
    """Return the number of words of these results, without the closing word."""
    values = [json.loads(body)["values"] for body in bodies]
    return sum(int(value["occurrences"]) for value in values if value["word"] != CLOSING_WORD)


def words_of_events(count: int) -> int:
    """Return the number of words in the first `count` events."""
    each = [words_in(line) for line in lines()]
    rounds, rest = divmod(count, len(each))
    return rounds * sum(each) + sum(each[:rest])
