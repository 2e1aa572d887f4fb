"""Assemble messages in the shadow stream to windows, and decide which of them are forwarded. Pure.

A window has one result per key, so it comes as several messages. The synchroniser gets a window with its
first message, because its decision depends only on the window's serial numbers and holds for all its
messages. A window is known to be complete by the next window of the same operator, or by the serial number
that its operator has committed.
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
    """Data that the caller needs to forward it."""


@dataclass(slots=True)
class _Window(Generic[Body]):
    """A window with the messages that have come so far."""

    through: int
    first: int
    """Position of its first message, by which the synchroniser knows it."""
    last: int
    """Position of its newest message."""
    identities: set[str] = field(default_factory=set)
    held: list[WindowResult[Body]] = field(default_factory=list)
    """The source's results while the window is undecided."""
    action: Action | None = None


class Windows(Generic[Body]):
    """Takes the shadow's results in order, and returns those of the source to forward, and when.

    It is a fold: the same results, taken again, lead to the same output and the same decision.
    """

    def __init__(self, synchroniser: Synchroniser, begun: int | None = None) -> None:
        """Begin a fold. `begun` is the end of the source's last window in the output, if any.

        The diversion may have come in the middle of that window. Its remaining results are forwarded at once.
        """
        self.synchroniser = synchroniser
        self._begun = begun
        self.position = 0
        """Position after which all results of the target pass as they are. Valid after the decision."""
        self._newest: dict[Role, _Window[Body]] = {}
        self._undecided: dict[int, _Window[Body]] = {}
        """Undecided windows by the position of the first message."""

    @property
    def settled(self) -> bool:
        """True if it is decided where and how the output changes hands."""
        decision = self.synchroniser.synchronised
        return decision is not None and decision.settled_at is not None

    def take(self, result: WindowResult[Body]) -> list[WindowResult[Body]]:
        """Take a result. Return the results of the source to forward now, in order.

        Raises `TowpathError` if the windows of one operator overlap.
        """
        if result.origin is Role.SOURCE and self._begun is not None and result.through <= self._begun:
            return [result]
        window = self._newest.get(result.origin)
        if window is not None and result.through < window.through:
            return []  # Published again by a restarted operator.
        if window is None or result.through > window.through:
            return self._open(result, window)
        if result.identity in window.identities:
            return []
        return self._add(window, result)

    def _open(self, result: WindowResult[Body], before: _Window[Body] | None) -> list[WindowResult[Body]]:
        # A window without accepted events has no result, and its serial numbers count to the next one. The
        # synchroniser refuses a window that overlaps the one before.
        reached = before.through if before is not None else self._reached_before(result.origin)
        after = result.after if reached is None else min(result.after, reached)
        event = LoggedResult(result.origin, after, result.through, result.position, result.identity)
        actions = self.synchroniser.take(event)
        window: _Window[Body] = _Window(result.through, first=result.position, last=result.position)
        self._newest[result.origin] = self._undecided[window.first] = window
        return [*self._add(window, result), *self._decide(actions)]

    def _reached_before(self, origin: Role) -> int | None:
        """Return the serial number an operator had reached before its first window in the shadow."""
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
        """Drop this window of the target from the output, if that was decided."""
        if window.action is not None and not isinstance(window.action, ForwardResult):
            self.position = max(self.position, window.last)

    @property
    def is_silent(self) -> bool:
        """True if neither operator has closed a window since the diversion."""
        return not self._newest

    def unfinished(self) -> dict[Role, int]:
        """Return operator → the serial number it must commit before all of its newest window has come.

        This contains only windows where it matters: one that is forwarded as far as it has come, and one of
        the target that must be dropped as a whole.
        """
        unfinished: dict[Role, int] = {}
        if self._begun is not None and Role.SOURCE not in self._newest:
            unfinished[Role.SOURCE] = self._begun
        for origin, window in self._newest.items():
            is_forwarded = isinstance(window.action, ForwardResult)
            if is_forwarded if origin is Role.SOURCE else not is_forwarded:
                unfinished[origin] = window.through
        return unfinished
