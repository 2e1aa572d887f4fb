"""Runs the demonstration on a mesh that is up: deploys, replays, migrates, collects, judges."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from dataclasses import dataclass, field

from towpath.checker.collector import ResultCollectors
from towpath.checker.verdict import Verdict
from towpath.contracts.commands import (
    DeployJob,
    MigrateJob,
    OperationView,
    ShowOperation,
    StrategyName,
)
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import JobSpec
from towpath.contracts.operators import Window
from towpath.lab.demonstration.pipeline import (
    CLEAN_TOPIC,
    CLOUD,
    DEVICE_TOPIC,
    EDGES,
    HOURLY_TOPIC,
    MOVING_JOB,
    PACE_JOB,
    PACE_TOPIC,
    pace_job,
    pipeline,
)
from towpath.lab.demonstration.report import DemonstrationReport, arrivals
from towpath.lab.demonstration.truth import (
    Truth,
    covered,
    identity_in_pipeline,
    judge_pace,
    last_input,
    truth_of,
    verdict_on,
)
from towpath.lab.harness.load import send
from towpath.lab.harness.observer import ReceivedResult
from towpath.lab.harness.receiving import received, subscribers, until, until_quiet
from towpath.lab.harness.stage import Say, Stage, quiet
from towpath.lab.workload.departures import closing_event, departures, with_malformed
from towpath.lab.workload.replay import ReplayReport
from towpath.reports.asking import migration_facts
from towpath.reports.facts import MigrationFacts

log = logging.getLogger(__name__)

DEPLOY_S = 120.0
MIGRATE_S = 180.0
ATTEMPT_S = 10.0
AGAIN_S = 2.0
"""Seconds before a migration that was rolled back is requested again."""


@dataclass(frozen=True)
class DemonstrationOptions:
    """The size of a run."""

    per_airport: int = 22_000
    """Departures of each airport."""
    edges: tuple[str, ...] = EDGES
    """The airports that are sites of the mesh; that of the moving job is one of them."""
    rate: float = 300.0
    """Events per second at each airport."""
    malformed_every: int = 200
    """After so many departures one malformed record."""
    strategy: StrategyName = StrategyName.AUTO
    move_at: tuple[float, ...] = (0.5, 0.8)
    """Shares of the replay at which the job moves: to the cloud, and back."""
    trigger_s: float = 3.0
    """Ten jobs share two cores, and a micro-batch costs 0.2 to 0.4 core seconds however small it is."""
    settle_s: float = 90.0
    """Seconds that results may take after the last event."""

    @property
    def moving_job(self) -> str:
        """The job that changes site: one that the strategy is for."""
        return PACE_JOB if self.strategy is StrategyName.PARALLEL else MOVING_JOB


@dataclass
class Outcome:
    """The report of a run, and the data of its picture and page."""

    report: DemonstrationReport
    verdict: Verdict
    moving_job: str
    moving: list[ReceivedResult]
    passing: list[ReceivedResult]
    moves: list[MigrationFacts]


@dataclass
class Demonstration:
    """One run. `say` shows people what is under way."""

    stage: Stage
    options: DemonstrationOptions
    say: Say = quiet
    _replayed: dict[float, asyncio.Event] = field(default_factory=dict)
    """Share of the moving job's airport → set when so much has been sent; migrations wait for it."""

    def __post_init__(self) -> None:
        """One event for each migration."""
        self._replayed = {share: asyncio.Event() for share in self.options.move_at}
        moves_pace = self.options.moving_job == PACE_JOB
        self._pace = pace_job() if moves_pace else None

    async def run(self) -> Outcome:
        """Run everything in order. Raises `TowpathError` if a command is refused or fails."""
        begun = time.time()
        edges = self.options.edges
        jobs = pipeline(self.options.per_airport, self.options.trigger_s, edges)
        operator = _window(jobs)
        if self._pace is not None:
            jobs.append(self._pace)
        sent = {edge: self._events(edge) for edge in edges}
        await self.deploy(jobs)
        places = [(site, topic) for site in (*edges, CLOUD) for topic in self._topics(site)]
        async with subscribers(self.stage.mesh, places, identity_in_pipeline) as collectors:
            replays, migrations = await self._under_load(sent)
            # Only now: it would take the interpreter from the subscribers, whose clock measures latency.
            truth = await asyncio.to_thread(truth_of, sent, operator)
            await self._settled(collectors, truth)
            observations = collectors.observations
        verdict = await asyncio.to_thread(verdict_on, truth, observations)
        if self._pace is not None:
            verdict.add(await judge_pace(self.stage.bus, self._pace, observations))
        moving, passing = arrivals(observations, self.options.moving_job, operator.watermark_s)
        seconds = time.time() - begun
        report = DemonstrationReport.of(verdict, observations, replays, migrations, passing, seconds)
        moves = [await migration_facts(self.stage.bus, view.operation) for view in migrations]
        return Outcome(report, verdict, self.options.moving_job, moving, passing, moves)

    async def deploy(self, jobs: list[JobSpec]) -> None:
        """Deploy all jobs; those that do not read each other's output at once."""
        for stage in _stages(jobs):
            self.say(f"deploying {', '.join(job.name for job in stage)}")
            await asyncio.gather(*(self._deploy(job) for job in stage))

    async def _deploy(self, job: JobSpec) -> None:
        await self.stage.bus.request(DeployJob(spec=job), deadline_s=DEPLOY_S, attempt_s=ATTEMPT_S)

    async def migrate(self, job: str, to: str) -> OperationView:
        """Move a job and return the operation with its figures.

        A migration that meets a site in trouble is rolled back, and the job runs on where it was: then
        it is asked for again. Raises `TowpathError` when it does not succeed in time.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + MIGRATE_S
        while True:
            command = MigrateJob(job=job, to=to, strategy=self.options.strategy)
            try:
                answer = await self.stage.bus.request(command, deadline_s=MIGRATE_S, attempt_s=ATTEMPT_S)
            except TowpathError as error:
                if error.detail.code not in (ErrorCode.FAILED, ErrorCode.SITE_DOWN) or loop.time() > end:
                    raise
                self.say(f"{job} stays where it is ({error.detail.message}); again")
                await asyncio.sleep(AGAIN_S)
            else:
                shown = ShowOperation(operation=answer.operation)
                return await self.stage.bus.request(shown, deadline_s=DEPLOY_S, attempt_s=ATTEMPT_S)

    async def _under_load(
        self, sent: dict[str, list[bytes]]
    ) -> tuple[list[ReplayReport], list[OperationView]]:
        async with asyncio.TaskGroup() as group:
            moving = group.create_task(self._move())
            replays = [group.create_task(self._replay(edge, events)) for edge, events in sent.items()]
        return [task.result() for task in replays], moving.result()

    async def _move(self) -> list[OperationView]:
        """Move the job to the cloud and back, each when its share of the events has been sent."""
        job = self.options.moving_job
        home = job.rsplit("-", 1)[1]
        done: list[OperationView] = []
        for share, to in zip(self.options.move_at, itertools.cycle((CLOUD, home)), strict=False):
            await self._replayed[share].wait()
            self.say(f"moving {job} to {to}")
            done.append(await self.migrate(job, to))
            figures = done[-1].figures
            self.say(f"{job} is at {to}" + (f" after {figures.total_s:.1f} s" if figures else ""))
        return done

    async def _replay(self, edge: str, events: list[bytes]) -> ReplayReport:
        access = self.stage.mesh.site(edge)
        moves = self.options.moving_job.endswith(edge)

        def progress(report: ReplayReport) -> None:
            for share, reached in self._replayed.items():
                if moves and report.acknowledged >= share * len(events):
                    reached.set()

        return await send(access, DEVICE_TOPIC, events, self.options.rate, progress)

    def _events(self, edge: str) -> list[bytes]:
        airport = edge.upper()
        real = departures(airport, self.options.per_airport)
        disturbed = with_malformed(real, self.options.malformed_every)
        return [event.payload for event in disturbed] + [closing_event(airport).payload]

    def _topics(self, site: str) -> list[str]:
        topics = [HOURLY_TOPIC]
        if site in self.options.edges:
            topics += [CLEAN_TOPIC, f"{CLEAN_TOPIC}/rejected"]
        if self._pace is not None and site == self._pace.output_site:
            topics.append(PACE_TOPIC)
        return topics

    async def _settled(self, collectors: ResultCollectors, truth: Truth) -> None:
        """Wait until all expected results have come. Those that have not in time are lost."""
        self.say(f"waiting for the last of {truth.messages:,} messages")
        end = 0 if self._pace is None else await last_input(self.stage.bus, self._pace)

        def complete() -> bool:
            return received(collectors) >= truth.messages and (
                end == 0 or covered(collectors.observations) >= end
            )

        if not await until(collectors, complete, self.options.settle_s):
            log.warning("not all results came within %g s", self.options.settle_s)
        await until_quiet(collectors, 2 * self.options.trigger_s)


def _stages(jobs: list[JobSpec]) -> list[list[JobSpec]]:
    """Jobs in the order of the data: each stage reads only what earlier ones publish."""
    stages: list[list[JobSpec]] = []
    known: set[tuple[str, str]] = set()
    left = list(jobs)
    while left:
        stage = [j for j in left if all(i.from_device or (i.site, i.topic) in known for i in j.inputs)]
        stages.append(stage)
        known |= {(job.output_site, job.output.topic) for job in stage}
        left = [job for job in left if job not in stage]
    return stages


def _window(jobs: list[JobSpec]) -> Window:
    operator = next(job.operator for job in jobs if job.name == MOVING_JOB)
    assert isinstance(operator, Window)
    return operator
