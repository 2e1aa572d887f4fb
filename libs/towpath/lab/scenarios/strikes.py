"""Faults that the run does itself. Each target is found in advance, so that the fault comes at its moment."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from random import Random

import psutil

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.faults import OnTarget, Rule, RuleAction, TargetKind
from towpath.contracts.links import LinkConditions, ShapeLink
from towpath.contracts.scenario_strikes import Strike
from towpath.lab.faults.registry import Fault, HeldFault, LinkFault, StrikingFault, Target
from towpath.lab.faults.rule_actions import made
from towpath.lab.guard.targets import target_of
from towpath.lab.harness.stage import Stage
from towpath.tasks import NotInTime, to_the_end, until

LOOK_EVERY_S = 0.05
"""Seconds between looks for a new process of the name: it must not work for longer without the fault."""

STARTS_WITHIN_S = 90.0
"""Seconds for a target to start that does not run at its moment: an engine, on a busy machine."""

SHAPE_S, ATTEMPT_S = 5.0, 2.0

Armed = Callable[[], Awaitable[None]]
"""Does what was prepared, and returns when it is over. Raises `TowpathError`."""


def rule_of(strike: Strike) -> Rule:
    """Return a strike in the form of a rule, to check it and to find its target."""
    action = RuleAction(fault=strike.fault, parameters=strike.parameters)
    return Rule(name="strike", event=OnTarget(target=strike.target, name=strike.name), actions=[action])


async def armed_strike(stage: Stage, strike: Strike) -> Armed:
    """Find the target of a strike, if it runs already: the engine of a site starts with the site's first job.

    What is returned waits for a target that does not run, and hits it as soon as it does. It raises
    `TowpathError` if none starts.
    """
    rule = rule_of(strike)
    fault = made(rule.actions[0], strike.target, Random(0), "strike")
    if isinstance(fault, LinkFault):
        conditions = fault.worsen(LinkConditions(for_s=strike.for_s))
        return partial(_worsen, stage, ShapeLink(site=strike.name, conditions=conditions), strike.for_s)
    assert isinstance(rule.event, OnTarget)
    found = _FoundTarget(target_of(stage.home, rule.event))
    armed = partial(_strike, fault, found)
    if isinstance(fault, HeldFault):
        found.target.remembered = await asyncio.to_thread(fault.remember, found.target, {})
        armed = partial(_hold, fault, found, strike.for_s)
    await asyncio.to_thread(found.find)
    return armed


class _FoundTarget:
    """A target whose processes are known before they are asked for."""

    def __init__(self, target: Target) -> None:
        self.target = replace(target, processes=self._hit)
        self._look = target.processes
        self._found: list[psutil.Process] = []
        """Found in advance, and not hit yet."""
        self._seen: dict[psutil.Process, None] = {}
        """All that were hit."""

    def find(self) -> None:
        """Look for the processes."""
        self._found = self._look()

    @property
    def released(self) -> Target:
        """The target to release: its present processes, and all that were hit."""
        return replace(self.target, processes=lambda: [*(dict.fromkeys(self._look()) | self._seen)])

    async def runs(self) -> None:
        """Wait until the target runs. Raises `TowpathError` if it does not start."""
        self._found = [process for process in self._found if process.is_running()]
        if self._found or self.target.kind is TargetKind.MACHINE:
            return  # At once: the moment counts. A machine may be hit when nothing runs on it.
        try:
            await until(self._is_found, STARTS_WITHIN_S, LOOK_EVERY_S)
        except NotInTime:
            raise TowpathError(
                ErrorCode.FAILED, "does not run", field="strike.name", value=self.target.name
            ) from None

    async def _is_found(self) -> bool:
        await to_the_end(asyncio.to_thread(self.find))
        return bool(self._found)

    def _hit(self) -> list[psutil.Process]:
        found, self._found = self._found or self._look(), []
        self._seen |= dict.fromkeys(found)
        return found


async def _strike(fault: Fault, found: _FoundTarget) -> None:
    assert isinstance(fault, StrikingFault), f"{fault.name} is no fault of a process, a disk or a link"
    await found.runs()
    # In the event loop: a thread would begin only after some milliseconds.
    fault.strike(found.target)


async def _worsen(stage: Stage, command: ShapeLink, for_s: float) -> None:
    await stage.bus.request(command, deadline_s=SHAPE_S, attempt_s=ATTEMPT_S)
    await asyncio.sleep(for_s)


async def _hold(fault: HeldFault, found: _FoundTarget, for_s: float) -> None:
    await found.runs()
    end_at = asyncio.get_running_loop().time() + for_s
    try:
        fault.hold(found.target)  # As in `_strike`.
        while asyncio.get_running_loop().time() < end_at:
            await asyncio.sleep(LOOK_EVERY_S)
            # A thread that is left alone could hold after the release.
            await to_the_end(asyncio.to_thread(fault.hold, found.target))
    finally:
        await to_the_end(asyncio.to_thread(fault.release, found.released))
