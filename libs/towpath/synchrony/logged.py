"""Results as they are in the monitor's log, and the progress of each operator.

A result covers the serials `after < serial <= through`. An operator's results are contiguous: `after` is
the `through` of its result before. For its first result, it is the last serial before it began to read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.migration import Role
from towpath.synchrony.result import at_least


@dataclass(frozen=True, slots=True)
class LoggedResult:
    """The result of one closed window, as the monitor's log has it. Raises `TowpathError` if impossible."""

    origin: Role
    """The operator that computed it."""
    after: int
    """Last serial before the window."""
    through: int
    """Last serial in the window."""
    position: int
    """Its place in the monitor's log. Later results have larger ones."""
    identity: str
    """Its message id."""

    def __post_init__(self) -> None:
        at_least("after", self.after, 0)
        at_least("through", self.through, self.after + 1)
        at_least("position", self.position, 0)


@dataclass(frozen=True, slots=True)
class Frontiers:
    """Positions up to which the log was read and each operator has counted."""

    position: int = -1
    """Position of the newest result taken; -1 before the first."""
    source: int | None = None
    """Last serial the source counted; None before its first result."""
    target: int | None = None
    """Last serial the target counted; None before its first result."""

    @property
    def offset(self) -> int | None:
        """Serials by which the source is ahead, negative when it is behind. None if it cannot be said yet."""
        if self.source is None or self.target is None:
            return None
        return self.source - self.target

    def moved(self, event: LoggedResult) -> Frontiers:
        """Return the frontiers after one more result. Raises `TowpathError` if one before it is missing."""
        reached = self.source if event.origin is Role.SOURCE else self.target
        if reached is not None and event.after != reached:
            raise TowpathError(
                ErrorCode.INVALID,
                f"a result of the {event.origin} does not continue the one before it",
                field="after",
                value=event.after,
                allowed=str(reached),
            )
        if event.origin is Role.SOURCE:
            return replace(self, position=event.position, source=event.through)
        return replace(self, position=event.position, target=event.through)
