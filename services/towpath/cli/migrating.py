"""Commands that move jobs, and that show operations on jobs or end them."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

import typer

from towpath.cli.changes import DEFAULT_DEADLINE_S, carry_out
from towpath.cli.connection import ask
from towpath.cli.deploying import JobArgument, Wait, Within
from towpath.cli.journals import print_operation
from towpath.cli.output import clock, print_json, print_table, working
from towpath.cli.settings import AsJson, home_of
from towpath.contracts.commands import (
    AbortMigration,
    ConsistencyCheck,
    FinishMigration,
    ForecastMigration,
    ListOperations,
    MigrateJob,
    MigrationForecast,
    OperationAnswer,
    OperationKind,
    OperationView,
    ShowOperation,
    StrategyName,
)
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import Command
from towpath.mesh.home import Home
from towpath.protocols.table import strategies
from towpath.reports.costs import amount, choice_line, downtime, seconds

FORECAST_S = 20.0
"""Time for a forecast: the source measures its state for it."""

END_S = 180.0
"""Time for a rollback, or for the steps after a hold: longer than a site takes to restart."""

To = Annotated[str, typer.Option("--to", metavar="SITE", help="The site it moves to.")]
Strategy = Annotated[
    StrategyName,
    typer.Option(
        help="auto: what suits the job. "
        + " ".join(f"{name}: {strategy.summary}." for name, strategy in strategies().items())
    ),
]
Check = Annotated[
    Literal["serials", "results"] | None,
    typer.Option(help="For parallel: results agree by their serial numbers, or by the thesis's algorithms."),
]
Factor = Annotated[
    int | None,
    typer.Option(min=0, metavar="S", help="For --check results: events by which results may differ."),
]
AtMost = Annotated[
    float | None,
    typer.Option(
        min=0.1, metavar="SECONDS", help="Begin only if the forecast says that it takes no longer than that."
    ),
]
Dry = Annotated[bool, typer.Option("--dry-run", help="Only print the plan and its expected cost.")]
Limit = Annotated[int, typer.Option(min=1, max=1000, help="How many.")]
MigrationArgument = Annotated[str, typer.Argument(metavar="ID", help="As `towpath migrations` lists it.")]
Action = Annotated[
    Literal["abort", "finish"] | None,
    typer.Argument(
        metavar="abort|finish",
        help="abort: roll it back while it is under way. finish: let the target of a twin go on alone.",
    ),
]
Hold = Annotated[
    float | None,
    typer.Option(
        min=0, metavar="SECONDS", help="For twin: both publish so long, then the target owns the job."
    ),
]


def migrate(
    context: typer.Context,
    job: JobArgument,
    to: To,
    strategy: Strategy = StrategyName.AUTO,
    check: Check = None,
    factor: Factor = None,
    at_most: AtMost = None,
    hold: Hold = None,
    dry_run: Dry = False,
    wait: Wait = True,
    within_s: Within = DEFAULT_DEADLINE_S,
    as_json: AsJson = False,
) -> None:
    """Move a running job to another site and print the cost.

    Example: `towpath migrate hourly-jfk --to cloud` or `towpath migrate hourly-jfk --to cloud --at-most 20`
    """
    comparison = _comparison(strategy, check, factor)
    move = {"job": job, "to": to, "strategy": strategy, "at_most_s": at_most, **comparison}
    command, home = MigrateJob(**move, hold_s=hold, wait=wait), home_of(context)
    if dry_run:
        question = ForecastMigration(**move)
        return _show_forecast(asyncio.run(ask(home, question, deadline_s=FORECAST_S)), as_json)
    asyncio.run(carry_out(home, [command], within_s=within_s, as_json=as_json))


def migrations(context: typer.Context, limit: Limit = 20, as_json: AsJson = False) -> None:
    """List migrations with their costs, newest first.

    Example: `towpath migrations --limit 5`
    """
    question = ListOperations(kind=OperationKind.MIGRATE, limit=limit)
    found = asyncio.run(ask(home_of(context), question)).operations
    if as_json:
        return print_json(found)
    columns = ("id", "job", "from → to", "strategy", "state", "total", "downtime", "state moved", "forecast")
    print_table((*columns, "when", "asked by"), [_row(view) for view in found], nothing="no migrations yet")


def migration(
    context: typer.Context, identifier: MigrationArgument, action: Action = None, as_json: AsJson = False
) -> None:
    """Show a migration with its journal, step by step; or abort it; or finish a twin.

    Example: `towpath migration 5f0c9a7be210` or `towpath migration 5f0c9a7be210 abort`
    """
    home = home_of(context)
    if action == "abort":
        return _end(home, AbortMigration(operation=identifier), "rolling back …", as_json)
    if action == "finish":
        return _end(home, FinishMigration(operation=identifier), "leaving it to the target …", as_json)
    view = asyncio.run(ask(home, ShowOperation(operation=identifier)))
    if view.kind is not OperationKind.MIGRATE:
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            f"this is no migration but a {view.kind}",
            field="operation",
            value=identifier,
            allowed=f"`towpath operation {identifier}` shows it",
        )
    print_json(view) if as_json else print_operation(view)


def operation(
    context: typer.Context,
    identifier: Annotated[str, typer.Argument(metavar="ID", help="Its id, as printed by its command.")],
    as_json: AsJson = False,
) -> None:
    """Show a deploy, update, remove or migrate with its journal, step by step.

    Example: `towpath operation 5f0c9a7be210`
    """
    view = asyncio.run(ask(home_of(context), ShowOperation(operation=identifier)))
    print_json(view) if as_json else print_operation(view)


def _comparison(strategy: StrategyName, check: str | None, factor: int | None) -> dict[str, Any]:
    """Return the options of the comparison. Raises `TowpathError` (invalid) if the strategy has none."""
    given = {"check": check and ConsistencyCheck(check), "factor": factor}
    said = {name: value for name, value in given.items() if value is not None}
    comparing = [name for name, each in strategies().items() if each.checks]
    if said and strategy not in (StrategyName.AUTO, *comparing):
        raise TowpathError(
            ErrorCode.INVALID,
            f"--{next(iter(said))} is for {' and '.join(comparing)} migrations",
            field="strategy",
            value=strategy.value,
            allowed=[StrategyName.AUTO, *comparing],
        )
    if factor is not None and check != ConsistencyCheck.RESULTS:
        raise TowpathError(
            ErrorCode.INVALID,
            "a factor says by how many events results may differ, and only --check results lets them",
            field="factor",
            value=factor,
            allowed="with --check results",
        )
    return said


def _show_forecast(expected: MigrationForecast, as_json: bool) -> None:
    if as_json:
        return print_json(expected)
    print(f"{expected.job} would move from {expected.source} to {expected.target}")
    print(choice_line(expected))
    print(f"expected: {seconds(expected.total_s)}, {amount(expected.state_bytes)} of state")
    print(f"expected by: {expected.basis}")


def _end(home: Home, command: Command[OperationAnswer], title: str, as_json: bool) -> None:
    with working(title):
        answer = asyncio.run(ask(home, command, deadline_s=END_S))
    if as_json:
        return print_json(answer)
    print(f"{answer.kind} {answer.job} {answer.state.replace('_', ' ')} (operation {answer.operation})")


def _row(view: OperationView) -> tuple[object, ...]:
    figures, forecast = view.figures, view.forecast
    return (
        view.operation,
        view.job,
        f"{view.source} → {view.target}",
        view.strategy,
        view.state.replace("_", " "),
        seconds(figures.total_s) if figures else None,
        downtime(figures.downtime_s) if figures else None,
        amount(figures.state_bytes) if figures else None,
        seconds(forecast.total_s) if forecast else None,
        clock(view.begun_at),
        view.asked_by,
    )
