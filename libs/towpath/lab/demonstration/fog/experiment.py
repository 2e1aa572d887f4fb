"""The two arrangements at each of several input rates: each is a scenario, and figures of its run."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from towpath.checker.identity import utc
from towpath.checker.observation import ReceivedMessage
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import JobStatus
from towpath.contracts.scenario import OutputGapProbe, Pace, Phases, Scenario, ScenarioMesh, Step
from towpath.contracts.scenario_expectations import Expectations
from towpath.contracts.scenario_load import ReplayLoad
from towpath.lab.demonstration.fog import links
from towpath.lab.demonstration.fog.arrangement import Arrangement, arranged_pipeline
from towpath.lab.demonstration.fog.rates import STAGES, StageRate, stage_rate
from towpath.lab.demonstration.fog.report import Crossed, TurnReport
from towpath.lab.demonstration.pipeline import CLOUD, DEVICE_TOPIC, EDGES, SITES, waiting_s
from towpath.lab.harness.judge import Expected, JobTruth, StoredInput
from towpath.lab.harness.observer import ObservedJob
from towpath.lab.harness.stage import Stage
from towpath.lab.scenarios.figures import RunFigures
from towpath.lab.scenarios.sampler import Sampler

MOST_DEPARTURES = 34_000
"""Of each airport: with February, which follows December in the file, event time would go back a year."""

MALFORMED_EVERY = 200
"""After so many departures one malformed record."""

WARM_UP_RATE, WARM_UP_S = 60.0, 8.0
"""Events per second at each edge before the rate that is measured. The first micro-batches of a job start its
Python workers, so results must have come for so many seconds."""

WARM_WITHIN_S = 180.0
WARM_UP_EVENTS = 12_000
"""More than an edge sends at that rate until then."""

RESULTS_EVERY_S = 180.0
"""Longest time without a result, for steady state. It is longer than a rate lasts: jobs whose events wait for
a slow link, or for a busy machine, are steady, too."""

REPORTS_WITHIN_S = 60.0
"""Seconds to wait for the sites' reports on events whose results have come. Sites report every second."""


@dataclass(frozen=True)
class FogOptions:
    """The size of a run. Raises `TowpathError` (invalid) for values that make no sense."""

    rates: tuple[float, ...] = (100.0, 200.0, 400.0)
    """Events per second at each edge."""
    seconds: float = 15.0
    """Seconds for which devices send at each rate."""
    bandwidth_bytes_per_s: int = links.BANDWIDTH_BYTES_PER_S
    """Of each link, in each direction."""
    change_rate: float = 100.0
    """Events per second while the pipeline changes."""
    trigger_s: float = 3.0
    """Thirteen jobs share two cores, and a micro-batch costs 0.2 to 0.4 core seconds however small it is."""
    settle_s: float = 180.0
    """Seconds that results may take after the last event of a rate."""

    def __post_init__(self) -> None:
        """Check the values before anything is started."""
        for name, values in (("rates", self.rates), ("seconds", (self.seconds,))):
            if not values or not all(value > 0 for value in values):
                shown = ", ".join(f"{value:g}" for value in values)
                raise TowpathError(
                    ErrorCode.INVALID, "must be positive", field=name, value=shown, allowed="above 0"
                )
        if max(self.rates) * self.seconds > MOST_DEPARTURES - WARM_UP_EVENTS:
            raise TowpathError(
                ErrorCode.INVALID,
                "an airport has not so many departures",
                field="rates",
                value=f"{max(self.rates):g}/s for {self.seconds:g} s",
                allowed=f"up to {MOST_DEPARTURES - WARM_UP_EVENTS:,} events",
            )


def turn(arrangement: Arrangement, rate: float, options: FogOptions) -> Scenario:
    """Describe one input rate in one arrangement: jobs warm up slowly, then devices send at the rate."""
    spec = arranged_pipeline(arrangement, EDGES, waiting_s(MOST_DEPARTURES), options.trigger_s)
    shown = [job.name for job in spec.jobs if job.name.startswith((*STAGES.values(), "delays-all"))]
    return Scenario(
        name=f"traffic-{arrangement}",
        mesh=ScenarioMesh(sites=[*SITES]),
        pipeline=spec,
        load=[
            ReplayLoad(
                replay="departures",
                site=edge,
                topic=DEVICE_TOPIC,
                airport=edge.upper(),
                rate=WARM_UP_RATE,
                malformed_every=MALFORMED_EVERY,
            )
            for edge in EDGES
        ],
        steady_state=[OutputGapProbe(job=job, at_most_s=RESULTS_EVERY_S) for job in shown],
        phases=Phases(
            before_s=WARM_UP_S,
            begin_within_s=WARM_WITHIN_S,
            during_s=options.seconds,
            after_s=0,
            steady_s=0,
            drain_s=options.settle_s,
        ),
        timeline=[Step(at=0, pace=Pace(rate=rate))],
        expect=Expectations(recovers_within_s=None),
    )


@dataclass
class TurnFigures(RunFigures):
    """Rates of jobs 3 and 4 from the change of pace on, and the bytes that crossed the links meanwhile."""

    stage: Stage
    rate: float
    options: FogOptions
    report: TurnReport | None = None
    """None until the run has ended."""
    _crossed: Crossed | None = None
    _crossed_before: Mapping[str, int] = field(default_factory=dict)
    _before: Mapping[str, JobStatus] = field(default_factory=dict)
    _sent_before: int = 0
    _begun_at: float = 0.0

    async def begin(self, sampler: Sampler) -> None:
        """Note what was before."""
        self._crossed_before = await links.passed(self.stage.bus)
        self._before = await self._statuses()
        self._sent_before = _sent(sampler)
        self._begun_at = time.time()

    async def load_ended(self, sampler: Sampler) -> None:
        """Wait until everything is processed. Then the links are free for the judge, who reads all inputs."""
        quiet_s = 2 * self.options.trigger_s  # Windows come with the micro-batch after the last event.
        heard = -1
        newest_at = time.monotonic()
        end = newest_at + self.options.settle_s
        while time.monotonic() < end:
            results = sum(len(job.collector.observations) for job in sampler.jobs.values())
            if results > heard:
                heard, newest_at = results, time.monotonic()
                passed = await links.passed(self.stage.bus)
                self._crossed = links.crossed(self._crossed_before, passed, CLOUD)
            elif time.monotonic() - newest_at > quiet_s:
                if await _processed_all(sampler):
                    break
                newest_at = time.monotonic()  # The question crosses the links, too: not so soon again.
            await asyncio.sleep(0.5)
        await links.shape(self.stage.bus, SITES, links.UNLIMITED)

    async def end(self, sampler: Sampler) -> None:
        """Compute the rates, as soon as the jobs' own reports cover the results, or are late."""
        if self._crossed is None or not self._begun_at:
            return
        truth, observations = await asyncio.to_thread(results_since, sampler.jobs, self._begun_at)
        end = time.monotonic() + REPORTS_WITHIN_S
        while True:
            stages = self._stages(truth, observations, await self._statuses())
            if all(each.reported_events >= each.events for each in stages.values()) or time.monotonic() > end:
                break
            await asyncio.sleep(0.5)
        self.report = TurnReport(
            rate=self.rate, sent=_sent(sampler) - self._sent_before, stages=stages, crossed=self._crossed
        )

    def _stages(
        self, truth: Expected, observations: list[ReceivedMessage], after: Mapping[str, JobStatus]
    ) -> dict[str, StageRate]:
        progress = {job: (self._before[job], after[job]) for job in self._before.keys() & after.keys()}
        return {
            stage: stage_rate(stage, EDGES, self._begun_at, truth, observations, progress) for stage in STAGES
        }

    async def _statuses(self) -> dict[str, JobStatus]:
        """Job → what its site last reported."""
        views = await self.stage.ask_jobs()
        return {view.spec.name: view.status for view in views if view.status is not None}


def results_since(jobs: Mapping[str, ObservedJob], moment: float) -> tuple[Expected, list[ReceivedMessage]]:
    """Return the windows of jobs 3 and 4, counting only events stored since then, and all that came.

    `moment` is in Unix seconds. An event is known downstream by its serial number among the cleaned ones.
    """
    truth: Expected = {}
    observations: list[ReceivedMessage] = []
    for edge in EDGES:
        third, fourth = (jobs[f"{STAGES[stage]}{edge}"] for stage in ("job 3", "job 4"))
        [cleaned], [late] = third.inputs, fourth.inputs
        since = next(
            (
                e.serial
                for e in cleaned.events
                if utc(json.loads(e.payload)["stored_at"]).timestamp() >= moment
            ),
            None,
        )
        if since is None:
            continue
        measured = [e for e in cleaned.events if e.serial >= since]
        forwarded = [e for e in late.events if json.loads(e.payload)["serial"] >= since]
        for job, stored, events in ((third, cleaned, measured), (fourth, late, forwarded)):
            only: StoredInput = replace(stored, events=events)
            truth = {**truth, **JobTruth.of(job.spec, [only]).expected}
            observations += job.collector.observations
    return truth, observations


async def _processed_all(sampler: Sampler) -> bool:
    await sampler.look(sampler.jobs)
    return all(sampler.lag(job) == 0 for job in sampler.jobs)


def _sent(sampler: Sampler) -> int:
    return sum(len(device.sent) for device in sampler.devices)
