"""Commands that show what was done to jobs: migrations, and one operation step by step."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated

import typer

from towpath.cli.changes import describe
from towpath.cli.connection import ask
from towpath.cli.output import clock, print_json, print_table
from towpath.cli.settings import AsJson, home_of
from towpath.contracts.commands import ListOperations, OperationKind, OperationView, ShowOperation


def migrations(
    context: typer.Context,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List migrations, newest first, with what they cost.

    Example: `towpath migrations --limit 5`
    """
    question = ListOperations(kind=OperationKind.MIGRATE, limit=limit)
    found = asyncio.run(ask(home_of(context), question)).operations
    if as_json:
        return print_json(found)
    columns = (
        "operation",
        "job",
        "from",
        "to",
        "strategy",
        "state",
        "begun",
        "total",
        "downtime",
        "state bytes",
    )
    print_table(columns, [_row(view) for view in found], nothing="no migrations yet")


def operation(
    context: typer.Context,
    identifier: Annotated[str, typer.Argument(metavar="ID", help="As `towpath migrations` lists it.")],
    as_json: AsJson = False,
) -> None:
    """Show one deploy, update, remove or migrate with its journal, step by step.

    Example: `towpath operation 5f0c9a7be210`
    """
    view = asyncio.run(ask(home_of(context), ShowOperation(operation=identifier)))
    if as_json:
        return print_json(view)
    route = f" from {view.source} to {view.target}" if view.source and view.target else ""
    strategy = f" ({view.strategy})" if view.strategy else ""
    print(f"{view.kind} {view.job}{route}{strategy}: {view.state}")
    for line in (view.note, describe(view.figures) if view.figures else ""):
        if line:
            print(line)
    began = view.begun_at
    rows = [
        (f"{(entry.at - began).total_seconds():+.3f}", entry.step, entry.phase, _short(entry.detail))
        for entry in view.journal
    ]
    print_table(("seconds", "step", "phase", "detail"), rows, nothing="its journal is empty")


def _row(view: OperationView) -> tuple[object, ...]:
    who = (
        view.operation,
        view.job,
        view.source,
        view.target,
        view.strategy,
        view.state,
        clock(view.begun_at),
    )
    figures = view.figures
    if figures is None:
        return (*who, None, None, None)
    downtime = None if figures.downtime_s is None else f"{figures.downtime_s:.2f} s"
    return *who, f"{figures.total_s:.2f} s", downtime, f"{figures.state_bytes:,}"


def _short(detail: dict[str, object]) -> str:
    """A journal entry's detail as far as it fits a line; all of it is in the JSON."""
    text = ", ".join(f"{key}={json.dumps(value)}" for key, value in detail.items())
    return text if len(text) <= 100 else text[:99] + "…"
