"""Events and metrics of the mesh during a run: written down, and awaited by steps of the timeline."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from nats.aio.msg import Msg
from pydantic import ValidationError

from towpath.bus import Bus
from towpath.bus.connecting import flushed
from towpath.contracts.data_plane import subject_matches
from towpath.contracts.events import EVENTS_WILDCARD
from towpath.contracts.fault_commands import RuleEnded
from towpath.contracts.metrics import Metric
from towpath.contracts.scenario import Collection, Trigger
from towpath.lab.harness.journal import Entry, Journal

_PREFIX = EVENTS_WILDCARD.removesuffix(">")

Body = dict[str, Any]


def matches(trigger: Trigger, subject: str, body: Body) -> bool:
    """True if a trigger waits for this event. `subject` is without the prefix of all events."""
    return subject_matches(trigger.event, subject) and all(
        _equal(body.get(name), value) for name, value in trigger.where.items()
    )


def _equal(held: Any, wanted: Any) -> bool:
    return held == wanted or str(held) == str(wanted)


@dataclass
class MeshEvents:
    """Hears all events."""

    journal: Journal
    on_rule_ended: Callable[[RuleEnded], None]
    _waiting: list[tuple[Trigger, asyncio.Event]] = field(default_factory=list)

    async def listen(self, bus: Bus) -> None:
        """Hear events from now on, until the bus is closed."""
        await bus.connection.subscribe(EVENTS_WILDCARD, cb=self._on_message)
        await flushed(bus.connection)

    def expect(self, trigger: Trigger) -> asyncio.Event:
        """Return an event that is set when the trigger's event comes, from now on."""
        heard = asyncio.Event()
        self._waiting.append((trigger, heard))
        return heard

    async def _on_message(self, message: Msg) -> None:
        try:
            body = json.loads(message.data)
        except ValueError:
            return
        self.take(message.subject.removeprefix(_PREFIX), body if isinstance(body, dict) else {})

    def take(self, subject: str, body: Body) -> None:
        """Take an event in."""
        for trigger, heard in self._waiting:
            if matches(trigger, subject, body):
                heard.set()
        self.journal.add(Entry.EVENT, subject=subject, body=body)
        if subject.startswith("fault.") and subject.endswith(".ended"):
            try:
                self.on_rule_ended(RuleEnded.model_validate(body))
            except ValidationError:
                return


class Recorder:
    """Hears metrics during one run."""

    def __init__(self, journal: Journal, collect: Collection) -> None:
        self._journal, self._names = journal, set(collect.metrics)

    async def listen(self, bus: Bus) -> None:
        """Hear metrics from now on, until the bus is closed. Does nothing if none is collected."""
        if self._names:
            await bus.subscribe(Metric, self.take)

    async def take(self, metric: Metric) -> None:
        """Take one in."""
        if "*" in self._names or metric.name in self._names:
            self._journal.add(Entry.METRIC, **metric.model_dump(mode="json", exclude={"at"}))
