"""Algorithm 6.1: the monitor's consistency check.

It holds two contiguous results, the old one and the new one. Why that is exact, whatever the windows and
however the two operators' results interleave: a source's result is forwarded at the latest when the next
result arrives. So when two results of different origin meet, they are the newest of each operator, all
earlier source results are forwarded, the source's newest is not, and the difference of their serials
is the number of events that only one of the operators has counted.

Departures from the thesis: `synchronise.py` and `source_ahead.py` name one each. A third: when the
migration is called off, the thesis leaves the source's held result with the monitor. With `S[3,3] T[1,1]
S[5,2]` and nothing after it, only S[3,3] was forwarded: two events are missing. `release` gives it out.

The check compares only neighbours. Two results of equal serial that are not neighbours, as in `S[3,3]
T[2,2] T[3,1]`, pass by unnoticed: a later chance, never a wrong output.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from towpath.contracts.migration import Role
from towpath.synchrony.result import Forwarded, ResultEvent, at_least
from towpath.synchrony.source_ahead import subtract
from towpath.synchrony.synchronise import Agreement, synchronise


@dataclass(frozen=True, slots=True)
class Consistency:
    """What the check knows. Raises `TowpathError` for a factor that cannot be."""

    factor: int
    """The synchronisation factor S, in events; 0 accepts only equal serials."""
    old: ResultEvent | None = None
    """The result that waits for the next one. Invariant: None once there is an agreement."""
    agreement: Agreement | None = None
    """Set when the operators are synchronised: the coordinator may end the source."""
    remainder: int = 0
    """How many events the target's next results still count a second time."""

    def __post_init__(self) -> None:
        at_least("factor", self.factor, 0)


Outcome = tuple[Consistency, tuple[Forwarded, ...]]
"""The next state, and what is forwarded, in order."""


def check(state: Consistency, new: ResultEvent) -> Outcome:
    """Take the next result of either operator."""
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


def release(state: Consistency) -> Outcome:
    """Give out what is held, because no agreement will come: the source stays the owner."""
    if state.old is None:
        return state, ()
    return replace(state, old=None), _unaltered(state.old)


def _unaltered(held: ResultEvent) -> tuple[Forwarded, ...]:
    """The held result, if it is the source's: before the agreement only those are output."""
    return (Forwarded(held, arrived=held),) if held.origin is Role.SOURCE else ()


def _from_target(state: Consistency, new: ResultEvent) -> Outcome:
    """After the agreement: the source's results are void, the target's lose what was counted."""
    if new.origin is Role.SOURCE:
        return state, ()
    remainder, rest = subtract(state.remainder, new)
    forwarded = () if rest is None else (Forwarded(rest, arrived=new),)
    return replace(state, remainder=remainder), forwarded
