"""What a synchroniser says about each result in the monitor's log, and the decision behind it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from towpath.synchrony.logged import LoggedResult


@dataclass(frozen=True, slots=True)
class ForwardResult:
    """The result goes to the subscribers as it is."""

    event: LoggedResult


@dataclass(frozen=True, slots=True)
class AmendResult:
    """The result goes to the subscribers, but over other serials: compute it for `after < s <= through`."""

    event: LoggedResult
    after: int
    through: int


@dataclass(frozen=True, slots=True)
class DropResult:
    """Subscribers do not get the result: other results cover all its serials."""

    event: LoggedResult


Action = ForwardResult | AmendResult | DropResult


class Relation(StrEnum):
    """Who was ahead when the decision fell."""

    STRONG = "strong"
    """Nobody: both had counted the same events."""
    SOURCE_AHEAD = "source-ahead"
    TARGET_AHEAD = "target-ahead"


@dataclass(frozen=True, slots=True)
class Synchronisation:
    """The decision: where the output changes hands, and what that does to the results around it."""

    cut: int
    """Up to this serial the output is the source's, beyond it the target's."""
    offset: int
    """By how many serials the source was ahead; negative: the target was."""
    decided_at: int
    """Position of the result that made the decision possible."""
    actions: tuple[Action, ...] = ()
    """What happens to the results held at the decision and to those after it, up to `settled_at`."""
    settled_at: int | None = None
    """All target results at later positions pass verbatim. None: the next may still be amended or dropped."""

    @property
    def relation(self) -> Relation:
        """Who was ahead."""
        if self.offset == 0:
            return Relation.STRONG
        return Relation.SOURCE_AHEAD if self.offset > 0 else Relation.TARGET_AHEAD

    @property
    def verbatim(self) -> tuple[int, ...]:
        """Positions of the results that `actions` forwards as they are."""
        return tuple(a.event.position for a in self.actions if isinstance(a, ForwardResult))

    @property
    def amended(self) -> tuple[AmendResult, ...]:
        """The results that have to be computed anew; one at most."""
        return tuple(a for a in self.actions if isinstance(a, AmendResult))

    @property
    def dropped(self) -> tuple[int, ...]:
        """Positions of the results that `actions` drops."""
        return tuple(a.event.position for a in self.actions if isinstance(a, DropResult))
