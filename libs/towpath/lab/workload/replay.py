"""Replay of recorded events to an MQTT broker, at least once and in order, at a chosen pace.

The broker may die at any moment, also by `kill -9`. What it did not acknowledge is sent again, in order,
over the next connection, so an event reaches the broker at least once, and the first copies of all events
reach it in the order given. Copies are for the reader to recognise, by the event's own identity.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from paho.mqtt.reasoncodes import ReasonCode

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.mqtt.broker_address import BrokerAddress
from towpath.mqtt.connection import MqttConnection

MAX_INFLIGHT = 60_000
"""Below the 65,535 message ids that one MQTT connection has."""

_TICK_S = 0.01
_BURST = 250
"""Events handed over between two looks at the event loop: about 5 ms of work."""

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 2.0
_ACKNOWLEDGE_WITHIN_S = 10.0
"""Seconds without an acknowledgement after which a connection is given up, if events wait for one."""

_PROGRESS_EVERY_S = 0.5

GIVE_UP_AFTER_S = 60.0
"""A broker that is restarted is back much sooner."""

Answer = asyncio.Future[list[ReasonCode]]
"""A broker's, to one event."""


class RecordedEvent(Protocol):
    """An event to replay: a body and the moment a device would have sent it."""

    @property
    def payload(self) -> bytes:
        """The body, as it is sent."""
        ...

    @property
    def at(self) -> float:
        """Unix seconds. Looked at only when replaying with `speed`."""
        ...


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """The progress of a replay."""

    sent: int = 0
    """Events handed to the broker at least once."""
    acknowledged: int = 0
    """Events that the broker has acknowledged, hence stored."""
    redelivered: int = 0
    """Repetitions after a lost connection; some of them reached the broker twice."""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Replay:
    """The target and pace of a replay. Without `rate` and `speed`: as fast as the broker acknowledges."""

    broker: BrokerAddress
    topic: str
    client_id: str
    rate: float | None = None
    """Events per second, in ticks of 10 ms. What an outage held up follows at once when it is over."""
    speed: float | None = None
    """Seconds of event time per second: 60 replays an hour in a minute. An event that is out of order
    follows its predecessor at once."""
    inflight: int = 500
    """Most events that may wait for their acknowledgement."""
    give_up_after_s: float = GIVE_UP_AFTER_S
    """Seconds that events may wait without one being acknowledged, over all reconnections."""

    def __post_init__(self) -> None:
        """Raise `TowpathError` for a value that makes no sense."""
        for field in ("rate", "speed", "give_up_after_s"):
            value = getattr(self, field)
            if value is not None and not value > 0:
                raise TowpathError(
                    ErrorCode.INVALID, "must be positive", field=field, value=value, allowed="above 0"
                )
        if self.rate is not None and self.speed is not None:
            raise TowpathError(
                ErrorCode.INVALID,
                "two paces",
                field="speed",
                value=self.speed,
                allowed="rate or speed, not both",
            )
        if not 1 <= self.inflight <= MAX_INFLIGHT:
            raise TowpathError(
                ErrorCode.INVALID,
                "not a window",
                field="inflight",
                value=self.inflight,
                allowed=f"1 to {MAX_INFLIGHT}",
            )

    async def run(
        self, events: Iterable[RecordedEvent], on_progress: Callable[[ReplayReport], None] | None = None
    ) -> ReplayReport:
        """Send all events; return when the broker has acknowledged every one.

        `on_progress` is called about twice a second, and at the end. Raises `TowpathError`: `NOT_ALLOWED`
        when the broker refuses the user, `DEADLINE` when it was away for `give_up_after_s`.
        """
        return await _Run(self, events, on_progress or (lambda report: None)).to_the_end()


class _Run:
    """One replay under way, over as many connections as it takes."""

    def __init__(
        self, plan: Replay, events: Iterable[RecordedEvent], on_progress: Callable[[ReplayReport], None]
    ) -> None:
        self.plan = plan
        self.report = ReplayReport()
        self._on_progress = on_progress
        self._begun = self._acknowledged_at = self._shown_at = time.monotonic()
        self._schedule = _schedule(plan, events)
        self._next = next(self._schedule, None)
        # Invariant: every event taken from the schedule is here, in order, until it is acknowledged.
        self._unacknowledged: deque[bytes] = deque()
        self._failure = "no connection lost"

    async def to_the_end(self) -> ReplayReport:
        pause = _FIRST_PAUSE_S
        while self._next is not None or self._unacknowledged:
            before = self.report.acknowledged
            try:
                async with self._connect() as connection:
                    await self._feed(connection)
            except (OSError, TimeoutError) as error:
                self._show(now=True)  # It may be the last news: what the broker has acknowledged counts.
                self._failure = str(error) or "no answer"
                pause = _FIRST_PAUSE_S if self.report.acknowledged > before else pause
                self._give_up_in_time()
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE_S)
        self._show(now=True)
        return self.report

    def _connect(self) -> MqttConnection:
        return MqttConnection(self.plan.broker, self.plan.client_id, session=False)

    async def _feed(self, connection: MqttConnection) -> None:
        """Send what is unacknowledged, then what is due, until all is acknowledged. Raises `OSError`."""
        again = deque(self._unacknowledged)
        # Invariant: the answers to the first of the unacknowledged events; those in `again` follow.
        answers: deque[Answer] = deque()
        waiting_since = time.monotonic()
        while again or self._unacknowledged or self._next is not None:
            self._send_some(connection, again, answers)
            connection.flush()
            await connection.wait_for_news(self._pause(len(answers), again))
            now = time.monotonic()
            if self._take_acknowledged(answers) or not self._unacknowledged:
                waiting_since = self._acknowledged_at = now
            elif now - waiting_since > _ACKNOWLEDGE_WITHIN_S:
                raise TimeoutError("the broker acknowledges nothing")
            self._show()
            self._give_up_in_time()
            connection.check()

    def _send_some(self, connection: MqttConnection, again: deque[bytes], answers: deque[Answer]) -> None:
        room = min(_BURST, self.plan.inflight - len(answers))
        repeated = min(room, len(again))
        for _ in range(repeated):
            answers.append(connection.publish(self.plan.topic, again.popleft()))
        elapsed, sent = time.monotonic() - self._begun, 0
        while repeated + sent < room and self._next is not None and self._next[0] <= elapsed:
            payload = self._next[1]
            self._unacknowledged.append(payload)
            self._next = next(self._schedule, None)
            answers.append(connection.publish(self.plan.topic, payload))
            sent += 1
        self._count(sent=sent, redelivered=repeated)

    def _take_acknowledged(self, answers: deque[Answer]) -> int:
        """Count newly acknowledged events. Brokers acknowledge in the order of receipt (MQTT-4.6.0-2)."""
        acknowledged = 0
        while answers and answers[0].done() and answers[0].exception() is None:
            answers.popleft()
            self._unacknowledged.popleft()
            acknowledged += 1
        self._count(acknowledged=acknowledged)
        return acknowledged

    def _pause(self, outstanding: int, again: deque[bytes]) -> float:
        """Return the seconds without anything to send, unless something is acknowledged meanwhile."""
        if outstanding >= self.plan.inflight or (self._next is None and not again):
            return 1.0
        due = self._begun + self._next[0] - time.monotonic() if self._next is not None and not again else 0.0
        return 0.0 if due <= 0 else min(max(due, _TICK_S), 1.0)

    def _give_up_in_time(self) -> None:
        silent = time.monotonic() - self._acknowledged_at
        if silent > self.plan.give_up_after_s:
            raise TowpathError(
                ErrorCode.DEADLINE,
                f"the broker at {self.plan.broker} acknowledged nothing for {silent:.0f} s; "
                f"{self.report.acknowledged} events are stored; last failure: {self._failure}",
                field="give_up_after_s",
                value=self.plan.give_up_after_s,
            )

    def _count(self, sent: int = 0, acknowledged: int = 0, redelivered: int = 0) -> None:
        self.report = replace(
            self.report,
            sent=self.report.sent + sent,
            acknowledged=self.report.acknowledged + acknowledged,
            redelivered=self.report.redelivered + redelivered,
            seconds=time.monotonic() - self._begun,
        )

    def _show(self, now: bool = False) -> None:
        if now or time.monotonic() - self._shown_at >= _PROGRESS_EVERY_S:
            self._shown_at = time.monotonic()
            self._on_progress(self.report)


def _schedule(plan: Replay, events: Iterable[RecordedEvent]) -> Iterator[tuple[float, bytes]]:
    """Each event with the second, counted from the start, at which it is due; these never go back."""
    if plan.rate is not None:
        yield from ((position / plan.rate, event.payload) for position, event in enumerate(events))
    elif plan.speed is not None:
        first = newest = None
        for event in events:
            first = event.at if first is None else first
            newest = event.at if newest is None else max(newest, event.at)
            yield (newest - first) / plan.speed, event.payload
    else:
        yield from ((0.0, event.payload) for event in events)
