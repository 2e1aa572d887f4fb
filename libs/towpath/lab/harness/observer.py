"""Observe a job from its deployment on: a subscriber hears its results, and its input is read back."""

from __future__ import annotations

import asyncio
import math
import statistics
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime

from nats.errors import Error as NatsError

from towpath.checker.accepted import StoredEvent
from towpath.checker.collector import ResultCollector, ResultCollectors
from towpath.checker.identity import Identity, IdentityOf, Unreadable, utc
from towpath.checker.verdict import Verdict
from towpath.contracts.commands import DeployJob, JobView
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import JobSpec, JobStatus, ResolvedInput
from towpath.contracts.operators import Query
from towpath.lab.harness.answers import EPOCH
from towpath.lab.harness.answers_truth import AnswersTruth
from towpath.lab.harness.judge import JobTruth, StoredInput, identity_for, judged, truth_of
from towpath.lab.harness.stage import Stage
from towpath.mesh.site_broker import site_broker
from towpath.mesh.state import MeshState
from towpath.streams.pages import PAGE, last_serial, page, pages_after

DEPLOY_S, ATTEMPT_S = 90.0, 10.0
READ_S, LOOK_EVERY_S = 40.0, 0.2
QUIET_S = 10.0
"""Nothing came for so long after everything was processed: what is missing then does not come. The last
windows need another micro-batch, which takes seconds on a busy machine."""


@dataclass(frozen=True, slots=True)
class ReceivedResult:
    """A result as its subscriber saw it."""

    received_at: float
    latency_s: float
    """Since its newest event was stored."""
    site: str
    """Where it was computed."""

    @property
    def stored_at(self) -> float:
        """Unix seconds, when its newest event was stored."""
        return self.received_at - self.latency_s


@dataclass
class ObservedJob:
    """A job whose results are heard."""

    stage: Stage
    spec: JobSpec
    view: JobView
    collector: ResultCollector | ResultCollectors
    inputs: list[StoredInput]
    """The contents of its inputs, as far as they were read."""
    after: dict[str, int]
    """Input → serial number behind which it begins."""
    sources: Sequence[ObservedJob] = ()
    """Of a job that answers queries: the jobs that make panes of events for it."""
    arrivals: list[ReceivedResult] = field(default_factory=list)
    changed: bool = False
    """True if it does not owe any more what it owed when it was deployed."""
    changed_by: datetime = EPOCH
    """Time of the newest event when its last change was complete, as far as its load tells."""
    ended_after: Mapping[str, int] | None = None
    """Input → last serial number that it processed before it was removed. None: it was not removed."""
    heard_whole: bool = True
    """False if it began with older events: their results may have come before the subscription."""
    rejected: int = 0
    """Rejected events that have come."""
    since: float = field(default_factory=time.time)
    """Unix seconds, when its inputs were looked at for the first time."""
    _truth: JobTruth | AnswersTruth | None = None
    """Set when it is drained."""
    _came: set[Identity] = field(default_factory=set)
    _looked_at: int = 0

    @property
    def name(self) -> str:
        """Of the job."""
        return self.spec.name

    @property
    def judged(self) -> bool:
        """True if it can be judged."""
        return judged(self.spec) and self.heard_whole and not self.changed and self._has_known_events

    @property
    def _has_known_events(self) -> bool:
        """False if the jobs that make its panes are not observed, or no one says how far they had come."""
        return not isinstance(self.spec.operator, Query) or (bool(self.sources) and self.ended_after is None)

    @property
    def event_inputs(self) -> list[StoredInput]:
        """The inputs that hold the events of its truth, as far as they were read."""
        return [each for job in self.sources for each in job.inputs] or self.inputs

    def look(self) -> None:
        """Take in what has come since the last look."""
        observations = self.collector.observations
        for observation in observations[self._looked_at :]:
            self._came.add(observation.identity)
            if observation.topic == self.spec.output.rejected_topic:
                self.rejected += 1
                continue
            body = observation.body if not isinstance(observation.identity, Unreadable) else {}
            if "stored_at" in body:
                latency = observation.received_at - utc(body["stored_at"]).timestamp()
                self.arrivals.append(ReceivedResult(observation.received_at, latency, body.get("site", "")))
        self._looked_at = len(observations)

    def gap_s(self, now: float) -> float | None:
        """Return the seconds since the newest result came. None if none has."""
        return now - self.arrivals[-1].received_at if self.arrivals else None

    def latency_s(self, since: float) -> float | None:
        """Return the median over the results that came since then. None if none did."""
        latencies: list[float] = []
        for arrival in reversed(self.arrivals):
            if arrival.received_at < since:
                break
            latencies.append(arrival.latency_s)
        return statistics.median(latencies) if latencies else None

    async def recovered_after(self, moment: float, within_s: float) -> float | None:
        """Return the seconds from `moment` to the first result of later events. None if none came in time.

        The moment may be long past: a result that came before this is asked counts from when it came.
        """
        while True:
            self.look()
            # Both: a server whose clock is ahead has stored events later than they came.
            came = (each.received_at for each in self.arrivals if each.stored_at > moment)
            came_at = next((at for at in came if at > moment), None)
            if came_at is not None:
                return came_at - moment if came_at <= moment + within_s else None
            if time.time() > moment + within_s:
                return None
            await asyncio.sleep(LOOK_EVERY_S)

    async def drained(self, within_s: float, quiet_s: float = QUIET_S) -> bool:
        """Wait until all results have come, or none came for `quiet_s` after all events were processed.

        Return true if all came. Of a job that cannot be judged, all have come when it has processed its
        inputs. Nothing may be sending any more, and the jobs that it reads from must be drained. Raises
        `TowpathError` when an input cannot be read.
        """
        inputs = await self._inputs_now()
        if self.judged:
            for job in self.sources or [self]:
                await job.read_inputs()
            await asyncio.to_thread(self.take_truth)
        if self.judged and not self.sources:
            newest = {stored.name: stored.events[-1].serial for stored in self.inputs if stored.events}
        else:
            newest = {entry.name: await self._newest(entry) for entry in inputs}
        truth, processed_at = self._truth, math.inf
        end = time.time() + within_s
        while time.time() < end:
            self.look()
            if truth and await asyncio.to_thread(truth.complete, self._came):
                return True
            if await self._processed(newest):
                processed_at = min(processed_at, time.time())
                came_at = self.arrivals[-1].received_at if self.arrivals else 0.0
                if truth is None or time.time() - max(came_at, processed_at) > quiet_s:
                    return truth is None
            await asyncio.sleep(LOOK_EVERY_S)
        return False

    async def read_inputs(self) -> None:
        """Read what its inputs hold. Raises `TowpathError` when one cannot be read."""
        for entry, stored in zip(await self._inputs_now(), self.inputs, strict=True):
            await self._read(entry, stored)

    def take_truth(self) -> None:
        """Compute the results that the job owes for what was read of its inputs. Blocks."""
        self._truth = truth_of(self.spec, self._processed_inputs(), self.view.spec, self.changed_by)

    def _processed_inputs(self) -> list[StoredInput]:
        """Return the inputs as far as the job is to process them."""
        if self.ended_after is None:
            return self.event_inputs
        return [
            replace(each, events=[e for e in each.events if e.serial <= self.ended_after.get(each.name, 0)])
            for each in self.inputs
        ]

    async def also_hear(self, spec: JobSpec, exits: AsyncExitStack) -> None:
        """Hear results at the site and the topic that they have in this description, too."""
        new = subscriber_of(self.stage, spec, spec.output_site, f"-{spec.output_site}")
        await exits.enter_async_context(new)
        known = self.collector
        before = [known] if isinstance(known, ResultCollector) else known.collectors
        self.collector = ResultCollectors(*before, new)

    async def verdict(self, *, in_order: bool = False) -> Verdict:
        """Judge all results since its deployment, once it is drained. `in_order`: see `JobTruth.verdict`."""
        assert self._truth is not None, "drain it first: the truth is about what its inputs hold"
        observations = list(self.collector.observations)
        return await asyncio.to_thread(self._truth.verdict, observations, in_order=in_order)

    async def _processed(self, newest: Mapping[str, int]) -> bool:
        """True if its owner has processed its inputs up to these serial numbers."""
        status = await self._status() if newest else None
        return not newest or (
            status is not None and all(status.serials.get(name, 0) >= newest[name] for name in newest)
        )

    async def _status(self) -> JobStatus | None:
        view = await self.stage.find_job(self.name)
        return view.status if view else None

    async def _inputs_now(self) -> list[ResolvedInput]:
        """Return its inputs, with the sites where they are now. A job that is gone has those that it had."""
        view = await self.stage.find_job(self.name)
        known = [entry.place for entry in self.view.inputs]
        same = view is not None and [entry.place for entry in view.inputs] == known
        return view.inputs if view is not None and same else self.view.inputs

    async def _newest(self, entry: ResolvedInput) -> int:
        """Return the newest serial number in an input; 0 if none of the last events is for the job."""
        connection = self.stage.bus.connection
        last = await last_serial(connection, entry.origin, entry.stream)
        messages = await page(connection, entry.origin, entry.stream, max(1, last - PAGE + 1)) if last else []
        return max((m.serial for m in messages if entry.subject in (None, m.subject)), default=0)

    async def _read(self, entry: ResolvedInput, stored: StoredInput) -> None:
        """Read an input page by page, with rests, because the subscriber shares the event loop.

        A result that it has not acknowledged after ten seconds comes again, and counts as published twice.
        """
        end = time.time() + READ_S
        while True:
            after = stored.events[-1].serial if stored.events else self.after[entry.name]
            try:
                connection = self.stage.bus.connection
                async for messages in pages_after(connection, entry.origin, entry.stream, after):
                    wanted = (m for m in messages if entry.subject in (None, m.subject))
                    stored.events += [StoredEvent(m.serial, m.body) for m in wanted]
                    await asyncio.sleep(LOOK_EVERY_S)
                return
            except (TimeoutError, NatsError) as error:
                if time.time() > end:
                    raise TowpathError(ErrorCode.UNREACHABLE, f"cannot read the input: {error}") from error
                await asyncio.sleep(LOOK_EVERY_S)


def subscriber(
    mesh: MeshState, site: str, topics: Sequence[str], name: str, identity: IdentityOf
) -> ResultCollector:
    """An ordinary subscriber at a site's broker, called so there."""
    access = mesh.site(site)
    return ResultCollector(site_broker(access, access.client), topics, name, identity)


def subscriber_of(stage: Stage, spec: JobSpec, site: str, suffix: str = "") -> ResultCollector:
    """The subscriber to a job's results at a site."""
    topics = [spec.output.topic, spec.output.rejected_topic]
    return subscriber(stage.mesh, site, topics, f"scenario-{spec.name}{suffix}", identity_for(spec))


@asynccontextmanager
async def observed_job(
    stage: Stage, spec: JobSpec, *, deploy: bool = True, heard: ResultCollector | None = None
) -> AsyncIterator[ObservedJob]:
    """Deploy a job, unless it is there, and subscribe to its results. It is not removed in the end.

    `heard` has subscribed already, and stays when the block ends. Raises `TowpathError`, and `TimeoutError`
    when the site of an input does not answer.
    """
    if deploy:
        await stage.bus.request(DeployJob(spec=spec), deadline_s=DEPLOY_S, attempt_s=ATTEMPT_S)
    view = await stage.ask_job(spec.name)
    async with nullcontext(heard) if heard else subscriber_of(stage, spec, view.output.site) as collector:
        after: dict[str, int] = {}
        heard_whole = True
        for entry in view.inputs:
            known = entry.after_serial
            if known is None:
                known = await last_serial(stage.bus.connection, entry.site, entry.stream)
                heard_whole = heard_whole and known == 0
            after[entry.name] = known
        inputs = [StoredInput(entry.name, entry.from_device) for entry in view.inputs]
        yield ObservedJob(stage, spec, view, collector, inputs, after, heard_whole=heard_whole)
