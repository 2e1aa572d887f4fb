"""The events of a scenario, and the devices that send them."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import cycle
from random import Random

from towpath.contracts.scenario_load import Load, ReplayLoad, SyntheticLoad
from towpath.lab.harness.events import TIME_LAPSE, WATERMARK_S, WINDOW_S, DrillEvent
from towpath.lab.harness.load_shapes import due_times, planned
from towpath.lab.workload.departures import AIRPORTS, closing_event, departures
from towpath.lab.workload.replay import Replay, ReplayReport
from towpath.mesh.state import SiteAccess

StopAsked = Callable[[], bool]

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
"""Event time of the first event."""

NUMBERS_OF_A_LOAD = 10**9
"""Loads number their events apart from each other."""

INFLIGHT = 20_000
"""What may wait for a broker that is away: more than any run of a minute sends meanwhile."""


@dataclass(frozen=True, slots=True)
class SentEvent:
    """An event, and when it is due."""

    payload: bytes
    at: float
    """Seconds after the load began."""


def chance(name: str, seed: int, purpose: str) -> Random:
    """The choices of one run for one purpose: those of others do not shift them."""
    return Random(f"{name} {seed} {purpose}")


class Device:
    """Sends one load from `start` to `stop`."""

    def __init__(self, load: Load, access: SiteAccess, name: str, position: int, seed: int) -> None:
        self.load = load
        self.begun_at = 0.0
        """Unix seconds."""
        self.report = ReplayReport()
        self._name, self._position, self._seed = name, position, seed
        self._enough = False
        self._replay = Replay(
            access.mqtt_host,
            access.mqtt_port,
            access.device.user,
            access.device.password,
            load.topic,
            client_id=f"scenario-{name}-{position}",
            speed=1.0,
            inflight=INFLIGHT,
        )
        self.task: asyncio.Task[ReplayReport] | None = None

    def start(self) -> None:
        """Begin to send."""
        self.begun_at = time.time()
        if isinstance(self.load, ReplayLoad):
            events = recorded(self.load, self.stopped)
        else:
            events = synthetic(self.load, self._name, self._position, self._seed, self.stopped)
        self.task = asyncio.create_task(self._replay.run(events, self._take), name=f"load {self._name}")

    def stopped(self) -> bool:
        """Whether only the closing events are left to send."""
        return self._enough

    async def stop(self, within_s: float) -> ReplayReport:
        """Send what closes all windows; return when the broker has acknowledged everything.

        Raises `TowpathError` when the broker was away too long, `TimeoutError` after `within_s`.
        """
        self._enough = True
        if self.task is None:
            return self.report
        async with asyncio.timeout(within_s):
            return await self.task

    def planned(self, since: float, until: float) -> float:
        """Events that are due between two moments, Unix seconds."""
        return planned(self.load, since - self.begun_at, until - self.begun_at) if self.begun_at else 0.0

    def _take(self, report: ReplayReport) -> None:
        self.report = report


def synthetic(
    load: SyntheticLoad, name: str, position: int, seed: int, stopped: StopAsked
) -> Iterator[SentEvent]:
    """Events made for the purpose until `stopped`, then one so late that all windows before it are over."""
    draw = chance(name, seed, f"load {position}")
    number, newest = position * NUMBERS_OF_A_LOAD, BEGIN
    due = 0.0
    for due in due_times(load):
        if stopped():
            break
        number += 1
        late = min(due, draw.uniform(0.0, load.disorder_s))
        at = BEGIN + timedelta(milliseconds=round((due - late) * TIME_LAPSE * 1000))
        newest = max(newest, at)
        event = DrillEvent(number, f"k{draw.randrange(load.keys)}", at, draw.randrange(1000) / 4)
        yield SentEvent(event.payload, due)
        if draw.random() < load.repeats:
            yield SentEvent(event.payload, due)
    later = math.ceil(newest.timestamp() / WINDOW_S) * WINDOW_S + 2 * WINDOW_S + WATERMARK_S
    closing = DrillEvent(number + 1, "closing", datetime.fromtimestamp(later, UTC), 0.0)
    yield SentEvent(closing.payload, due)


def recorded(load: ReplayLoad, stopped: StopAsked) -> Iterator[SentEvent]:
    """Departures until `stopped`, from the beginning again when they are over, then the closing ones."""
    due = 0.0
    for position, event in enumerate(cycle(departures(load.airport))):
        due = position / load.rate
        if stopped():
            break
        yield SentEvent(event.payload, due)
    for airport in AIRPORTS if load.airport is None else (load.airport,):
        yield SentEvent(closing_event(airport).payload, due)
