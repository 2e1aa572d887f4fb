"""The named points of the data path, and how a rule looks at what passes one.

Code at a point asks `if POINT.rules:` and goes on: that is all a point costs without a rule. With one it
hands over everything that is about to pass at once, and goes on with what it gets back. This module imports
little: every Python worker of Spark imports it.

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
        # Not the next constructor in line: that of another exception may ask for anything.
        Exception.__init__(self, message)
        self.message = message

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True)
class Items(Generic[T]):
    """How to read and change what passes a named point."""

    payload: Callable[[T], bytes]
    fields: Callable[[T], Mapping[str, Any]]
    """What conditions may name, `payload` aside: `topic`, `serial`, `job`…"""
    with_payload: Callable[[T, bytes], T]


@dataclass
class Passed(Generic[T]):
    """What one rule made of what was to pass."""

    items: Sequence[T]
    wait_s: float = 0.0
    """How long everything is held up before it goes on, seconds."""
    error: Exception | None = None
    """What the code at the point gets to see, after the wait."""


class PassageRule(Protocol):
    """A rule whose event is a named point."""

    def look(self, items: Sequence[T], access: Items[T], context: Mapping[str, Any]) -> Passed[T]:
        """Look at all items and change what the rule is about. Never raises."""
        ...

    def hold_up(self, seconds: float) -> None:
        """Wait, no longer than the rule is loaded."""
        ...

    async def hold_up_async(self, seconds: float) -> None:
        """As `hold_up`, while other tasks go on."""
        ...


class Point:
    """A named point of the data path in this process."""

    __slots__ = ("name", "rules")

    def __init__(self, name: str) -> None:
        self.name = name
        self.rules: tuple[PassageRule, ...] = ()
        """Those that look at this point now; set by the extension, if there is one."""

    def through(self, items: Sequence[T], access: Items[T], **context: Any) -> Sequence[T]:
        """What passes instead of `items`; blocks for as long as rules hold it up.

        `context` is what conditions may name of all items; `job` is whose they are. Raises what a rule
        means to raise.
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
        """As `through`, for code on an event loop: other tasks go on meanwhile."""
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
"""All of them by name, as `towpath.contracts.faults.DataPoint` lists them."""
