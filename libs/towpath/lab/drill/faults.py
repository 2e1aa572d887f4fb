"""The faults of drills. Each waits for its cue, does its harm, and returns the moment when it was over.

Processes are found by their pid files and hit from outside. None of them knows of the drill.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import psutil

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.faults import TargetKind
from towpath.contracts.links import LinkConditions, ShapeLink
from towpath.lab.drill.cues import Cues
from towpath.lab.drill.matrix import BROKERS, OUTPUT_SITE, ActorName, FaultName
from towpath.lab.faults.faults.disk_full import DiskFull
from towpath.lab.faults.faults.pause import Pause
from towpath.lab.faults.registry import NoParameters, Target
from towpath.lab.guard.targets import family
from towpath.lab.harness.stage import Stage
from towpath.processes import find

OUTAGE_S = 10.0
"""Seconds for which a fault lasts that is not over at once."""

BROKER_OUTAGE_S = 9.0
"""Less than ten seconds, after which a device gives a silent broker up and sends everything again: events
would be stored twice, later than any watermark waits."""

LOOK_EVERY_S = 0.05
"""Seconds between looks for a new process of the name that has a full disk."""

REPLY_S = 15.0
"""Seconds for the reply that is to be lost. The coordinator hangs meanwhile; its own deadline is not near."""

COORDINATOR = "coordinator"

Fault = Callable[[Stage, "Victim", Cues], Coroutine[Any, Any, float]]


class Victim:
    """The process that an actor is in one migration."""

    def __init__(self, stage: Stage, actor: ActorName, source: str, target: str) -> None:
        self.actor = actor
        role, _, part = actor.partition("-")
        self.site = {"source": source, "target": target, "output": OUTPUT_SITE}.get(role)
        """Its site. None for a service of the hub."""
        self.name = f"{self.site}-{part}" if self.site else str(actor)
        """Of its pid file."""
        self._run = stage.home.run

    def process(self, name: str | None = None) -> psutil.Process:
        """Return the process that has the name now. Raises `TowpathError` if there is none."""
        record = find(self._run, name or self.name)
        process = record.process if record is not None else None
        if process is None:
            raise TowpathError(ErrorCode.FAILED, f"{name or self.name} does not run", field="actor")
        return process

    def target(self, kind: TargetKind) -> Target:
        """Return the target of a fault that rules have, too. It is empty while the process does not run."""
        return Target(kind, self.name, processes=lambda: family(self._run, self.name))


async def kill(stage: Stage, victim: Victim, cues: Cues) -> float:
    """See `FaultName.KILL`."""
    process = await asyncio.to_thread(victim.process)
    await cues.begun.wait()
    process.kill()
    return time.time()


async def stop(stage: Stage, victim: Victim, cues: Cues) -> float:
    """See `FaultName.STOP`."""
    process = await asyncio.to_thread(victim.process)
    await cues.begun.wait()
    process.suspend()  # First: it must not get any further while its children are looked up.
    pause, target = Pause(NoParameters(), Random()), victim.target(TargetKind.PROCESS)
    try:
        await asyncio.to_thread(pause.hold, target)
        await asyncio.sleep(BROKER_OUTAGE_S if victim.actor in BROKERS else OUTAGE_S)
    finally:
        await asyncio.shield(asyncio.to_thread(pause.release, target))
    return time.time()


async def cut(stage: Stage, victim: Victim, cues: Cues) -> float:
    """See `FaultName.CUT`."""
    assert victim.site is not None, "only sites have links"
    command = ShapeLink(site=victim.site, conditions=LinkConditions(cut=True, for_s=OUTAGE_S))
    await cues.begun.wait()
    await stage.bus.request(command, deadline_s=5, attempt_s=2)
    await asyncio.sleep(OUTAGE_S)
    return time.time()


async def fill_disk(stage: Stage, victim: Victim, cues: Cues) -> float:
    """See `FaultName.DISK_FULL`, and `DiskFull` for what that does to which process."""
    disk_full, target = DiskFull(NoParameters(), Random()), victim.target(TargetKind.DISK)
    await asyncio.to_thread(victim.process)
    await cues.begun.wait()
    end = asyncio.get_running_loop().time() + OUTAGE_S
    try:
        while asyncio.get_running_loop().time() < end:
            await asyncio.to_thread(disk_full.hold, target)
            await asyncio.sleep(LOOK_EVERY_S)
    finally:
        await asyncio.shield(asyncio.to_thread(disk_full.release, target))
    return time.time()


async def lose_reply(stage: Stage, victim: Victim, cues: Cues) -> float:
    """See `FaultName.LOSE_REPLY`.

    The coordinator is frozen when the command is seen, and killed when the reply is: the reply may be in
    its socket, but never in its journal.
    """
    coordinator = await asyncio.to_thread(victim.process, COORDINATOR)
    command = await cues.command
    coordinator.suspend()
    try:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(cues.replied(command.reply), REPLY_S)
    finally:
        coordinator.kill()
    return time.time()


async def deliver_twice(stage: Stage, victim: Victim, cues: Cues) -> float:
    """See `FaultName.TWICE`."""
    command = await cues.command
    await stage.prompter.connection.publish(command.subject, command.data, headers=command.headers)
    return time.time()


FAULTS: dict[FaultName, Fault] = {
    FaultName.KILL: kill,
    FaultName.STOP: stop,
    FaultName.CUT: cut,
    FaultName.DISK_FULL: fill_disk,
    FaultName.LOSE_REPLY: lose_reply,
    FaultName.TWICE: deliver_twice,
}
