"""The named points of the data path, and the interface of the rules that look at passing data.

Code at a point asks `if POINT.rules:` and goes on: that is all a point costs without a rule. With one, the
code hands over all items that are about to pass, and goes on with those it gets back. This module imports
little, because every Python worker of Spark imports it.

    if SOURCE_READ.rules:
        messages = SOURCE_READ.through(messages, MESSAGES, job=self.job)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

T = TypeVar("T")


class InjectedFault(Exception):
    """Raised on purpose by a rule. It is also the exception that the rule names, if it names one."""

    def __init__(self, message: str = "injected fault") -> None:
        # Not `super()`: the constructor of the other exception may need any arguments.
        Exception.__init__(self, message)
        self.message = message

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True)
class Items(Generic[T]):
    """Reads and changes the items that pass a named point."""

    payload: Callable[[T], bytes]
    fields: Callable[[T], Mapping[str, Any]]
    """Returns the fields that conditions may name beside `payload`: `topic`, `serial`, `job`…"""
    with_payload: Callable[[T, bytes], T]


@dataclass
class Passed(Generic[T]):
    """The outcome of one rule."""

    items: Sequence[T]
    wait_s: float = 0.0
    """Seconds for which everything is held up."""
    error: Exception | None = None
    """The error that the code at the point gets after the wait."""


class PassageRule(Protocol):
    """A rule whose event is a named point."""

    def look(self, items: Sequence[T], access: Items[T], context: Mapping[str, Any]) -> Passed[T]:
        """Look at all items and change those that the rule is about. Never raises."""
        ...

    def hold_up(self, seconds: float) -> None:
        """Wait, but no longer than the rule is loaded."""
        ...

    async def hold_up_async(self, seconds: float) -> None:
        """Wait as `hold_up` does, while other tasks go on."""
        ...


class Point:
    """A named point of the data path in this process."""

    __slots__ = ("name", "rules")

    def __init__(self, name: str) -> None:
        self.name = name
        self.rules: tuple[PassageRule, ...] = ()
        """The rules that look at this point now. The extension sets them, if there is one."""

    def through(self, items: Sequence[T], access: Items[T], **context: Any) -> Sequence[T]:
        """Return the items that pass instead of `items`. Block for as long as rules hold them up.

        `context` has fields of all items that conditions may name, such as their `job`. Raises the error that
        a rule injects.
        """
        for rule in self.rules:
            passed = rule.look(items, access, context)
            if passed.wait_s > 0:
                rule.hold_up(passed.wait_s)
            if passed.error is not None:
                raise passed.error
            items = passed.items
        return items

    async def through_async(self, items: Sequence[T], access: Items[T], **context: Any) -> Sequence[T]:
        """Do the same as `through` on an event loop: other tasks go on meanwhile."""
        for rule in self.rules:
            passed = rule.look(items, access, context)
            if passed.wait_s > 0:
                await rule.hold_up_async(passed.wait_s)
            if passed.error is not None:
                raise passed.error
            items = passed.items
        return items


SOURCE_READ = Point("source.read")
OPERATOR_BATCH = Point("operator.batch")
OPERATOR_EVENT = Point("operator.event")
SINK_PUBLISH = Point("sink.publish")
ENGINE_PROGRESS = Point("engine.progress")
CHECKPOINT_SHIP = Point("checkpoint.ship")
AGENT_COMMAND = Point("agent.command")
BUS_SEND = Point("bus.send")
BUS_RECEIVE = Point("bus.receive")

POINTS: Mapping[str, Point] = {
    point.name: point
    for point in (
        SOURCE_READ,
        OPERATOR_BATCH,
        OPERATOR_EVENT,
        SINK_PUBLISH,
        ENGINE_PROGRESS,
        CHECKPOINT_SHIP,
        AGENT_COMMAND,
        BUS_SEND,
        BUS_RECEIVE,
    )
}
"""Name → point, as `towpath.contracts.faults.DataPoint` lists them."""
