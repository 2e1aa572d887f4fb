"""A job of a scenario from its deployment on: who hears its results, what its input holds, the verdict."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from nats.errors import Error as NatsError

from towpath.checker.accepted import StoredEvent
from towpath.checker.collector import ResultCollector
from towpath.checker.identity import Identity, Unreadable, utc
from towpath.checker.verdict import Verdict
from towpath.contracts.commands import DeployJob, JobView
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import JobSpec, ResolvedInput
from towpath.lab.harness import judge as jobs
from towpath.lab.harness.stage import Stage
from towpath.streams.pages import last_serial, read_after

DEPLOY_S, ATTEMPT_S = 90.0, 10.0
READ_S, LOOK_EVERY_S = 30.0, 0.2
QUIET_S = 3.0
"""Nothing came for so long after everything was processed: what is missing then does not come."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A result as its subscriber saw it."""

    received_at: float
    latency_s: float
    """Since its newest event was stored."""
    site: str
    """Where it was computed."""


@dataclass
class ObservedJob:
    """A job whose results are heard."""

    stage: Stage
    spec: JobSpec
    view: JobView
    collector: ResultCollector
    after: dict[str, int]
    """Input → serial number behind which it begins."""
    arrivals: list[Arrival] = field(default_factory=list)
    changed: bool = False
    """It does not compute what it was deployed for any more."""
    stored: list[StoredEvent] = field(default_factory=list)
    _came: set[Identity] = field(default_factory=set)
    _looked_at: int = 0

    @property
    def name(self) -> str:
        """Of the job."""
        return self.spec.name

    @property
    def judged(self) -> bool:
        """Whether there is a truth about it."""
        return jobs.judged(self.spec) and not self.changed

    def look(self) -> None:
        """Take in what has come since the last look."""
        observations = self.collector.observations
        for observation in observations[self._looked_at :]:
            self._came.add(observation.identity)
            body = observation.body if not isinstance(observation.identity, Unreadable) else {}
            if "stored_at" in body and observation.topic != self.spec.output.rejected_topic:
                latency = observation.received_at - utc(body["stored_at"]).timestamp()
                self.arrivals.append(Arrival(observation.received_at, latency, body.get("site", "")))
        self._looked_at = len(observations)

    def gap_s(self, now: float) -> float | None:
        """How long ago the newest result came; null if none has."""
        return now - self.arrivals[-1].received_at if self.arrivals else None

    def latency_s(self, since: float) -> float | None:
        """Median over the results that came since then; null if none did."""
        latencies: list[float] = []
        for arrival in reversed(self.arrivals):
            if arrival.received_at < since:
                break
            latencies.append(arrival.latency_s)
        return statistics.median(latencies) if latencies else None

    async def drained(self, within_s: float) -> bool:
        """Wait until everything has come that should, or nothing comes any more; whether all came.

        Nothing may be sending any more. Raises `TowpathError` when the input cannot be read.
        """
        [entry] = self.view.inputs
        self.stored = await self._read(entry)
        end = time.time() + within_s
        while time.time() < end:
            self.look()
            if await asyncio.to_thread(jobs.complete, self.spec, self.stored, self._came):
                return True
            if (self.gap_s(time.time()) or 0.0) > QUIET_S and await self._processed_all(entry):
                return False
            await asyncio.sleep(LOOK_EVERY_S)
        return False

    async def verdict(self) -> Verdict:
        """On all results since it was deployed."""
        observations = list(self.collector.observations)
        return await asyncio.to_thread(jobs.verdict, self.spec, self.stored, observations)

    async def _processed_all(self, entry: ResolvedInput) -> bool:
        if not self.stored:
            return True
        views = await self.stage.ask_jobs()
        status = next((view.status for view in views if view.spec.name == self.name), None)
        return status is not None and status.serials.get(entry.name, 0) >= self.stored[-1].serial

    async def _read(self, entry: ResolvedInput) -> list[StoredEvent]:
        end = time.time() + READ_S
        while True:
            try:
                after = self.after[entry.name]
                messages = await read_after(self.stage.bus.connection, entry.site, entry.stream, after)
                break
            except (TimeoutError, NatsError) as error:
                if time.time() > end:
                    raise TowpathError(ErrorCode.UNREACHABLE, f"cannot read the input: {error}") from error
                await asyncio.sleep(LOOK_EVERY_S)
        return [StoredEvent(m.serial, m.body) for m in messages if entry.subject in (None, m.subject)]


@asynccontextmanager
async def observed_job(stage: Stage, spec: JobSpec, *, deploy: bool = True) -> AsyncIterator[ObservedJob]:
    """Deploy a job, unless it is there, and subscribe to its results. It is not removed in the end.

    Raises `TowpathError`, and `TimeoutError` when the site of an input does not answer.
    """
    if deploy:
        await stage.bus.request(DeployJob(spec=spec), deadline_s=DEPLOY_S, attempt_s=ATTEMPT_S)
    view = next((view for view in await stage.ask_jobs() if view.spec.name == spec.name), None)
    if view is None:
        raise TowpathError(ErrorCode.UNKNOWN_JOB, "the job is not there", field="job", value=spec.name)
    out = stage.mesh.site(view.output.site)
    collector = ResultCollector(
        out.mqtt_host,
        out.mqtt_port,
        [view.output.topic, view.output.rejected_topic],
        f"scenario-{spec.name}",
        out.device.user,
        out.device.password,
        identity=jobs.identity_for(spec),
    )
    async with collector:
        after: dict[str, int] = {}
        for entry in view.inputs:
            known = entry.after_serial
            if known is None:
                known = await last_serial(stage.bus.connection, entry.site, entry.stream)
            after[entry.name] = known
        yield ObservedJob(stage, spec, view, collector, after)
