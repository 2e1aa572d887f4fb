"""Decide which lane of which uplink sends next over the link to one destination. Pure.

1. New events go before the backlog. While both wait, the backlog has its `backlog_share` of the bytes; of
   several uplinks with a backlog, the largest share counts.
2. Among lanes of one kind, the lower priority number goes first. While others wait behind it, these have
   `FLOOR` of the kind's bytes, the one that has waited longest first: nothing starves.

Each rule is a debt. The one who is passed over gains a claim on its share of what others send, and pays for
what it sends itself. It goes first as soon as it has a claim. So it is never farther behind its share than by
one batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

FLOOR = 0.1
"""Share of those that are not first by priority, together."""


@dataclass(frozen=True)
class Waiting:
    """A lane that has something to send."""

    uplink: str
    priority: int
    is_backlog: bool
    share: float
    """`backlog_share` of its uplink."""


class Schedule:
    """Remembers what was sent, to share the link out."""

    def __init__(self) -> None:
        self._backlog_claim = 0.0
        """Bytes that the backlog may claim; negative after it had more than its share."""
        self._floor_claims = {False: 0.0, True: 0.0}
        """Kind of lane → claim of those that are not first."""
        self._served: dict[tuple[str, bool], int] = {}
        """Lane → number of its last turn."""
        self._turn = 0

    def next(self, waiting: Sequence[Waiting]) -> Waiting | None:
        """Return the lane that sends next; None if none waits."""
        if not waiting:
            return None
        kinds = {lane.is_backlog for lane in waiting}
        is_backlog = self._backlog_claim > 0 if len(kinds) == 2 else kinds.pop()
        lanes = [lane for lane in waiting if lane.is_backlog is is_backlog]
        first = min(lane.priority for lane in lanes)
        behind = [lane for lane in lanes if lane.priority > first]
        is_behind = bool(behind) and self._floor_claims[is_backlog] > 0
        chosen = behind if is_behind else [lane for lane in lanes if lane.priority == first]
        return min(chosen, key=lambda lane: self._served.get((lane.uplink, lane.is_backlog), 0))

    def sent(self, lane: Waiting, size: int, waiting: Sequence[Waiting]) -> None:
        """Note that a lane has sent so many bytes while these lanes waited, itself among them."""
        self._turn += 1
        self._served[lane.uplink, lane.is_backlog] = self._turn
        shares = [other.share for other in waiting if other.is_backlog]
        if shares and not all(other.is_backlog for other in waiting):
            share = max(shares)
            self._backlog_claim += size * (share - 1 if lane.is_backlog else share)
        else:
            self._backlog_claim = 0.0
        alike = [other for other in waiting if other.is_backlog is lane.is_backlog]
        first = min(other.priority for other in alike)
        if any(other.priority > first for other in alike):
            paid = FLOOR if lane.priority == first else FLOOR - 1
            self._floor_claims[lane.is_backlog] += size * paid
        else:
            self._floor_claims[lane.is_backlog] = 0.0
