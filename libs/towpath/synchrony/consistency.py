"""Algorithms 6.1 to 6.4 of the thesis: the monitor's consistency check over counts of events.

The check holds two neighbouring results, the old one and the new one. This is exact for any windows and any
interleaving of the two operators' results. A source's result is forwarded at the latest when the next
result arrives. So when two results of different origin meet, they are the newest of each operator. All
earlier source results are forwarded, the source's newest is not, and the difference of their serials is the
number of events that only one of the operators has counted.

`S`, the synchronisation factor, limits how many events one operator may be ahead of the other, and so how
far one result may be altered. With S = 0 none is altered.

The check compares neighbours only. Two results of equal serial that are not neighbours, as in `S[3,3]
T[2,2] T[3,1]`, pass unnoticed. That delays the agreement, but never makes a wrong output.

Departures from the thesis, each with its counter-example:

1. Algorithm 6.2 waits while `offset > S`. The offset of a target that is ahead is negative, so such a
   target would never wait: with S = 0, `S[1,1] T[6,6]` would make the source's result `S[6,6]`. The
   thesis's prose and its third example wait for such a target, too. `synchronise` compares the absolute
   value.
2. Algorithm 6.3 takes the offset from the target's next result. When the target's windows are smaller than
   the offset, one result cannot carry it: `S[9,9] T[6,6] T[7,1] T[8,1] T[12,4]` would deliver -2, 1 and 4
   after the source's 9, twelve in all, but none of them is right. `subtract` swallows a result that falls to
   zero or less, and carries the rest of the offset to the one after it.
3. When the migration is cancelled, the thesis leaves the source's held result with the monitor. With
   `S[3,3] T[1,1] S[5,2]` and nothing after it, only S[3,3] was forwarded: two events are missing. `release`
   forwards it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from towpath.contracts.migration import Role
from towpath.synchrony.result import Forwarded, ResultEvent, at_least


@dataclass(frozen=True, slots=True)
class Agreement:
    """The point from which on the target's results are the output."""

    offset: int
    """Serial of the source's newest result minus serial of the target's."""
    last: ResultEvent
    """The source's last result, as it must be forwarded."""
    remainder: int
    """Events of `last` that the target's next results count again (Algorithm 6.3)."""


@dataclass(frozen=True, slots=True)
class Consistency:
    """State of the check. Raises `TowpathError` for an impossible factor."""

    factor: int
    """The synchronisation factor S, in events. 0 accepts only equal serials."""
    old: ResultEvent | None = None
    """The result that waits for the next one. Invariant: None once there is an agreement."""
    agreement: Agreement | None = None
    """Set when the operators are synchronised. The coordinator may then end the source."""
    remainder: int = 0
    """Events that the target's next results will count a second time."""

    def __post_init__(self) -> None:
        at_least("factor", self.factor, 0)


Outcome = tuple[Consistency, tuple[Forwarded, ...]]
"""The next state, and the forwarded results, in order."""


def check(state: Consistency, new: ResultEvent) -> Outcome:
    """Take the next result of either operator (Algorithm 6.1)."""
    if state.agreement is not None:
        return _from_target(state, new)
    old = state.old
    if old is None:
        return replace(state, old=new), ()
    if old.origin is not new.origin:
        source, target = (old, new) if old.origin is Role.SOURCE else (new, old)
        agreement = synchronise(source, target, state.factor)
        if agreement is not None:
            last = Forwarded(agreement.last, arrived=source)
            return Consistency(state.factor, None, agreement, agreement.remainder), (last,)
    return replace(state, old=new), _unaltered(old)


def synchronise(source: ResultEvent, target: ResultEvent, factor: int) -> Agreement | None:
    """Agree on how the target takes over after the newest result of each operator (Algorithm 6.2).

    Returns None while one operator is more than `factor` events ahead of the other.
    """
    offset = source.serial - target.serial
    if abs(offset) > factor:
        return None
    if offset >= 0:
        return Agreement(offset, last=source, remainder=offset)
    return Agreement(offset, last=extend(source, -offset), remainder=0)


def subtract(remainder: int, result: ResultEvent) -> tuple[int, ResultEvent | None]:
    """Take events that the source has already counted out of a target's result (Algorithm 6.3).

    The source has counted events that the target has yet to count, and its result stands. `remainder` is the
    number of such events that the target's results still contain. Returns the number in later results, and
    what is left of this result, or None if nothing is left.
    """
    if result.value <= remainder:
        return remainder - result.value, None
    return 0, replace(result, value=result.value - remainder)


def extend(source: ResultEvent, ahead: int) -> ResultEvent:
    """Add the `ahead` events that the target is ahead to the source's last result (Algorithm 6.4).

    These results of the target were never forwarded, so the source's last result takes their place.
    """
    return ResultEvent(source.origin, source.serial + ahead, source.value + ahead)


def release(state: Consistency) -> Outcome:
    """Forward the held result, because no agreement will come: the source stays the owner."""
    if state.old is None:
        return state, ()
    return replace(state, old=None), _unaltered(state.old)


def _unaltered(held: ResultEvent) -> tuple[Forwarded, ...]:
    """Forward the held result if it is the source's: before the agreement only those are output."""
    return (Forwarded(held, arrived=held),) if held.origin is Role.SOURCE else ()


def _from_target(state: Consistency, new: ResultEvent) -> Outcome:
    """Forward after the agreement: the source's results are void, and the target's lose counted events."""
    if new.origin is Role.SOURCE:
        return state, ()
    remainder, rest = subtract(state.remainder, new)
    forwarded = () if rest is None else (Forwarded(rest, arrived=new),)
    return replace(state, remainder=remainder), forwarded
