"""The train under way: its devices send, its link comes and goes, and at stations a job changes sides."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from towpath.checker.identity import utc
from towpath.checker.observation import ReceivedMessage
from towpath.contracts.commands import MigrateJob, ShowOperation, StrategyName
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.links import LinkConditions, RestoreLink, ShapeLink
from towpath.lab.demonstration.edge.jobs import RIDE, TRACKSIDE, TRAIN
from towpath.lab.demonstration.edge.report import Asked, ContactReport
from towpath.lab.harness.load import send
from towpath.lab.harness.observer import ObservedJob
from towpath.lab.harness.stage import Say, Stage
from towpath.lab.workload.journey import READY_S, Call, Journey
from towpath.lab.workload.replay import Replay, ReplayReport
from towpath.mesh.site_broker import site_broker
from towpath.tasks import end

LINK_S, ATTEMPT_S = 10.0, 2.0
"""The links' process answers at once."""

ACCEPT_S = 10.0
"""To plan a migration, the coordinator asks the source for the size of its state."""

SAFE_PART = 0.5
"""Part of what is left of a stop that a migration may take by its forecast. The rest is for a forecast that
is too low: a busy machine may need twice as long as the last time."""

LOOK_EVERY_S = 0.2

READY_RATE = 700.0
"""Reports per second while the train stands before the journey."""

INFLIGHT = 20_000
"""Reports that may wait for the train's broker: those of half a minute."""


@dataclass
class Travel:
    """One journey on a stage. `delivered` is the job that brings the train's events to the trackside."""

    stage: Stage
    journey: Journey
    topic: str
    """Where the accelerometers publish."""
    delivered: ObservedJob
    say: Say
    begun_at: float = 0.0
    """Unix seconds."""
    sent: ReplayReport = field(default_factory=ReplayReport)
    contacts: list[ContactReport] = field(default_factory=list)
    _link_at: float = 0.0
    _looked_at: int = 0

    async def make_ready(self, jobs: Sequence[ObservedJob]) -> None:
        """Let the standing train measure once a second until all of these jobs have results.

        The first micro-batches start Python workers, which takes a busy machine a minute. Raises
        `TowpathError` (deadline).
        """
        access = self.stage.mesh.site(TRAIN)
        for measured in self.journey.standing():
            await send(access, self.topic, [report.payload for report in measured], READY_RATE)
            await asyncio.sleep(1.0)
            if all(job.collector.observations for job in jobs):
                self._looked_at = len(self.delivered.collector.observations)
                return
        raise TowpathError(ErrorCode.DEADLINE, f"no results after {READY_S} s of measurements", field="jobs")

    async def run(self) -> None:
        """Travel to the last station, and stay there.

        Raises `TowpathError` if the train's broker or a link fails.
        """
        self.begun_at = self._link_at = time.time()
        sending = asyncio.create_task(self._send(), name="accelerometers")
        try:
            first, *between, last = self.journey.calls
            # At the first station the jobs have not computed anything yet.
            await self._depart(first, None)
            for call in between:
                await self._arrive(call)
                await self._depart(call, await self._change_sides(call))
            await self._arrive(last)
            self.sent = await sending
        finally:
            await end([sending])

    def note_last(self) -> None:
        """Note the last stop, once everything has been delivered."""
        self._note(self.journey.calls[-1], None)

    async def _send(self) -> ReplayReport:
        access = self.stage.mesh.site(TRAIN)
        broker = site_broker(access, access.client)
        replay = Replay(broker, self.topic, "axle-boxes", speed=1.0, inflight=INFLIGHT)
        return await replay.run(self.journey.reports())

    async def _depart(self, call: Call, asked: Asked | None) -> None:
        await self._until(call.departs_s)
        await self._link(cut=True)
        self._note(call, asked)
        into = "a tunnel" if call.stop.tunnel else "the open country"
        self.say(f"{call.station}: departs into {into}, the link is cut; {_came(self.contacts[-1])}")

    async def _arrive(self, call: Call) -> None:
        await self._until(call.arrives_s)
        await self._link(cut=False)
        self._link_at = time.time()
        stays_s = call.departs_s - call.arrives_s
        self.say(f"{call.station}: arrives, the link is there" + (f" for {stays_s:g} s" if stays_s else ""))

    async def _change_sides(self, call: Call) -> Asked | None:
        """Ask that the job move to the other side, if that can be done before departure."""
        target = await self._other_side()
        while (left_s := self.begun_at + call.departs_s - time.time()) > LOOK_EVERY_S:
            at_most_s = round(SAFE_PART * left_s, 1)
            command = MigrateJob(
                job=RIDE, to=target, strategy=StrategyName.HANDOVER, at_most_s=at_most_s, wait=False
            )
            try:
                answer = await self.stage.bus.request(
                    command, deadline_s=min(ACCEPT_S, left_s), attempt_s=ATTEMPT_S
                )
            except TowpathError as error:
                if error.detail.code is ErrorCode.SITE_DOWN:
                    # The coordinator has not heard from the train yet.
                    await asyncio.sleep(LOOK_EVERY_S)
                    continue
                self.say(f"{call.station}: {RIDE} stays: {error.detail.message}")
                return Asked(
                    at_most_s=at_most_s,
                    target=target,
                    refusal=error.detail.message,
                    refused_as=error.detail.code,
                )
            view = await self.stage.bus.request(
                ShowOperation(operation=answer.operation), deadline_s=ACCEPT_S, attempt_s=ATTEMPT_S
            )
            forecast_s = view.forecast.total_s if view.forecast else None
            self.say(
                f"{call.station}: {RIDE} moves to {target}, forecast {forecast_s} s of at most {at_most_s} s"
            )
            return Asked(
                at_most_s=at_most_s, target=target, operation=answer.operation, forecast_s=forecast_s
            )
        return None

    async def _other_side(self) -> str:
        view = await self.stage.ask_job(RIDE)
        return TRACKSIDE if view.site == TRAIN else TRAIN

    async def _link(self, *, cut: bool) -> None:
        conditions = LinkConditions(cut=True)
        command = ShapeLink(site=TRAIN, conditions=conditions) if cut else RestoreLink(site=TRAIN)
        await self.stage.bus.request(command, deadline_s=LINK_S, attempt_s=ATTEMPT_S)

    async def _until(self, second: float) -> None:
        await asyncio.sleep(max(0.0, self.begun_at + second - time.time()))

    def _note(self, call: Call, asked: Asked | None) -> None:
        """Note what has come since the link was there."""
        seen: Sequence[ReceivedMessage] = self.delivered.collector.observations
        came = [(each.received_at, _made_at(each)) for each in seen[self._looked_at :]]
        self._looked_at = len(seen)
        self.contacts.append(ContactReport.of(call, self._link_at, came, asked))


def _made_at(seen: ReceivedMessage) -> float:
    return utc(seen.body["stored_at"]).timestamp() if seen.body else 0.0


def _came(contact: ContactReport) -> str:
    if contact.first_after_s is None:
        return "no event has come"
    caught_up = contact.caught_up_after_s
    until = "not all" if caught_up is None else f"all after {caught_up:.1f} s"
    return (
        f"{contact.delivered:,} events came, the first {contact.first_after_s:.1f} s after the link, {until}"
    )
