"""The job that a drill moves: deployed, loaded, observed by an ordinary subscriber, judged, removed."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from nats.errors import Error as NatsError

from towpath.checker.collector import ResultCollector
from towpath.checker.identity import Identity, utc
from towpath.checker.verdict import Verdict
from towpath.contracts.commands import DeployJob, RemoveJob
from towpath.contracts.data_plane import IN_STREAM
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.lab.harness.events import WATERMARK_S, DrillEvent, EventClock, Load
from towpath.lab.harness.stage import INPUT_SITE, OTHER_SITE, OUTPUT_SITE, Stage
from towpath.lab.harness.workload import Workload, disorder_s
from towpath.streams.pages import StoredMessage, last_serial, pages_after

DEPLOY_S, REMOVE_S, ATTEMPT_S = 90.0, 60.0, 10.0
FIRST_EVENTS_S = 30.0
DRAIN_S = 40.0
LOOK_EVERY_S = 0.1


@dataclass
class MovingJob:
    """A job from its deployment on. Several cells may move it, to and fro."""

    stage: Stage
    workload: Workload
    name: str
    clock: EventClock
    collector: ResultCollector
    first_number: int
    """The first event that is meant for it."""
    after: int
    """Serial number in the input behind which it begins."""
    site: str = INPUT_SITE
    output_site: str = OUTPUT_SITE
    stored: list[tuple[int, DrillEvent]] = field(default_factory=list)
    """What the input holds, by serial number, as far as it was read."""
    came: set[Identity] = field(default_factory=set)
    newest_stored_at: float = 0.0
    """Unix seconds: of the newest event that is in any result."""
    given_up: set[int] = field(default_factory=set)
    """Events that the site's server acknowledged with a full disk, and did not store."""
    _looked_at: int = 0

    @property
    def elsewhere(self) -> str:
        """Where it can move."""
        return OTHER_SITE if self.site == INPUT_SITE else INPUT_SITE

    def load(self) -> Load:
        """A device that sends to it."""
        return Load(self.stage.mesh.site(INPUT_SITE), self.clock, self.name)

    def look(self) -> None:
        """Take in what has come since the last look."""
        observations = self.collector.observations
        for observation in observations[self._looked_at :]:
            self.came.add(observation.identity)
            if observation.body:
                stored_at = utc(json.loads(observation.payload)["stored_at"]).timestamp()
                self.newest_stored_at = max(self.newest_stored_at, stored_at)
        self._looked_at = len(observations)

    async def until_flowing(self) -> None:
        """Wait until its owner has processed events that were sent just now. Raises `TimeoutError`."""
        begun = time.time()
        async with asyncio.timeout(FIRST_EVENTS_S):
            while True:
                statuses = [v.status for v in await self.stage.ask_jobs() if v.spec.name == self.name]
                at = statuses[0].committed_at if statuses and statuses[0] else None
                if at is not None and at.timestamp() > begun:
                    return
                await asyncio.sleep(LOOK_EVERY_S)

    async def recovered_after(self, moment: float, within_s: float) -> float | None:
        """Seconds from `moment` until a result came of events stored after it; null if none did in time."""
        while time.time() < moment + within_s:
            self.look()
            if self.newest_stored_at > moment:
                return time.time() - moment
            await asyncio.sleep(LOOK_EVERY_S)
        return None

    async def drained(self) -> bool:
        """Wait until everything has come that should; whether it did. Nothing may be sending any more."""
        await self._read_input()
        end = time.time() + DRAIN_S
        while time.time() < end:
            self.look()
            if await asyncio.to_thread(self.workload.complete, self.name, self.stored, self.came):
                return True
            await asyncio.sleep(LOOK_EVERY_S * 3)
        return False

    async def verdict(self) -> Verdict:
        """On all results since it was deployed."""
        observations = list(self.collector.observations)
        return await asyncio.to_thread(self.workload.verdict, self.name, self.stored, observations)

    def unstored(self) -> list[int]:
        """Events that were acknowledged and are not stored, in order, but those that were given up."""
        stored = {event.number for _, event in self.stored}
        sent = range(self.first_number, self.clock.number + 1)
        return [number for number in sent if number not in stored and number not in self.given_up]

    def give_up_unstored(self) -> int:
        """Expect those no more; how many there are."""
        missing = self.unstored()
        self.given_up.update(missing)
        return len(missing)

    def input_faults(self) -> list[str]:
        """What went wrong before the job: with its events, or with their order."""
        missing = self.unstored()
        faults = [f"{len(missing)} acknowledged events are not stored, e.g. {missing[0]}"] if missing else []
        disorder = disorder_s(self.stored)
        if disorder > WATERMARK_S:
            faults.append(f"the load came {disorder:.1f} s out of order, more than the watermark waits")
        return faults

    async def _read_input(self) -> None:
        """Page by page, with rests: the subscriber shares the loop, and takes one message at each turn of it.
        What it has not acknowledged after ten seconds comes again, and would count as published twice."""
        connection = self.stage.bus.connection
        end = time.time() + DRAIN_S
        while True:
            after = self.stored[-1][0] if self.stored else self.after
            try:
                async for messages in pages_after(connection, INPUT_SITE, IN_STREAM, after):
                    self.stored += await asyncio.to_thread(_events_of, messages)
                    await asyncio.sleep(LOOK_EVERY_S)
                return
            except (TimeoutError, NatsError) as error:
                if time.time() > end:
                    raise TowpathError(ErrorCode.UNREACHABLE, f"cannot read the input: {error}") from error
                await asyncio.sleep(LOOK_EVERY_S)

    async def remove(self) -> None:
        """Take it away with its output. Raises `TowpathError`."""
        command = RemoveJob(job=self.name, purge=True)
        await self.stage.bus.request(command, deadline_s=REMOVE_S, attempt_s=ATTEMPT_S)


def _events_of(messages: Sequence[StoredMessage]) -> list[tuple[int, DrillEvent]]:
    return [(message.serial, DrillEvent.from_payload(message.body)) for message in messages]


@asynccontextmanager
async def moving_job(
    stage: Stage, workload: Workload, name: str, clock: EventClock, output_site: str
) -> AsyncIterator[MovingJob]:
    """Deploy a job and subscribe to its results. It is not removed in the end: see `MovingJob.remove`.

    Raises `TowpathError`, and `TimeoutError` when the site of the input does not answer.
    """
    spec = workload.spec(name, INPUT_SITE, INPUT_SITE, output_site)
    after = await last_serial(stage.bus.connection, INPUT_SITE, IN_STREAM)
    await stage.bus.request(DeployJob(spec=spec), deadline_s=DEPLOY_S, attempt_s=ATTEMPT_S)
    out = stage.mesh.site(output_site)
    collector = ResultCollector(
        out.mqtt_host,
        out.mqtt_port,
        [spec.output.topic, spec.output.rejected_topic],
        f"checker-{name}",
        out.device.user,
        out.device.password,
        identity=workload.identity,
    )
    async with collector:
        yield MovingJob(
            stage, workload, name, clock, collector, clock.number + 1, after, output_site=output_site
        )
