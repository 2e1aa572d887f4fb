"""Cues of faults: a step of the migration has begun, its command was sent, its reply was sent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from nats.aio.msg import Msg

from towpath.bus.connecting import flushed
from towpath.contracts.events import StepDone
from towpath.contracts.message import ROOT
from towpath.lab.harness.stage import Stage
from towpath.mesh.permissions import inbox
from towpath.protocols.progress import StepPhase

COMMANDS = f"{ROOT}.command.*.*"


@dataclass
class Cues:
    """The cues of one step of one job's migration, heard on the bus."""

    job: str
    step: str
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the journal says that the step has begun."""
    command: asyncio.Future[Msg] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    """The step's command, as it was first sent."""
    _replies: dict[str, asyncio.Event] = field(default_factory=dict)

    async def replied(self, subject: str) -> None:
        """Return when an answer has come on this subject."""
        await self._replies.setdefault(subject, asyncio.Event()).wait()

    async def on_step(self, event: StepDone) -> None:
        """Take an event in."""
        if (event.job, event.step, event.phase) == (self.job, self.step, StepPhase.BEGUN):
            self.begun.set()

    async def on_command(self, message: Msg) -> None:
        """Take a command in. Its identifier consists of operation and step."""
        _, _, step = str(json.loads(message.data or b"{}").get("id", "")).partition("-")
        if step == self.step and not self.command.done():
            self.command.set_result(message)

    async def on_reply(self, message: Msg) -> None:
        """Take an answer to the coordinator in."""
        self._replies.setdefault(message.subject, asyncio.Event()).set()


@asynccontextmanager
async def listening(stage: Stage, job: str, step: str) -> AsyncIterator[Cues]:
    """Hear the cues of a step from now on."""
    cues = Cues(job, step)
    coordinator = stage.mesh.login("coordinator").user
    operator, prompter = stage.bus.connection, stage.prompter.connection

    async def on_step(message: Msg) -> None:
        await cues.on_step(StepDone.from_bytes(message.data))

    subscriptions = [
        await operator.subscribe(StepDone.wildcard(), cb=on_step),
        await operator.subscribe(COMMANDS, cb=cues.on_command),
        await prompter.subscribe(inbox(coordinator), cb=cues.on_reply),
    ]
    await flushed(operator)
    await flushed(prompter)
    try:
        yield cues
    finally:
        cues.command.cancel()
        for subscription in subscriptions:
            await subscription.unsubscribe()
