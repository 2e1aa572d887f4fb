"""Commands for the autopilot: what is ahead of sites, and the decisions that it made."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Annotated, TypeVar

import typer
from pydantic import ValidationError

from towpath.cli.connection import CHANGE_ATTEMPT_S, LOOK_ATTEMPT_S, LOOK_DEADLINE_S, load_mesh, open_bus
from towpath.cli.output import clock, print_json, print_table, say, shortened
from towpath.cli.settings import AsJson, home_of
from towpath.cli.times import moment_of, seconds_of
from towpath.contracts.autopilot import (
    AnnounceWindow,
    ApproveDecision,
    AutopilotMode,
    AutopilotStatus,
    Decision,
    RefuseDecision,
    ShowAutopilot,
    SiteWindow,
    WindowCause,
    WithdrawWindow,
)
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import Command, Model, now
from towpath.mesh.home import Home
from towpath.reports.costs import seconds

app = typer.Typer(help="Tell the autopilot what is ahead of sites, and approve or refuse its decisions.")

AnswerT = TypeVar("AnswerT", bound=Model)

DecisionName = Annotated[str, typer.Argument(metavar="DECISION", help="As `towpath decisions` names it.")]

COLUMNS = ("decision", "at", "state", "moves", "because", "late if it stays", "expected", "measured", "gap")


def decisions(
    context: typer.Context,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most so many, the newest first.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List the autopilot's decisions: why jobs should move, what was expected, and what came of it.

    Example: `towpath decisions --limit 5`
    """
    found = asyncio.run(_asked(home_of(context), ShowAutopilot(limit=limit)))
    if as_json:
        return print_json(found.decisions)
    print_table(COLUMNS, _rows(found.decisions), nothing="it has not decided anything yet")
    _tell_trouble(found)


@app.command()
def show(context: typer.Context, as_json: AsJson = False) -> None:
    """Show mode and goal of the autopilot, and the windows that it knows of.

    Example: `towpath autopilot show`
    """
    found = asyncio.run(_asked(home_of(context), ShowAutopilot(limit=1)))
    if as_json:
        return print_json(found.model_dump(exclude={"decisions"}))
    looked = clock(found.looked) or "never"
    print(f"{found.mode}: {found.policy}, results within {found.latency_s:g} s; last look {looked}")
    rows = [
        (each.window, each.site, _change(each), clock(each.begins), clock(each.ends), each.note)
        for each in found.windows
    ]
    columns = ("window", "site", "change", "begins", "ends", "note")
    print_table(columns, rows, nothing="no windows are announced")
    _tell_trouble(found)


@app.command()
def announce(
    context: typer.Context,
    site: Annotated[str, typer.Argument(metavar="SITE", help="Name of the site.")],
    cause: Annotated[
        WindowCause,
        typer.Option(
            help="link: it has no link, as in a tunnel; down: it does not run; price: energy has another one."
        ),
    ] = WindowCause.LINK,
    factor: Annotated[float, typer.Option(min=0, help="Of a price: so many times the usual one.")] = 1.0,
    begins: Annotated[str | None, typer.Option(metavar="WHEN", help="ISO 8601; default: now.")] = None,
    begins_in: Annotated[str | None, typer.Option("--in", metavar="TIME", help="So long from now.")] = None,
    ends: Annotated[str | None, typer.Option(metavar="WHEN", help="ISO 8601.")] = None,
    lasts: Annotated[str | None, typer.Option(metavar="TIME", help="So long from its begin.")] = None,
    note: Annotated[str, typer.Option(help="For people.")] = "",
    as_json: AsJson = False,
) -> None:
    """Announce that a site will have no link, not run, or pay another price for energy.

    Example: `towpath autopilot announce train --in 10m --lasts 2m --note tunnel`
    """
    first = _begin(begins, begins_in)
    try:
        command = AnnounceWindow(
            site=site, cause=cause, factor=factor, begins=first, ends=_end(first, ends, lasts), note=note
        )
    except ValidationError as error:
        raise TowpathError.of_validation(error) from error
    found = asyncio.run(_asked(home_of(context), command))
    if as_json:
        return print_json(found)
    print(f"window {found.window}: {site} {_change(found)} from {clock(found.begins)} to {clock(found.ends)}")


@app.command()
def withdraw(
    context: typer.Context,
    window: Annotated[str, typer.Argument(metavar="WINDOW", help="As `towpath autopilot show` names it.")],
    as_json: AsJson = False,
) -> None:
    """Take back an announcement.

    Example: `towpath autopilot withdraw 5f0c9a7be210`
    """
    found = asyncio.run(_asked(home_of(context), WithdrawWindow(window=window)))
    print_json(found) if as_json else print(f"{found.site} is expected to be as usual")


@app.command()
def approve(context: typer.Context, decision: DecisionName, as_json: AsJson = False) -> None:
    """Let the autopilot carry out a decision.

    Example: `towpath autopilot approve 5f0c9a7be210`
    """
    _print(asyncio.run(_asked(home_of(context), ApproveDecision(decision=decision))), as_json=as_json)


@app.command()
def refuse(context: typer.Context, decision: DecisionName, as_json: AsJson = False) -> None:
    """Forbid a decision that was not carried out. It is not proposed again within the horizon.

    Example: `towpath autopilot refuse 5f0c9a7be210`
    """
    _print(asyncio.run(_asked(home_of(context), RefuseDecision(decision=decision))), as_json=as_json)


def _change(window: SiteWindow) -> str:
    return f"{window.cause} × {window.factor:g}" if window.cause is WindowCause.PRICE else window.cause


async def _asked(home: Home, command: Command[AnswerT]) -> AnswerT:
    """Return the autopilot's answer. Raises `TowpathError` (not allowed) if the mesh has none."""
    mode = (await load_mesh(home)).spec.autopilot.mode
    if mode is AutopilotMode.OFF:
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            "the autopilot is off",
            field="autopilot",
            value=mode,
            allowed="`towpath up --autopilot propose` or `act`",
        )
    looking = isinstance(command, ShowAutopilot)
    attempt_s = LOOK_ATTEMPT_S if looking else CHANGE_ATTEMPT_S
    async with open_bus(home, traced=not looking) as bus:
        return await bus.request(command, deadline_s=LOOK_DEADLINE_S, attempt_s=attempt_s)


def _begin(begins: str | None, begins_in: str | None) -> datetime:
    if begins is not None and begins_in is not None:
        raise _either("begins", begins, "--begins or --in")
    if begins is not None:
        return moment_of(begins, "begins")
    return now() + timedelta(seconds=0 if begins_in is None else seconds_of(begins_in, "in"))


def _end(begins: datetime, ends: str | None, lasts: str | None) -> datetime:
    if ends is not None and lasts is None:
        return moment_of(ends, "ends")
    if lasts is not None and ends is None:
        return begins + timedelta(seconds=seconds_of(lasts, "lasts"))
    raise _either("ends", ends, "--ends or --lasts")


def _either(field: str, value: str | None, allowed: str) -> TowpathError:
    return TowpathError(ErrorCode.INVALID, "give one of them", field=field, value=value, allowed=allowed)


def _rows(found: Iterable[Decision]) -> Iterable[tuple[object, ...]]:
    for each in found:
        outcome = each.outcome
        yield (
            each.decision,
            clock(each.decided),
            each.state,
            _moves(each),
            shortened(_because(each)),
            seconds(each.staying.late_s),
            seconds(each.moving.late_s),
            None if outcome is None else seconds(outcome.late_s),
            None if outcome is None else seconds(outcome.downtime_s),
        )


def _because(decision: Decision) -> str:
    held = f" (held: {decision.rule})" if decision.rule else ""
    failed = f" ({decision.error})" if decision.error else ""
    return f"{decision.reason}{held}{failed}"


def _moves(decision: Decision) -> str:
    sign = "+" if decision.is_twin else "→"
    return ", ".join(f"{move.job}: {move.origin} {sign} {move.target}" for move in decision.moves)


def _print(decision: Decision, *, as_json: bool) -> None:
    if as_json:
        return print_json(decision)
    print(f"decision {decision.decision} is {decision.state}: {_moves(decision)}")


def _tell_trouble(found: AutopilotStatus) -> None:
    if found.trouble is not None:
        say(f"its last look failed: {found.trouble}")
