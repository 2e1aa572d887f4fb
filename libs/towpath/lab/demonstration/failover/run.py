"""A run of the demonstration: jobs flow, their site dies, they go on at the standby, the site returns."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

from towpath.checker.collector import ResultCollector, ResultCollectors
from towpath.checker.identity import EventIdentity
from towpath.checker.observation import ReceivedMessage
from towpath.contracts.commands import DeployJob, OperationState, ShowOperation
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import JobSpec
from towpath.contracts.standby import FailOverJob, ForecastFailover, ListStandbys, StandbyView
from towpath.lab.demonstration.failover.jobs import (
    CLOUD,
    LOST,
    SITES,
    STAYS,
    TOKEN_TOPIC,
    TOKENS,
    backlog,
    departures_at,
    jobs,
    reports,
)
from towpath.lab.demonstration.failover.report import FailedOverJob, FailoverReport, Moments
from towpath.lab.demonstration.queries.running_text import until_counted
from towpath.lab.guard.machine import Machine
from towpath.lab.harness.judge import identity_for, unstored
from towpath.lab.harness.load import Device, send, send_when_due
from towpath.lab.harness.observer import ATTEMPT_S, ObservedJob, ReceivedResult, observed_job, subscriber
from towpath.lab.harness.report import Judgement, MoveReport
from towpath.lab.harness.stage import ASK_S, Say, Stage, quiet
from towpath.lab.workload.replay import ReplayReport
from towpath.tasks import NotInTime, end, to_the_end, until

BACKLOG_RATE = 4_000.0
"""Tokens per second: a micro-batch of some thousands is quick."""

ENGINE_S = 300.0
"""Seconds for a deployment: the first at a site starts its engine, which can take a busy machine minutes."""

READY_S = 300.0
"""Seconds for all jobs to have results and copies. On a busy machine, an engine needs a minute to start."""

FRESH_S = 30.0
"""Greatest age of a result's newest event, and of a copy, of jobs that keep up. On a quiet machine, windows
close four seconds after their end, and copies are five seconds old."""

SHOWN_S = 12.0
"""Seconds of ordinary work before the site dies, and of work at the standby before it returns: enough to be
seen in the picture."""

MISSED_S, FAIL_OVER_S, ORDINARY_S = 60.0, 180.0, 240.0
"""Time limits. The coordinator misses a site after five seconds."""

AWAY_S = 600.0
"""Seconds that devices wait for their site."""

STOP_S, SETTLE_S, QUIET_S = 120.0, 300.0, 30.0
LOOK_EVERY_S = 0.2


@dataclass(frozen=True)
class FailoverOptions:
    """The size of a run."""

    rate: float = 100.0
    """Events per second at each airport."""
    state_mb: int = 100
    """Megabytes of state of one job. 0: without that job."""


@dataclass(frozen=True)
class FailoverOutcome:
    """The report of a run, and the data of its picture."""

    report: FailoverReport
    arrivals: dict[str, list[ReceivedResult]]
    """Job → its results as they came, from all its outputs."""


@dataclass
class FailoverDemonstration:
    """One run. `say` is told in a few words what is under way."""

    stage: Stage
    options: FailoverOptions = field(default_factory=FailoverOptions)
    say: Say = quiet
    _forecasts: dict[str, StandbyView] = field(default_factory=dict[str, StandbyView])
    _ran_at: dict[str, float] = field(default_factory=dict[str, float])
    _operations: dict[str, MoveReport] = field(default_factory=dict[str, MoveReport])
    _problems: list[str] = field(default_factory=list)
    _copy_mb: float | None = None

    async def run(self) -> FailoverOutcome:
        """Everything, in order. Raises `TowpathError` when a command is refused or fails."""
        specs = jobs(tokens=self.options.state_mb > 0)
        self.say(f"{len(specs)} jobs start at {LOST}")
        async with AsyncExitStack() as exits:
            # Those that read others' results come later: the topics must be there.
            for from_device in (True, False):
                deploying = (
                    self.stage.bus.request(DeployJob(spec=spec), deadline_s=ENGINE_S, attempt_s=ATTEMPT_S)
                    for spec in specs
                    if spec.inputs[0].from_device == from_device
                )
                await asyncio.gather(*deploying)
            observed = [await self._observed(exits, spec) for spec in specs]
            if self.options.state_mb:
                await self._fill()
            async with self._devices() as devices:
                await self._until_ready(observed)
                moments = await self._die_and_return(observed)
                self.say("the last events are sent and computed")
                for device in devices:
                    await device.stop(STOP_S)
            return await self._outcome(observed, devices, moments)

    async def _observed(self, exits: AsyncExitStack, spec: JobSpec) -> ObservedJob:
        """Subscribe to a job's results, also where the output of the site that dies goes on."""
        job = await exits.enter_async_context(observed_job(self.stage, spec, deploy=False))
        if job.view.output.site == LOST:
            topics = [job.view.output.topic, job.view.output.rejected_topic]
            new = subscriber(self.stage.mesh, CLOUD, topics, f"standby-{spec.name}", identity_for(spec))
            await exits.enter_async_context(new)
            assert isinstance(job.collector, ResultCollector)
            job.collector = ResultCollectors(job.collector, new)
        return job

    async def _fill(self) -> None:
        """Let the job with much state have it."""
        events = backlog(self.options.state_mb)
        self.say(f"{TOKENS} gets {self.options.state_mb} MB of state")
        await send(self.stage.mesh.site(STAYS), TOKEN_TOPIC, events, BACKLOG_RATE)
        await until_counted(self.stage, {TOKENS: len(events)})

    @asynccontextmanager
    async def _devices(self) -> AsyncIterator[list[Device]]:
        """Let devices of both airports send. What has no acknowledgement when the site dies is sent again."""
        devices = [
            Device(departures_at(site, self.options.rate), self.stage.mesh.site(site), site, 0, 0, AWAY_S)
            for site in (LOST, STAYS)
        ]
        enough, tasks = asyncio.Event(), list[asyncio.Task[ReplayReport]]()
        if self.options.state_mb:
            reporting = send_when_due(self.stage.mesh.site(STAYS), TOKEN_TOPIC, reports(enough.is_set))
            tasks.append(asyncio.create_task(reporting, name="reports"))
        for device in devices:
            device.start()
        try:
            yield devices
            enough.set()
            await asyncio.gather(*tasks)
        finally:
            await end(tasks)
            for device in devices:
                await device.cancel()

    async def _until_ready(self, observed: Sequence[ObservedJob]) -> None:
        self.say("events flow; waiting until all jobs keep up, and their standbys have fresh copies")

        async def ready() -> bool:
            for job in observed:
                job.look()
            answer = await self.stage.bus.request(ListStandbys(), deadline_s=ASK_S, attempt_s=ATTEMPT_S)
            copies = all(each.behind_s is not None and each.behind_s < FRESH_S for each in answer.standbys)
            since = time.time() - FRESH_S
            return copies and all(any(each.stored_at > since for each in job.arrivals) for job in observed)

        await _until(ready, READY_S, "not all jobs keep up and have fresh copies")
        self.say("everything flows")
        await asyncio.sleep(SHOWN_S)

    async def _die_and_return(self, observed: Sequence[ObservedJob]) -> Moments:
        machine = Machine(self.stage.home, LOST)
        try:
            await to_the_end(asyncio.to_thread(machine.switch_off))
            died_at = time.time()
            self.say(f"{LOST} is dead: all its processes are killed")
            self._copy_mb = await asyncio.to_thread(self._size_of_copy)
            await _until(partial(self.stage.is_missed, LOST), MISSED_S, f"{LOST} is not missed")
            missed_at = time.time()
            await self._forecast(observed)
            decided_at = time.time()
            self.say(f"decided: the jobs of {LOST} go on at {CLOUD}")
            await asyncio.gather(*(self._fail_over(job.name) for job in observed))
            went_on_at = time.time()
            self.say(f"the jobs went on after {went_on_at - decided_at:.1f} s; {LOST} stays dead for a while")
            await asyncio.sleep(SHOWN_S)
        finally:
            machine.let_start()
        returned_at = time.time()
        self.say(f"{LOST} is switched on again")
        for job in observed:
            await self.stage.until_settled(job.name, ORDINARY_S)
        ordinary_at = time.time()
        self.say(f"{LOST} is an ordinary site after {ordinary_at - returned_at:.1f} s")
        await asyncio.sleep(SHOWN_S)
        return Moments(
            died_at=died_at,
            missed_at=missed_at,
            decided_at=decided_at,
            went_on_at=went_on_at,
            returned_at=returned_at,
            ordinary_at=ordinary_at,
        )

    async def _forecast(self, observed: Sequence[ObservedJob]) -> None:
        """Ask what a failover would cost: `towpath failover jfk --dry-run`."""
        for job in observed:
            command = ForecastFailover(job=job.name)
            found = await self.stage.bus.request(command, deadline_s=ASK_S, attempt_s=ATTEMPT_S)
            self._forecasts[job.name] = found
            self.say(
                f"{job.name}: the copy is {found.behind_s} s old, {found.behind_events} events are processed "
                f"again, {found.lost_events} are on the lost disk only"
            )

    async def _fail_over(self, job: str) -> None:
        answer = await self.stage.bus.request(
            FailOverJob(job=job), deadline_s=FAIL_OVER_S, attempt_s=ATTEMPT_S
        )
        self._ran_at[job] = time.time()
        question = ShowOperation(operation=answer.operation)
        view = await self.stage.bus.request(question, deadline_s=ASK_S, attempt_s=ATTEMPT_S)
        self._operations[job] = MoveReport.of(view)
        if answer.state is not OperationState.COMPLETED:
            self._problems.append(f"{job} did not go on: {answer.state}, {answer.note}")

    def _size_of_copy(self) -> float | None:
        """Return the megabytes of the copy that the standby has of the job with much state."""
        copy = self.stage.home.jobs(CLOUD) / TOKENS / "cache"
        found = sum(path.stat().st_size for path in copy.rglob("*") if path.is_file())
        return round(found / 1e6, 1) or None

    async def _outcome(
        self, observed: Sequence[ObservedJob], devices: Sequence[Device], moments: Moments
    ) -> FailoverOutcome:
        for job in observed:
            if not await job.drained(SETTLE_S, QUIET_S):
                self._problems.append(f"not all results of {job.name} came")
        self.say("comparing every result with the batch computation")
        report = FailoverReport(
            rate=self.options.rate,
            sites=[*SITES],
            state_mb=self.options.state_mb,
            copy_mb=self._copy_mb,
            loads=[device.outcome for device in devices],
            stored_twice=sum(self._stored_twice(device, observed) for device in devices),
            moments=moments,
            jobs=[await self._job(job, moments) for job in observed],
            problems=self._problems,
        )
        return FailoverOutcome(report, {job.name: job.arrivals for job in observed})

    def _stored_twice(self, device: Device, observed: Sequence[ObservedJob]) -> int:
        """Return the events that a device's broker holds twice. That it lacks one is a problem of the run."""
        stored = next(
            s for job in observed for s in job.inputs if s.name == f"{device.load.site}/{device.load.topic}"
        )
        missing = unstored(device.sent, stored)
        if missing:
            self._problems.append(
                f"{len(missing):,} events were acknowledged at {device.load.site} and are not stored"
            )
        return len(stored.events) - len(device.sent) + len(missing)

    async def _job(self, job: ObservedJob, moments: Moments) -> FailedOverJob:
        now = await self.stage.ask_job(job.name)
        again = came_again(job.collector)
        judgement = Judgement.of(await job.verdict(), job.rejected)
        twice = {"duplicated": judgement.duplicated - again}
        if again:  # They would be the examples.
            twice |= {"examples": {k: e for k, e in judgement.examples.items() if k != "duplicated"}}
        judgement = judgement.model_copy(update=twice)
        before = max(
            (a.received_at for a in job.arrivals if a.received_at < moments.decided_at), default=None
        )
        first = min((a.received_at for a in job.arrivals if a.site == CLOUD), default=None)
        return FailedOverJob(
            job=job.name,
            reads=job.spec.inputs[0].site,
            output=job.view.output.site,
            output_now=now.output.site,
            forecast=self._forecasts[job.name],
            steps_s=self._operations[job.name].steps_s,
            ran_after_s=_between(moments.decided_at, self._ran_at[job.name]),
            first_result_after_s=_between(moments.decided_at, first),
            silent_s=_between(before, first),
            again=again,
            judgement=judgement,
        )


def came_again(collector: ResultCollector | ResultCollectors) -> int:
    """Return the results that came at more than one output, each under one id."""
    if isinstance(collector, ResultCollector):
        return 0
    came = Counter(known for each in collector.collectors for known in {o.identity for o in results_of(each)})
    return sum(times - 1 for times in came.values())


def results_of(collector: ResultCollector) -> list[ReceivedMessage]:
    """Return what came, without rejected events."""
    return [each for each in collector.observations if not isinstance(each.identity, EventIdentity)]


def _between(begin: float | None, end_at: float | None) -> float | None:
    return None if begin is None or end_at is None else round(end_at - begin, 2)


async def _until(condition: Callable[[], Awaitable[bool]], within_s: float, why_not: str) -> None:
    try:
        await until(condition, within_s, LOOK_EVERY_S)
    except NotInTime as error:
        raise TowpathError(ErrorCode.DEADLINE, f"{why_not}: {error}") from error
