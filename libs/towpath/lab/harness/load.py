"""Devices that send: synthetic events in any shape of load, or recorded ones, until they are stopped."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import cycle, islice, pairwise
from random import Random
from typing import Any

from towpath.contracts.scenario_load import Load, ReplayLoad, SyntheticLoad
from towpath.lab.harness.events import EventClock
from towpath.lab.harness.load_shapes import PresentLoad, due_times, planned
from towpath.lab.harness.report import SentLoad
from towpath.lab.workload.departures import (
    AIRPORTS,
    Departure,
    closing_event,
    departures,
    timetable,
    with_malformed,
)
from towpath.lab.workload.replay import GIVE_UP_AFTER_S, Replay, ReplayReport
from towpath.lab.workload.text import line_events
from towpath.mesh.site_broker import site_broker
from towpath.mesh.state import SiteAccess
from towpath.tasks import end

StopAsked = Callable[[], bool]

NUMBERS_OF_A_LOAD = 10**9
"""Loads number their events apart from each other."""

INFLIGHT = 20_000
"""Events that may wait for a broker that is away: more than any run of a minute sends meanwhile."""


@dataclass(frozen=True, slots=True)
class DueEvent:
    """An event and the moment when it is due."""

    payload: bytes
    at: float = 0.0
    """Seconds after the load began. Only looked at when events are sent by their own time."""


async def send(
    access: SiteAccess,
    topic: str,
    payloads: Iterable[bytes],
    rate: float,
    on_progress: Callable[[ReplayReport], None] | None = None,
) -> ReplayReport:
    """Let a site's devices send to one of its topics; return when its broker has acknowledged everything.

    `rate` is in events per second.
    """
    devices = _devices_of(access, topic, f"devices-{access.spec.name}", rate=rate)
    return await devices.run((DueEvent(payload) for payload in payloads), on_progress)


async def send_when_due(access: SiteAccess, topic: str, events: Iterable[DueEvent]) -> ReplayReport:
    """Let a site's devices send each event when it is due; return when its broker has acknowledged all."""
    devices = _devices_of(access, topic, f"devices-{access.spec.name}", speed=1.0, inflight=INFLIGHT)
    return await devices.run(events)


def _devices_of(access: SiteAccess, topic: str, client_id: str, **pace: Any) -> Replay:
    return Replay(site_broker(access, access.client), topic, client_id, **pace)


def chance(name: str, seed: int, purpose: str) -> Random:
    """Return the chance of one run for one purpose. Choices for other purposes do not shift it."""
    return Random(f"{name} {seed} {purpose}")


class Device:
    """Sends one load from `start` to `stop`.

    `position` tells the loads of one trial apart. `give_up_after_s`: see `Replay`.
    """

    def __init__(
        self,
        load: Load,
        access: SiteAccess,
        name: str,
        position: int = 0,
        seed: int = 0,
        give_up_after_s: float = GIVE_UP_AFTER_S,
    ) -> None:
        self.load = load
        self.begun_at = 0.0
        """Unix seconds."""
        self.report = ReplayReport()
        self.sent: list[bytes] = []
        """Payloads that were handed to the broker, in order. After `stop` it has acknowledged all of them."""
        self._name = name
        self._draw = chance(name, seed, f"load {position}")
        self._clock = EventClock(position * NUMBERS_OF_A_LOAD)
        self._enough = False
        self._due_at = 0.0
        """When the last event that was made is due, Unix seconds. It is sent also after `stop`."""
        self._paces: list[tuple[float, Load]] = []
        """The load as it was from which moment on, Unix seconds."""
        self._replay = _devices_of(
            access,
            load.topic,
            f"scenario-{name}-{position}",
            speed=1.0,
            inflight=INFLIGHT,
            give_up_after_s=give_up_after_s,
        )
        self._task: asyncio.Task[ReplayReport] | None = None

    def start(self) -> None:
        """Begin to send."""
        self.begun_at = time.time()
        self._paces = [(self.begun_at, self.load)]
        if isinstance(self.load, ReplayLoad):
            events = recorded(self.load, self.stopped, self._present)
        else:
            events = synthetic(self.load, self._draw, self._clock, self.stopped, self._present)
        sending = self._replay.run(self._noted(events), self._take)
        self._task = asyncio.create_task(sending, name=f"load {self._name}")

    @property
    def newest_at(self) -> datetime:
        """Time of the newest event of a synthetic load. Of another load: before all events."""
        return self._clock.newest

    def change_pace(self, rate: float) -> None:
        """Send at another rate from the next event on."""
        self.load = self.load.model_copy(update={"rate": rate})
        self._paces.append((time.time(), self.load))

    def _present(self) -> Load:
        return self.load

    def stopped(self) -> bool:
        """True if only the closing events are left to send."""
        return self._enough

    async def ended(self) -> None:
        """Wait until a load of so many events is over. Return at once for any other.

        Raises `TowpathError` when the broker was away too long.
        """
        if self._task is not None and isinstance(self.load, ReplayLoad) and self.load.events is not None:
            await asyncio.shield(self._task)

    async def stop(self, within_s: float) -> ReplayReport:
        """Send the events that close all windows; return when the broker has acknowledged everything.

        Raises `TowpathError` when the broker was away too long, `TimeoutError` when `within_s` have passed
        since the last event was due.
        """
        self._enough = True
        if self._task is None:
            return self.report
        async with asyncio.timeout(within_s + max(0.0, self._due_at - time.time())):
            return await self._task

    async def cancel(self) -> None:
        """Stop sending at once."""
        await end([self._task])

    @property
    def outcome(self) -> SentLoad:
        """The load, as far as it was sent."""
        counted = {field: getattr(self.report, field) for field in ("sent", "acknowledged", "redelivered")}
        seconds = round(self.report.seconds, 1)
        return SentLoad(site=self.load.site, topic=self.load.topic, seconds=seconds, **counted)

    def planned(self, since: float, until: float) -> float:
        """Return the number of events that are due between two moments in Unix seconds."""
        paces = [*self._paces, (math.inf, self.load)]
        return sum(
            planned(load, max(since, begin) - self.begun_at, min(until, end) - self.begun_at)
            for (begin, load), (end, _) in pairwise(paces)
            if since < end and begin < until
        )

    def _take(self, report: ReplayReport) -> None:
        self.report = report

    def _noted(self, events: Iterable[DueEvent]) -> Iterator[DueEvent]:
        for event in events:
            self.sent.append(event.payload)
            self._due_at = self.begun_at + event.at
            yield event


def synthetic(
    load: SyntheticLoad,
    draw: Random,
    clock: EventClock,
    stopped: StopAsked,
    present: PresentLoad | None = None,
) -> Iterator[DueEvent]:
    """Events made for the purpose until `stopped`, then one so late that all windows before it are over."""
    due = 0.0
    for due in due_times(present or (lambda: load)):
        if stopped():
            break
        late = min(due, draw.uniform(0.0, load.disorder_s))
        event = clock.event(due - late, f"k{draw.randrange(load.keys)}", draw.randrange(1000) / 4)
        yield DueEvent(event.payload, due)
        if draw.random() < load.repeats:
            yield DueEvent(event.payload, due)
    yield DueEvent(clock.closing().payload, due)


def recorded(load: ReplayLoad, stopped: StopAsked, present: PresentLoad | None = None) -> Iterator[DueEvent]:
    """Recorded events until `stopped` or until there were so many; after departures come closing ones."""
    due = 0.0
    times = due_times(present or (lambda: load))
    events = _by_timetable(load) if load.timetable else map(DueEvent, _recording(load), times)
    for event in events:
        if stopped():
            break
        due = event.at
        yield event
    if load.replay == "departures":
        for airport in AIRPORTS if load.airport is None else (load.airport,):
            yield DueEvent(closing_event(airport).payload, due)


def _by_timetable(load: ReplayLoad) -> Iterator[DueEvent]:
    """Yield the first departures of the timetable in its order, compressed so that `rate` is their mean."""
    assert load.events is not None
    due = [(each.scheduled_at.timestamp(), each.event.payload) for each in timetable(load.events)]
    begin, length_s = due[0][0], max(due[-1][0] - due[0][0], 1.0)
    for at, payload in due:
        yield DueEvent(payload, (at - begin) / length_s * load.events / load.rate)


def _recording(load: ReplayLoad) -> Iterator[bytes]:
    if load.replay == "lines":
        yield from islice(line_events(), load.events)
        return
    events: Iterable[Departure] = departures(load.airport, load.events)
    if load.events is None:
        events = cycle(events)
    if load.malformed_every is not None:
        events = with_malformed(events, load.malformed_every)
    yield from (event.payload for event in events)
