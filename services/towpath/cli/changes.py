"""Carries out commands that change something: shows the steps while they go, tells how it ended."""

from __future__ import annotations

from collections.abc import Sequence

from nats.aio.msg import Msg

from towpath.bus import Bus
from towpath.cli.connection import CHANGE_ATTEMPT_S, LOOK_DEADLINE_S, open_bus
from towpath.cli.output import print_json, say, working
from towpath.contracts.commands import (
    MigrationFigures,
    OperationAnswer,
    OperationKind,
    OperationState,
    ShowOperation,
)
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.events import StepDone
from towpath.contracts.message import Command
from towpath.mesh.home import Home

DEFAULT_DEADLINE_S = 120.0
"""For a deploy, update, remove or migrate: a warm engine needs seconds, one that just starts a minute."""

Change = Command[OperationAnswer]

GONE_WRONG = frozenset(
    {OperationState.ROLLING_BACK, OperationState.ROLLED_BACK, OperationState.NEEDS_OPERATOR}
)


async def carry_out(home: Home, commands: Sequence[Change], *, within_s: float, as_json: bool) -> None:
    """Send commands one after another; stop at the first that fails.

    Raises `TowpathError` when one is refused or its operation does not end well. With `as_json` the
    answers so far are printed even then.
    """
    answers: list[OperationAnswer] = []
    async with open_bus(home) as bus:
        try:
            for command in commands:
                answers.append(await _watched(bus, command, within_s))
                _judge(answers[-1])
                if not as_json:
                    await _tell(bus, answers[-1])
        finally:
            if as_json:
                print_json(answers)


async def _watched(bus: Bus, command: Change, within_s: float) -> OperationAnswer:
    """Send the command; meanwhile the spinner names the step under way."""
    title = command.verb()
    with working(f"{title} …") as status:

        async def show(message: Msg) -> None:
            step = StepDone.from_bytes(message.data)
            status.update(f"{title} {step.job}: {step.step} {step.phase}")

        watch = await bus.connection.subscribe(StepDone.wildcard(), cb=show)
        try:
            return await bus.request(command, deadline_s=within_s, attempt_s=CHANGE_ATTEMPT_S)
        finally:
            await watch.unsubscribe()


def _judge(answer: OperationAnswer) -> None:
    if answer.state in GONE_WRONG:
        state = answer.state.replace("_", " ")
        why = answer.note or "its journal says why"
        where = f"towpath operation {answer.operation}"
        raise TowpathError(ErrorCode.FAILED, f"{answer.kind} of {answer.job} is {state}: {why} ({where})")


async def _tell(bus: Bus, answer: OperationAnswer) -> None:
    note = f": {answer.note}" if answer.note else ""
    print(f"{answer.kind} {answer.job} {answer.state} (operation {answer.operation}){note}")
    if answer.kind is OperationKind.MIGRATE and answer.state is OperationState.COMPLETED:
        view = await bus.request(ShowOperation(operation=answer.operation), deadline_s=LOOK_DEADLINE_S)
        if view.figures is not None:
            print(describe(view.figures))
    elif answer.state is OperationState.RUNNING:
        say(f"follow it with: towpath operation {answer.operation}")


def describe(figures: MigrationFigures) -> str:
    """What a migration cost, in one line."""
    downtime = (
        "no input came meanwhile" if figures.downtime_s is None else f"downtime {figures.downtime_s:.2f} s"
    )
    return f"took {figures.total_s:.2f} s, {downtime}, {figures.state_bytes:,} bytes of state moved"
