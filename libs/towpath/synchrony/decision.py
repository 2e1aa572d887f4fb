"""Actions of a synchroniser on each result in the monitor's log, and the decision behind them."""

from __future__ import annotations

from dataclasses import dataclass

from towpath.synchrony.logged import LoggedResult


@dataclass(frozen=True, slots=True)
class ForwardResult:
    """The result goes to the subscribers as it is."""

    event: LoggedResult


@dataclass(frozen=True, slots=True)
class AmendResult:
    """The result goes to the subscribers over other serials: compute it for `after < s <= through`."""

    event: LoggedResult
    after: int
    through: int


@dataclass(frozen=True, slots=True)
class DropResult:
    """Subscribers do not get the result, because other results cover all its serials."""

    event: LoggedResult


Action = ForwardResult | AmendResult | DropResult


@dataclass(frozen=True, slots=True)
class Synchronisation:
    """The decision: the serial where the output changes hands, and what becomes of the results around it."""

    cut: int
    """Up to this serial the output is the source's, and beyond it the target's."""
    offset: int
    """Serials by which the source was ahead. Negative: the target was."""
    decided_at: int
    """Position of the result that made the decision possible."""
    actions: tuple[Action, ...] = ()
    """Actions on the results held at the decision and on those after it, up to `settled_at`."""
    settled_at: int | None = None
    """All target results at later positions pass verbatim. None: the next may still be amended or dropped."""

    @property
    def verbatim(self) -> tuple[int, ...]:
        """Positions of the results that `actions` forwards as they are."""
        return tuple(a.event.position for a in self.actions if isinstance(a, ForwardResult))

    @property
    def amended(self) -> tuple[AmendResult, ...]:
        """The results that must be computed again. One at most."""
        return tuple(a for a in self.actions if isinstance(a, AmendResult))

    @property
    def dropped(self) -> tuple[int, ...]:
        """Positions of the results that `actions` drops."""
        return tuple(a.event.position for a in self.actions if isinstance(a, DropResult))
