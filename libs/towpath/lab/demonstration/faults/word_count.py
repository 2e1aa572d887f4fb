"""The word count on a cluster of three workers, slowed down worker by worker."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import importlib
import io
import itertools
import json
import re
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from towpath.contracts.commands import DeployJob
from towpath.contracts.data_plane import output_stream
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import Input, JobSpec, Output
from towpath.contracts.operators import FieldType, Python
from towpath.contracts.site import EngineSpec, FaultSettings, MeshSpec, SiteSpec
from towpath.lab.demonstration.faults.batches import batches_of, phases_of
from towpath.lab.demonstration.faults.injection import Injection, injection
from towpath.lab.demonstration.faults.report import Staircase, WordCountReport
from towpath.lab.demonstration.faults.rules import batch_metrics, slow_worker
from towpath.lab.harness.load import send
from towpath.lab.harness.stage import Say, Stage, quiet
from towpath.lab.workload.replay import ReplayReport
from towpath.streams.pages import read_after
from towpath.tasks import end

SITE, JOB, TOPIC = "text", "word-count", "site/lines"
WORKERS = ("one", "two", "three")
"""Of the Spark cluster."""

EXECUTORS = ("0", "1", "2")
"""Spark's numbers of the executors of a session: one on each worker, which has one core."""

TASKS = 9
"""Three for each worker: while one is slow, the others take more of them."""

CODE = "word_count"
DEPLOY_S, ATTEMPT_S = 180.0, 30.0
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
    """Seconds before the first phase: the first micro-batches start Python workers, and they get faster for
    the better part of a minute."""
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


@dataclass
class WordCount:
    """The experiment on a mesh that is up. `say` shows people what is under way."""

    stage: Stage
    options: WordCountOptions
    say: Say = quiet
    _sent: int = 0

    async def run(self) -> WordCountReport:
        """Run everything in order. Raises `TowpathError` if a command is refused or fails."""
        options = self.options
        self.say("deploying the word count")
        await self.stage.bus.request(
            DeployJob(spec=job_spec(options.trigger_s)), deadline_s=DEPLOY_S, attempt_s=ATTEMPT_S
        )
        staircases: list[Staircase] = []
        words = 0
        for every, delay_ms in options.delays:
            staircase = await self._staircase(every, delay_ms)
            staircases.append(staircase)
            words += words_of_events(staircase.sent)
        return WordCountReport(
            workers=len(WORKERS),
            rate=options.rate,
            step_s=options.step_s,
            trigger_s=options.trigger_s,
            staircases=staircases,
            words_sent=words,
            words_counted=await self._counted(words),
        )

    async def _staircase(self, every: int, delay_ms: float) -> Staircase:
        options = self.options
        seconds = options.warm_up_s + (2 * len(EXECUTORS) + 1) * options.step_s
        count = int(options.rate * seconds)
        async with injection(self.stage) as injected:
            await injected.rules.load([batch_metrics(JOB)])
            sending = asyncio.create_task(self._send(line_events(count), options.rate), name="lines")
            try:
                begun_at = await self._steps(injected, every, delay_ms)
                ended_at = time.time()
                sent = await sending
            finally:
                await end([sending])
            await self._quiet(injected)
        batches = batches_of(injected.metrics)
        return Staircase(
            every=every,
            delay_ms=delay_ms,
            sent=sent.acknowledged,
            rate=round(sent.acknowledged / sent.seconds, 1),
            phases=phases_of(batches, injected.marks, begun_at, ended_at),
            marks=injected.marks,
            batches=batches,
            delays=injected.delays,
        )

    async def _steps(self, injected: Injection, every: int, delay_ms: float) -> float:
        """Load the delays one by one, then unload them one by one. Return the begin of the first phase."""
        rules = [slow_worker(executor, SITE, every, delay_ms) for executor in EXECUTORS]
        self.say(f"{delay_ms:g} ms with every {every:,}th line: warming up")
        await asyncio.sleep(self.options.warm_up_s)
        begun_at = time.time()
        for executor, rule in zip(EXECUTORS, rules, strict=True):
            await asyncio.sleep(self.options.step_s)
            self.say(f"slowing worker {executor} down")
            await injected.rules.load([rule])
        for executor, rule in zip(EXECUTORS, rules, strict=True):
            await asyncio.sleep(self.options.step_s)
            self.say(f"worker {executor} is as fast as before")
            await injected.rules.unload([rule.name])
        await asyncio.sleep(self.options.step_s)
        return begun_at

    async def _quiet(self, injected: Injection) -> None:
        """Wait until all lines are processed, so that the next staircase begins like this one."""
        end = time.monotonic() + SETTLE_S
        count = -1
        while len(injected.metrics) > count and time.monotonic() < end:
            count = len(injected.metrics)
            await asyncio.sleep(4 * self.options.trigger_s)

    async def _send(self, payloads: Iterable[bytes], rate: float) -> ReplayReport:
        return await send(self.stage.mesh.site(SITE), TOPIC, payloads, rate)

    async def _counted(self, expected: int) -> int:
        """Return the number of words of all closed windows, once it is the expected one, or too late."""
        end = time.monotonic() + SETTLE_S
        closing = [json.dumps({"line": CLOSING_WORD}).encode()]
        self.say("waiting for the last windows")
        while True:
            await self._send(closing, 1.0)
            await asyncio.sleep(2 * self.options.trigger_s)
            stored = await read_after(self.stage.bus.connection, SITE, output_stream(JOB), 0)
            counted = words_of_results([message.body for message in stored])
            if counted >= expected or time.monotonic() > end:
                return counted


def words_of_results(bodies: Sequence[bytes]) -> int:
    """Return the number of words of these results, without the closing word."""
    values = [json.loads(body)["values"] for body in bodies]
    return sum(int(value["occurrences"]) for value in values if value["word"] != CLOSING_WORD)


def lines() -> list[str]:
    """Return the lines of PEP 20 that hold words. Its author placed it in the public domain."""
    with contextlib.redirect_stdout(io.StringIO()):
        zen = importlib.import_module("this")
    text = codecs.decode(zen.s, "rot13")
    return [line for line in text.splitlines() if line.strip()]


def words_in(line: str) -> int:
    """Return the number of words in a line."""
    return len(re.findall(r"[A-Za-z']+", line))


def line_events(count: int) -> Iterator[bytes]:
    """Yield `count` events with a line each. The text begins again when it is over."""
    payloads = [json.dumps({"line": line}).encode() for line in lines()]
    return itertools.islice(itertools.cycle(payloads), count)


def words_of_events(count: int) -> int:
    """Return the number of words in the first `count` events."""
    each = [words_in(line) for line in lines()]
    rounds, rest = divmod(count, len(each))
    return rounds * sum(each) + sum(each[:rest])
