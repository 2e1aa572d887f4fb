"""Pair the lines of a journal: beginning and end of each step, and of each compensation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from towpath.contracts.commands import JournalEntry
from towpath.protocols.progress import StepPhase

BEGINNINGS = frozenset({StepPhase.BEGUN, StepPhase.COMPENSATING})
"""Phases that a later line of the journal ends."""

UNDOING = frozenset({StepPhase.COMPENSATING, StepPhase.COMPENSATED})


@dataclass(frozen=True)
class Attempt:
    """One execution of a step or of its compensation."""

    first: JournalEntry
    """The line that began it. In a journal that lacks that line: the line that ended it."""
    last: JournalEntry | None
    """The line that ended it; None while it is under way."""

    @property
    def undoing(self) -> bool:
        """True for a compensation."""
        return is_undoing(self.last or self.first)

    @property
    def took_s(self) -> float | None:
        """Its duration in seconds; None while it is under way."""
        return None if self.last is None else (self.last.at - self.first.at).total_seconds()


def attempts(journal: Sequence[JournalEntry]) -> list[Attempt]:
    """Return the attempts in the order in which they began.

    A step that the next coordinator sends again is the same attempt.
    """
    found: list[Attempt] = []
    for entry in journal:
        under_way = found[-1] if found and found[-1].last is None else None
        if under_way is None or not _of_one(under_way.first, entry):
            found.append(Attempt(entry, None if entry.phase in BEGINNINGS else entry))
        elif entry.phase not in BEGINNINGS:
            found[-1] = Attempt(under_way.first, entry)
    return found


def is_undoing(entry: JournalEntry) -> bool:
    """Tell if a line is about a compensation."""
    return entry.phase in UNDOING or bool(entry.detail.get("undo"))


def _of_one(one: JournalEntry, other: JournalEntry) -> bool:
    return one.step == other.step and is_undoing(one) == is_undoing(other)
