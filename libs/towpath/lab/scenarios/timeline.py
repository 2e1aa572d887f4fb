"""Plays the steps of a scenario at their moments."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

import psutil
from nats.errors import Error as NatsError

from towpath.contracts.errors import TowpathError
from towpath.contracts.scenario import Step, Trigger
from towpath.lab.harness.journal import Entry, Journal
from towpath.lab.scenarios.commands import what_of
from towpath.lab.scenarios.mesh_events import MeshEvents
from towpath.tasks import one_is_set

CarryOut = Callable[[Step], Awaitable[None]]


@dataclass(frozen=True)
class _Awaited:
    """The event that a step waits for, and the one that ends the wait."""

    heard: asyncio.Event
    ended: asyncio.Event | None

    @classmethod
    def of(cls, trigger: Trigger, events: MeshEvents) -> _Awaited:
        if trigger.unless_ended is None:
            return cls(events.expect(trigger), None)
        over = Trigger(event="operation.*.ended", where={"job": trigger.unless_ended})
        return cls(events.expect(trigger), events.expect(over))

    async def comes(self) -> bool:
        """Wait for the event. Return false if the wait was ended before."""
        await one_is_set(*(event for event in (self.heard, self.ended) if event is not None))
        return self.heard.is_set()


class Timeline:
    """The steps of one run. A failed step is written down, and the others go on."""

    def __init__(
        self, steps: Sequence[Step], carry_out: CarryOut, events: MeshEvents, journal: Journal
    ) -> None:
        self.problems: list[str] = []
        self._carry_out, self._events, self._journal = carry_out, events, journal
        timed = sorted((s for s in steps if s.at is not None), key=lambda s: s.at or 0.0)
        self._timed = [(at or 0.0, list(group)) for at, group in groupby(timed, key=lambda s: s.at)]
        self._triggered = [(step, _Awaited.of(step.on, events)) for step in steps if step.on is not None]

    async def play(self) -> None:
        """Execute all steps, counted from now, and return when the last one is done."""
        async with asyncio.TaskGroup() as tasks:
            for at, steps in self._timed:
                tasks.create_task(self._at(at, steps), name=f"steps at {at:g} s")
            for step, heard in self._triggered:
                tasks.create_task(self._on(step, heard), name=f"step on {step.on}")

    async def _at(self, at: float, steps: Iterable[Step]) -> None:
        await asyncio.sleep(at)
        for step in steps:
            await self._do(step)

    async def _on(self, step: Step, awaited: _Awaited) -> None:
        assert step.on is not None
        try:
            async with asyncio.timeout(step.on.within_s):
                if not await awaited.comes():
                    self._journal.add(Entry.STEP, action=step.action, what=f"left out: {what_of(step)}")
                    return
        except TimeoutError:
            self._problem(step, f"{step.on.event} did not come within {step.on.within_s:g} s")
            return
        if step.on.after_s:
            await asyncio.sleep(step.on.after_s)
        await self._do(step)

    async def _do(self, step: Step) -> None:
        try:
            await self._carry_out(step)
        except (TowpathError, NatsError, OSError, psutil.Error) as error:
            # A step that fails ends neither the run nor the campaign around it.
            self._problem(step, str(error) or "no answer in time")
            return
        self._journal.add(Entry.STEP, action=step.action, what=what_of(step))

    def _problem(self, step: Step, text: str) -> None:
        self._journal.add(Entry.STEP, action=step.action, what=what_of(step), error=text)
        self.problems.append(f"the step {step.action} {what_of(step)} failed: {text}")
