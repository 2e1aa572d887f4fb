"""From the messages in the shadow stream to windows, and to what is forwarded of them. Pure.

A window has one result per key, so it comes as several messages. The synchroniser is told of a window
when its first message comes: what it decides depends on the window's serial numbers alone, and holds for
all its messages. That a window is complete shows in the next window of the same operator, or in the serial
number its operator has committed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from towpath.contracts.migration import Role
from towpath.synchrony.decision import Action, ForwardResult
from towpath.synchrony.logged import LoggedResult
from towpath.synchrony.synchroniser import Synchroniser

Body = TypeVar("Body")


@dataclass(frozen=True, slots=True)
class WindowResult(Generic[Body]):
    """One message of a window: the result for one key."""

    origin: Role
    after: int
    """The window covers `after` < serial number ≤ `through`."""
    through: int
    position: int
    """Its place in the shadow stream."""
    identity: str
    body: Body
    """Whatever the caller needs to forward it."""


@dataclass(slots=True)
class _Window(Generic[Body]):
    """A window as far as it has come."""

    through: int
    first: int
    """Position of its first message: what the synchroniser knows it by."""
    last: int
    """Position of its newest message."""
    identities: set[str] = field(default_factory=set)
    held: list[WindowResult[Body]] = field(default_factory=list)
    """The source's results while nothing is decided about the window."""
    action: Action | None = None


class Windows(Generic[Body]):
    """Takes the shadow's results in order, and says which of the source's are forwarded, and when.

    A fold: whoever takes the same results again forwards the same ones and finds the same decision.
    """

    def __init__(self, synchroniser: Synchroniser, begun: int | None = None) -> None:
        """`begun`: end of the source's window that was the last in the output, if any. The diversion may
        have come in the midst of it: what is left of it is forwarded without further ado."""
        self.synchroniser = synchroniser
        self._begun = begun
        self.position = 0
        """Behind it, all results of the target pass as they are. Valid once the decision is settled."""
        self._newest: dict[Role, _Window[Body]] = {}
        self._undecided: dict[int, _Window[Body]] = {}
        """By the position of the first message."""

    @property
    def settled(self) -> bool:
        """Whether it is decided where the output changes hands, and how."""
        decision = self.synchroniser.synchronised
        return decision is not None and decision.settled_at is not None

    def take(self, result: WindowResult[Body]) -> list[WindowResult[Body]]:
        """The results of the source that are forwarded now, in order.

        Raises `TowpathError` if the windows of one operator overlap.
        """
        if result.origin is Role.SOURCE and self._begun is not None and result.through <= self._begun:
            return [result]
        window = self._newest.get(result.origin)
        if window is not None and result.through < window.through:
            return []  # Published again by an operator that was restarted.
        if window is None or result.through > window.through:
            return self._open(result, window)
        if result.identity in window.identities:
            return []
        return self._add(window, result)

    def _open(self, result: WindowResult[Body], before: _Window[Body] | None) -> list[WindowResult[Body]]:
        # A window without accepted events has no result: its serial numbers count to the next one. One
        # that overlaps the one before is refused by the synchroniser.
        reached = before.through if before is not None else self._reached_before(result.origin)
        after = result.after if reached is None else min(result.after, reached)
        event = LoggedResult(result.origin, after, result.through, result.position, result.identity)
        actions = self.synchroniser.take(event)
        window: _Window[Body] = _Window(result.through, first=result.position, last=result.position)
        self._newest[result.origin] = self._undecided[window.first] = window
        return [*self._add(window, result), *self._decide(actions)]

    def _reached_before(self, origin: Role) -> int | None:
        """Where an operator was before its first window in the shadow."""
        return self._begun if origin is Role.SOURCE else None

    def _add(self, window: _Window[Body], result: WindowResult[Body]) -> list[WindowResult[Body]]:
        window.identities.add(result.identity)
        window.last = result.position
        if result.origin is Role.TARGET:
            self._pass_over(window)
            return []
        if window.action is None:
            window.held.append(result)
        return [result] if isinstance(window.action, ForwardResult) else []

    def _decide(self, actions: Iterable[Action]) -> list[WindowResult[Body]]:
        forwarded: list[WindowResult[Body]] = []
        for action in actions:
            window = self._undecided.pop(action.event.position)
            window.action = action
            if action.event.origin is Role.TARGET:
                self._pass_over(window)
            elif isinstance(action, ForwardResult):
                forwarded += window.held
            window.held = []
        return forwarded

    def _pass_over(self, window: _Window[Body]) -> None:
        """The output takes nothing of this window of the target, if that is what was decided."""
        if window.action is not None and not isinstance(window.action, ForwardResult):
            self.position = max(self.position, window.last)

    @property
    def is_silent(self) -> bool:
        """Whether neither operator has closed a window since the diversion."""
        return not self._newest

    def unfinished(self) -> dict[Role, int]:
        """Operator → the serial number it must commit before all of its newest window has come.

        Only where it matters: for a window that is forwarded as far as it has come, and for one of the
        target that must be passed over as a whole.
        """
        unfinished: dict[Role, int] = {}
        if self._begun is not None and Role.SOURCE not in self._newest:
            unfinished[Role.SOURCE] = self._begun
        for origin, window in self._newest.items():
            is_forwarded = isinstance(window.action, ForwardResult)
            if is_forwarded if origin is Role.SOURCE else not is_forwarded:
                unfinished[origin] = window.through
        return unfinished
