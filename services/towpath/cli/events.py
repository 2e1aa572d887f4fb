"""Commands that print events of the mesh, and that send it any command message."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from towpath.bus import follow_events
from towpath.cli.connection import CHANGE_ATTEMPT_S, open_bus
from towpath.cli.output import print_json, print_json_line, working
from towpath.cli.settings import AsJson, home_of
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.events import EVENTS_WILDCARD
from towpath.contracts.message import ROOT, Command, Model
from towpath.mesh.home import Home

PUBLISH_DEADLINE_S = 120.0


def events(
    context: typer.Context,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with new events.")] = False,
    from_start: Annotated[
        bool, typer.Option("--from-start", help="With --follow: print all kept events first.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print the kept events, or follow new ones until Ctrl-C; one line each.

    Example: `towpath events --follow --from-start --json`
    """
    asyncio.run(_events(home_of(context), follow, from_start or not follow, as_json))


async def _events(home: Home, follow: bool, from_start: bool, as_json: bool) -> None:
    async with open_bus(home) as bus:
        async for subject, body in follow_events(bus, from_start=from_start, follow=follow):
            if as_json:
                print_json_line({"subject": subject, "body": body})
            else:
                print(_line(subject, body), flush=True)


def _line(subject: str, body: dict[str, Any]) -> str:
    """Return an event for people: its time, its kind, and every field with a value."""
    what = subject.removeprefix(EVENTS_WILDCARD.removesuffix(">"))
    fields = (f"{key}={value}" for key, value in body.items() if key != "at" and value not in (None, "", {}))
    return f"{body.get('at', '')} {what} {' '.join(fields)}"


def publish(
    context: typer.Context,
    verb: Annotated[str, typer.Argument(metavar="COMMAND-VERB", help="For example deploy or list-jobs.")],
    file: Annotated[str, typer.Argument(metavar="FILE", help="JSON body of the message, - for stdin.")],
    within_s: Annotated[
        float, typer.Option("--within", min=1, help="Seconds to wait for the reply.")
    ] = PUBLISH_DEADLINE_S,
) -> None:
    """Send any command message, as another program would, and print the reply's result as JSON.

    The message is checked against its contract first. contracts/REFERENCE.md lists all commands.

    Example: `echo '{"job": "hourly-jfk", "to": "cloud"}' | towpath publish migrate -`
    """
    command = read_command(verb, file)
    print_json(asyncio.run(_publish(home_of(context), command, within_s)))


def read_command(verb: str, file: str) -> Command[Any]:
    """Read a command from a file or stdin. Raises `TowpathError` when it breaks the contract."""
    from towpath.contracts.client_commands import CLIENT_COMMANDS  # All contracts: other commands need few.

    kinds = {kind.verb(): kind for kind in CLIENT_COMMANDS}
    if verb not in kinds:
        raise TowpathError.unknown("command", verb, sorted(kinds), field="verb")
    try:
        body = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise TowpathError(
            ErrorCode.INVALID,
            error.strerror or "not readable",
            field="file",
            value=file,
            allowed="a file or -",
        ) from error
    try:
        return kinds[verb].from_bytes(body)
    except ValidationError as error:
        raise TowpathError.of_validation(error) from error


async def _publish(home: Home, command: Command[Any], within_s: float) -> Model:
    async with open_bus(home) as bus:
        with working(f"{command.to_subject().removeprefix(f'{ROOT}.')} …"):
            return await bus.request(command, deadline_s=within_s, attempt_s=CHANGE_ATTEMPT_S)
