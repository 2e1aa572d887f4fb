"""Execute commands that change something: show their steps, then their outcome."""

from __future__ import annotations

from collections.abc import Sequence

from towpath.bus import Bus
from towpath.cli.connection import CHANGE_ATTEMPT_S, LOOK_DEADLINE_S, open_bus
from towpath.cli.journals import print_costs
from towpath.cli.output import print_json, say, working
from towpath.contracts.commands import OperationAnswer, OperationKind, OperationState, ShowOperation
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.events import OperationBegun, StepDone
from towpath.contracts.message import Command
from towpath.mesh.home import Home
from towpath.reports.costs import choice_line

DEFAULT_DEADLINE_S = 120.0
"""Time for a deploy, update, remove or migrate: a warm engine needs seconds, a starting one a minute."""

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
                answers.append(await _watched(bus, command, within_s, tell=not as_json))
                judge(answers[-1])
                if not as_json:
                    await _tell(bus, answers[-1])
        finally:
            if as_json:
                print_json(answers)


async def _watched(bus: Bus, command: Change, within_s: float, *, tell: bool) -> OperationAnswer:
    """Send the command. The spinner names the step under way. The bus follows events until it is closed."""
    title, operations = command.verb(), dict[str, OperationBegun]()
    with working(f"{title} …") as status:

        async def begin(begun: OperationBegun) -> None:
            if begun.command == command.id:
                operations[begun.operation] = begun
                if tell and begun.kind is OperationKind.MIGRATE:
                    await _tell_choice(bus, begun.operation)

        async def show(step: StepDone) -> None:
            if step.operation in operations:
                status.update(f"{title} {step.job}: {step.step} {step.phase}")

        await bus.subscribe(OperationBegun, begin)
        await bus.subscribe(StepDone, show)
        try:
            return await bus.request(command, deadline_s=within_s, attempt_s=CHANGE_ATTEMPT_S)
        except TowpathError as error:
            if error.detail.code is not ErrorCode.DEADLINE or not operations:
                raise
            raise _goes_on(next(iter(operations.values())), within_s) from error


def _goes_on(begun: OperationBegun, within_s: float) -> TowpathError:
    return TowpathError(
        ErrorCode.DEADLINE,
        f"{begun.kind} of {begun.job} has not ended within {within_s:g} s and goes on "
        f"(`{shown_by(begun.kind, begun.operation)}`)",
    )


async def _tell_choice(bus: Bus, operation: str) -> None:
    """Print the strategy and its reason before the job moves."""
    view = await bus.request(ShowOperation(operation=operation), deadline_s=LOOK_DEADLINE_S)
    if view.forecast is not None:
        say(choice_line(view.forecast))


def judge(answer: OperationAnswer) -> None:
    """Raise `TowpathError` (failed) if an operation did not end well."""
    if answer.state in GONE_WRONG:
        state = answer.state.replace("_", " ")
        why = answer.note or "its journal says why"
        raise TowpathError(
            ErrorCode.FAILED,
            f"{answer.kind} of {answer.job} is {state}: {why} (`{shown_by(answer.kind, answer.operation)}`)",
        )


async def _tell(bus: Bus, answer: OperationAnswer) -> None:
    note = f": {answer.note}" if answer.note else ""
    print(f"{answer.kind} {answer.job} {answer.state} (operation {answer.operation}){note}")
    if answer.kind is OperationKind.MIGRATE and answer.state is OperationState.COMPLETED:
        view = await bus.request(ShowOperation(operation=answer.operation), deadline_s=LOOK_DEADLINE_S)
        print_costs(view)
    elif answer.state is OperationState.RUNNING:
        say(f"follow it with: {shown_by(answer.kind, answer.operation)}")


def shown_by(kind: OperationKind, operation: str) -> str:
    """Return the command that shows an operation step by step."""
    command = "migration" if kind is OperationKind.MIGRATE else "operation"
    return f"towpath {command} {operation}"
