"""One uplink at work: where it is, what waits, and its next batch."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import datetime

from nats.aio.client import Client

from towpath.contracts.message import now
from towpath.contracts.uplink import ResolvedUplink, UplinkOrder, UplinkState, UplinkStatus
from towpath.streams.stream_view import StreamView
from towpath.uplinks.allowance import Allowance, Allowed
from towpath.uplinks.batches import LaneBatch, batch_of
from towpath.uplinks.destination import Arrived, arrived, at_origin
from towpath.uplinks.position import MOST_RANGES, Lane, Position, Range
from towpath.uplinks.rates import Rate
from towpath.uplinks.reading import LaneRead, read_lane
from towpath.uplinks.schedule import Waiting
from towpath.uplinks.sending import BatchSender, UnderWay

LATE_S = 1.0
"""New events that wait longer become backlog, so that newer ones go first."""

BEHIND_EVENTS = 2000
"""With more than this to send, an uplink with kept order counts as a backlog."""

GATHER_S, GATHER_EVENTS = 0.1, 500
"""New events wait so long for more of them, or until so many wait."""


class UplinkForwarder:
    """Builds the batches of one uplink. `forget` makes it ask the destination again."""

    def __init__(
        self, uplink: ResolvedUplink, allowance: Allowance, clock: Callable[[], datetime] = now
    ) -> None:
        self.uplink = uplink
        self.allowance = allowance
        self.rate = Rate()
        self.trouble: str | None = None
        self._clock = clock
        self._position = Position()
        """As it is when all that is under way has arrived."""
        self._stored = Position()
        """The position that the destination is known to have."""
        self._expected = -1
        """Serial number of the destination's stream behind which the next batch goes; -1: ask."""
        self._cursor = 0
        """Up to here the live lane has nothing to send, although it has not told so."""
        self._origin: StreamView | None = None
        self._live_at = 0.0
        """Time of the last batch of new events, by the monotonic clock."""
        self._allowed = Allowed(0, state=UplinkState.NO_LINK)
        self._too_much = 0
        """The next event does not fit into so many bytes that are left of a budget."""

    @property
    def is_known(self) -> bool:
        """True while it knows where it is."""
        return self._expected >= 0

    def forget(self, trouble: str) -> None:
        """Trust nothing that was under way."""
        self._expected = -1
        self.trouble = trouble

    async def find_out(self, connection: Client) -> None:
        """Ask the destination what has arrived. Raises `TimeoutError`, or `NotThere`."""
        found: Arrived = await arrived(connection, self.uplink)
        position = await at_origin(connection, self.uplink, found)
        self._position = self._stored = position
        self._cursor = position.live
        self._expected = found.serial
        self.trouble = None

    def look(self, origin: StreamView) -> None:
        """Note how the origin's stream is now, and what may be sent."""
        self._origin = origin
        self._allowed = self.allowance.at(self._clock(), time.monotonic())
        if 0 < self._allowed.bytes <= self._too_much:
            self._allowed = Allowed(0, state=UplinkState.BUDGET)
        else:
            self._too_much = 0

    def waiting(self) -> list[Waiting]:
        """Return its lanes that have something to send."""
        may_send = min(self._allowed.bytes, self._allowed.at_once) > 0
        if not self.is_known or self._origin is None or not may_send:
            return []
        live, late = self._is_live_due(), bool(self._position.pending)
        if self._is_kept:  # Events of an outage wait in the only lane.
            is_behind = self._origin.last - self._position.live > BEHIND_EVENTS
            return [self._waiting(is_backlog=late or is_behind)] if live or late else []
        kinds = [False] * live + [True] * late
        return [self._waiting(is_backlog=is_backlog) for is_backlog in kinds]

    def _is_live_due(self) -> bool:
        """Tell if new events are to be sent: a few of them gather first, because small batches cost more."""
        found = self._range(Lane.LIVE)
        if found is None:
            return False
        return time.monotonic() - self._live_at >= GATHER_S or found[1] - found[0] >= GATHER_EVENTS

    def _waiting(self, *, is_backlog: bool) -> Waiting:
        spec = self.uplink.spec
        return Waiting(spec.name, spec.priority, is_backlog, spec.backlog_share)

    @property
    def _is_kept(self) -> bool:
        return self.uplink.spec.order is UplinkOrder.KEPT

    async def build(self, connection: Client, chosen: Waiting, most_bytes: int) -> LaneBatch | None:
        """Return the next batch of a lane, and go on as if it had arrived; None if nothing can be sent.

        Raises `TimeoutError` when the origin does not answer.
        """
        most_bytes = min(most_bytes, self._allowed.bytes, self._allowed.at_once)
        lane = self._lane(chosen)
        wanted = self._range(lane)
        if wanted is None:
            return None
        read, self._origin = await read_lane(connection, self.uplink, wanted, most_bytes)
        if lane is Lane.LIVE and self._is_late(read):
            self._jump()
            return None
        batch = batch_of(self.uplink, lane, self._position, read, most_bytes)
        if batch is None:  # One event may be more than a batch should be, but not than the budget has left.
            batch = batch_of(self.uplink, lane, self._position, first_of(read), self._allowed.bytes)
        if batch is None or batch.size > self._allowed.bytes:
            self._too_much = self._allowed.bytes
            return None
        if lane is not Lane.LATE:
            self._live_at = time.monotonic()
            self._cursor = max(batch.through, batch.position.live)
        self._position = batch.position
        return batch if batch.messages else None

    def _lane(self, chosen: Waiting) -> Lane:
        if self._is_kept:  # What another order has left comes first.
            return Lane.LATE if self._position.pending else Lane.KEPT
        return Lane.LATE if chosen.is_backlog else Lane.LIVE

    def _range(self, lane: Lane) -> Range | None:
        if lane is Lane.LATE:
            return self._position.pending[0] if self._position.pending else None
        assert self._origin is not None
        first = max(self._cursor, self._position.live) + 1
        return (first, self._origin.last) if first <= self._origin.last else None

    def _is_late(self, read: LaneRead) -> bool:
        """Tell if new events have waited so long that newer ones must go first."""
        if not read.events or len(self._position.pending) >= MOST_RANGES:
            return False
        stored_at = datetime.fromisoformat(read.events[0].headers["Nats-Time-Stamp"])
        return (self._clock() - stored_at).total_seconds() > LATE_S

    def _jump(self) -> None:
        assert self._origin is not None
        self._position = self._position.jumped(self._origin.last, self._origin.last_stored_at)
        self._cursor = self._position.live

    async def send(self, sender: BatchSender, batch: LaneBatch) -> UnderWay:
        """Send a batch, and count its bytes first."""
        await asyncio.to_thread(self.allowance.spend, batch.size)
        expected = self._expected
        self._expected += len(batch.messages)
        return await sender.send(batch.messages, expected)

    def stored(self, batch: LaneBatch) -> None:
        """Note that a batch has arrived."""
        self._stored = batch.position
        self.rate.add(batch.size)

    def status(self) -> UplinkStatus:
        """Return its figures."""
        origin, stored, spent = self._origin, self._stored, self.allowance.spent
        behind = 0 if origin is None else max(0, origin.last - max(stored.live, self._cursor))
        events = stored.waiting + behind
        kept = 0 if origin is None else origin.last - origin.first + 1
        size = 0 if origin is None or kept <= 0 else int(events * origin.size / kept)
        rate = self.rate.per_second()
        return UplinkStatus(
            name=self.uplink.spec.name,
            state=self._state(events),
            forwarded=stored.forwarded,
            backlog_events=events,
            backlog_bytes=size,
            rate=rate,
            through_s=self.rate.through_s(events),
            discarded=stored.discarded,
            spent_in_window=spent.in_window,
            spent_in_month=spent.in_month,
            opens_at=self._allowed.opens_at,
            trouble=self.trouble,
        )

    def _state(self, backlog: int) -> UplinkState:
        if self._allowed.bytes <= 0 and self._allowed.state in (UplinkState.WINDOW, UplinkState.BUDGET):
            return self._allowed.state
        if not self.is_known:
            return UplinkState.NO_LINK
        return UplinkState.SENDING if backlog else UplinkState.IDLE


def first_of(read: LaneRead) -> LaneRead:
    """Return a reading of its first event alone."""
    event = read.events[0]
    gone = [part for part in read.gone if part[1] < event.serial]
    return LaneRead([event], gone, event.serial)
