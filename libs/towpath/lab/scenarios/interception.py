"""Commands of a migration's steps, caught on the bus: delivered twice, or their reply lost."""

from __future__ import annotations

import asyncio
import contextlib
import json
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial

import psutil
from nats.aio.msg import Msg

from towpath.bus.connecting import flushed
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import ROOT
from towpath.contracts.scenario_strikes import Interception, Meddling
from towpath.lab.guard.targets import family
from towpath.lab.harness.stage import Stage
from towpath.lab.scenarios.strikes import Armed
from towpath.mesh.permissions import inbox

COMMANDS = f"{ROOT}.command.*.*"
COORDINATOR = "coordinator"

REPLY_S = 15.0
"""Seconds for the reply that is to be lost. The coordinator hangs meanwhile; its own deadline is not near."""


async def armed_interception(stage: Stage, about: Interception, exits: AsyncExitStack) -> Armed:
    """Hear commands and replies from now on, until `exits` are closed. Raises `TowpathError`."""
    caught = CaughtCommand(about)
    await _listen(stage, caught, exits)
    if about.do is Meddling.DELIVER_TWICE:
        return partial(deliver_twice, stage, caught)
    found = await asyncio.to_thread(family, stage.home.run, COORDINATOR)
    if not found:
        raise TowpathError(ErrorCode.FAILED, "the coordinator does not run", field="intercept")
    return partial(lose_reply, found[0], caught)


@dataclass
class CaughtCommand:
    """The command of one step, as it was first sent, and the replies to it."""

    about: Interception
    _command: asyncio.Future[Msg] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    _replies: dict[str, asyncio.Event] = field(default_factory=dict)

    async def on_command(self, message: Msg) -> None:
        """Take a command in. Its identifier consists of operation and step."""
        body = json.loads(message.data or b"{}")
        _, _, step = str(body.get("id", "")).partition("-")
        of_job = body.get("job") in (None, self.about.job)
        if of_job and step == self.about.step and not self._command.done():
            self._command.set_result(message)

    async def on_reply(self, message: Msg) -> None:
        """Take an answer to the coordinator in."""
        self._replies.setdefault(message.subject, asyncio.Event()).set()

    async def command(self) -> Msg:
        """Return the command once it was sent. Raises `TimeoutError`."""
        async with asyncio.timeout(self.about.within_s):
            return await asyncio.shield(self._command)

    async def replied(self, subject: str) -> None:
        """Return when an answer has come on this subject."""
        await self._replies.setdefault(subject, asyncio.Event()).wait()


async def _listen(stage: Stage, caught: CaughtCommand, exits: AsyncExitStack) -> None:
    operator, prompter = stage.bus.connection, stage.prompter.connection
    answers = inbox(stage.mesh.login(COORDINATOR).user)
    for subscription in (
        await operator.subscribe(COMMANDS, cb=caught.on_command),
        await prompter.subscribe(answers, cb=caught.on_reply),
    ):
        exits.push_async_callback(subscription.unsubscribe)
    await flushed(operator)
    await flushed(prompter)


async def deliver_twice(stage: Stage, caught: CaughtCommand) -> None:
    """See `Meddling.DELIVER_TWICE`."""
    command = await caught.command()
    await stage.prompter.connection.publish(command.subject, command.data, headers=command.headers)


async def lose_reply(coordinator: psutil.Process, caught: CaughtCommand) -> None:
    """See `Meddling.LOSE_REPLY`.

    The coordinator is frozen when the command is seen, and killed when the reply is: the reply may be in
    its socket, but never in its journal.
    """
    command = await caught.command()
    try:
        coordinator.suspend()  # It was found before: the moment counts.
    except psutil.NoSuchProcess as error:
        raise TowpathError(ErrorCode.FAILED, "the coordinator has ended", field="intercept") from error
    try:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(caught.replied(command.reply), REPLY_S)
    finally:
        coordinator.kill()
