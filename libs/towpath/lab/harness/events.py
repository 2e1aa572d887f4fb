"""The events of a drill, and the load that sends them: numbered, with keys, a little out of order."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from towpath.lab.workload.replay import Replay, ReplayReport
from towpath.mesh.state import SiteAccess
from towpath.tasks import end

TOPIC = "site/drill"
KEYS = 5
RATE = 200.0
"""Events per second."""

TIME_LAPSE = 2.0
"""Seconds of event time that pass in a second: windows close sooner, and recovery is seen sooner."""

DISORDER = 40
"""Events lag behind their time by up to so many events: 0.4 s of event time."""

WATERMARK_S = 3.0
"""Covers the disorder, and what a device sends again after its broker was killed: what was on its way,
milliseconds."""

WINDOW_S = 1.0


@dataclass(frozen=True, slots=True)
class DrillEvent:
    """One event, as a device sends it."""

    number: int
    key: str
    at: datetime
    value: float

    @property
    def payload(self) -> bytes:
        """As it is sent."""
        at = self.at.isoformat().replace("+00:00", "Z")
        return json.dumps({"n": self.number, "key": self.key, "at": at, "value": self.value}).encode()

    @classmethod
    def from_payload(cls, payload: bytes) -> DrillEvent:
        """The event that was sent. Raises `ValueError` or `KeyError` for anything else."""
        body = json.loads(payload)
        return cls(body["n"], body["key"], datetime.fromisoformat(body["at"]), body["value"])


@dataclass(frozen=True, slots=True)
class _Sent:
    payload: bytes
    at: float = 0.0


class EventClock:
    """Numbers events and gives them their time; goes on over all loads of a drill."""

    def __init__(self) -> None:
        self.number = 0
        self._at = datetime(2026, 1, 1, tzinfo=UTC)

    def begin(self) -> datetime:
        """The time of the first event of a load: later than everything before it."""
        self._at += timedelta(seconds=2)
        return self._at

    def event(self, begun: datetime, position: int) -> DrillEvent:
        """The next event: the one at `position` of a load that began at `begun`."""
        lag = position * 37 % DISORDER
        at = begun + timedelta(seconds=max(0, position - lag) * TIME_LAPSE / RATE)
        self._at = max(self._at, at)
        return self._numbered(f"k{position % KEYS}", at)

    def closing(self) -> DrillEvent:
        """An event so late that every window of the events before it is over."""
        later = math.ceil(self._at.timestamp() / WINDOW_S) * WINDOW_S + 2 * WINDOW_S + WATERMARK_S
        self._at = datetime.fromtimestamp(later, UTC)
        return self._numbered("closing", self._at)

    def _numbered(self, key: str, at: datetime) -> DrillEvent:
        self.number += 1
        return DrillEvent(self.number, key, at, self.number * 7919 % 1000 / 4)


class Load:
    """A device that sends without pause from `start` to `stop`."""

    def __init__(self, site: SiteAccess, clock: EventClock, name: str) -> None:
        self._clock = clock
        self._enough = False
        self._replay = Replay(
            site.mqtt_host,
            site.mqtt_port,
            site.device.user,
            site.device.password,
            TOPIC,
            client_id=f"drill-{name}",
            rate=RATE,
            inflight=5_000,
        )
        self._task: asyncio.Task[ReplayReport] | None = None

    def start(self) -> None:
        """Begin to send."""
        self._task = asyncio.create_task(self._replay.run(self._events()), name="load")

    async def stop(self) -> ReplayReport:
        """Send what closes all windows; return when the broker has acknowledged everything.

        Raises `TowpathError` when it was away for a minute.
        """
        assert self._task is not None
        self._enough = True
        return await self._task

    async def cancel(self) -> None:
        """Stop sending at once."""
        if self._task is not None:
            await end([self._task])

    def _events(self) -> Iterator[_Sent]:
        begun, position = self._clock.begin(), 0
        while not self._enough:
            yield _Sent(self._clock.event(begun, position).payload)
            position += 1
        yield _Sent(self._clock.closing().payload)
