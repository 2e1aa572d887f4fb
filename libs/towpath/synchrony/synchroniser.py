"""The interface of every synchroniser to the monitor.

Every result in the log gets exactly one action. Until the decision, the source's results are forwarded and
the target's are dropped, or held while they may still be needed. Once it is settled, the target's are
forwarded and the source's dropped. In between, the decision says what happens to each.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Protocol

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.migration import Role
from towpath.synchrony.decision import Action, DropResult, ForwardResult, Synchronisation
from towpath.synchrony.logged import Frontiers, LoggedResult
from towpath.synchrony.result import at_least


class Synchroniser(Protocol):
    """Makes one consistent stream of the results of two operators.

    It is a fold over the log: anyone who takes the same results again gets the same actions.
    """

    @property
    def synchronised(self) -> Synchronisation | None:
        """The decision, once there is one. The coordinator may then end the source."""
        ...

    def take(self, event: LoggedResult) -> list[Action]:
        """Return the actions for this result and for held ones, in the order of the output.

        A result at a position that was taken before is a redelivery and needs no action.
        Raises `TowpathError` if a result of the same operator is missing before this one.
        """
        ...

    def abandon(self) -> list[Action]:
        """Cancel the migration: the source stays the owner, and held results are forwarded.

        Raises `TowpathError` (not allowed) after the decision, because the output may be the target's.
        """
        ...


class LogSynchroniser(ABC):
    """The common part of synchronisers. Each decides in its own `_step`."""

    def __init__(self, begun: int | None = None) -> None:
        """`begun`: last serial that the source counted before the log began, if known."""
        if begun is not None:
            at_least("begun", begun, 0)
        self.synchronised: Synchronisation | None = None
        self._frontiers = Frontiers(source=begun)
        self._abandoned = False

    def take(self, event: LoggedResult) -> list[Action]:
        """Record one result and return its actions, as in `Synchroniser.take`."""
        if event.position <= self._frontiers.position:
            return []
        self._frontiers = self._frontiers.moved(event)
        if self._abandoned:
            return [_only(Role.SOURCE, event)]
        if self.synchronised is not None and self.synchronised.settled_at is not None:
            return [_only(Role.TARGET, event)]
        actions = self._step(event)
        self._record(event.position, actions)
        return actions

    def abandon(self) -> list[Action]:
        """Return the actions of a cancelled migration, as in `Synchroniser.abandon`."""
        if self.synchronised is not None:
            raise TowpathError(
                ErrorCode.NOT_ALLOWED, f"the output changed hands at serial {self.synchronised.cut}"
            )
        if self._abandoned:
            return []
        self._abandoned = True
        return self._held()

    @abstractmethod
    def _step(self, event: LoggedResult) -> list[Action]:
        """Return the actions of one more result. The frontiers already include it."""

    @abstractmethod
    def _held(self) -> list[Action]:
        """Return the actions on held results when the source stays the owner."""

    @property
    @abstractmethod
    def _cut(self) -> int | None:
        """Return the serial at which the output changes hands, once that is decided."""

    def _record(self, position: int, actions: list[Action]) -> None:
        cut, offset, target = self._cut, self._frontiers.offset, self._frontiers.target
        if cut is None or offset is None or target is None:
            return
        known = self.synchronised or Synchronisation(cut, offset, decided_at=position)
        self.synchronised = replace(
            known,
            actions=(*known.actions, *actions),
            # The target's results are contiguous. Once they reach the cut, the next begins at or after it.
            settled_at=position if target >= cut else None,
        )


def _only(owner: Role, event: LoggedResult) -> Action:
    return ForwardResult(event) if event.origin is owner else DropResult(event)
