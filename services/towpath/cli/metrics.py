"""`towpath metrics`: measurements anywhere in the mesh, newest ones or over a time."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Callable
from contextlib import nullcontext
from typing import Annotated, Any

import typer
from rich.console import RenderableType
from rich.live import Live

from towpath.cli.connection import LOOK_ATTEMPT_S, LOOK_DEADLINE_S, ask, open_bus
from towpath.cli.metric_views import by_minute_until, definition_table, newest_table, range_table
from towpath.cli.output import clock, print_json, print_json_line, print_rich, say
from towpath.cli.settings import AsJson, home_of
from towpath.cli.times import seconds_of, time_of
from towpath.contracts.errors import TowpathError
from towpath.contracts.metrics import Aggregation, QueryMetrics, SeriesList
from towpath.contracts.metrics_table import METRICS_TABLE
from towpath.mesh.home import Home
from towpath.tasks import pause
from towpath.telemetry.selection import check_metrics

WATCH_S = 2.0
"""Pause between looks: samples come as often."""

NEAR = 3
"""Number of names that the error for an unknown name lists."""


def metrics(
    context: typer.Context,
    patterns: Annotated[
        list[str] | None, typer.Argument(metavar="[PATTERN]…", help="Such as 'job.latency.*'; default: all.")
    ] = None,
    site: Annotated[list[str] | None, typer.Option(help="Only series of this site, or of hub.")] = None,
    entity: Annotated[list[str] | None, typer.Option(help="Only series of this: 'job:hourly-*'.")] = None,
    last: Annotated[str | None, typer.Option(metavar="TIME", help="The last 30s, 10m, 2h or 1d.")] = None,
    since: Annotated[str | None, typer.Option(metavar="WHEN", help="From this moment on, ISO 8601.")] = None,
    until: Annotated[str | None, typer.Option(metavar="WHEN", help="Before this moment.")] = None,
    step: Annotated[str | None, typer.Option(metavar="TIME", help="One point for this long: 10s.")] = None,
    aggregation: Annotated[Aggregation, typer.Option(help="Value of such a point.")] = Aggregation.MEAN,
    stale: Annotated[
        bool, typer.Option("--stale", help="Also newest values that are older than an hour.")
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Repeat until Ctrl-C.")] = False,
    definitions: Annotated[bool, typer.Option("--list", help="List the metrics only.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show measurements: the newest values, or with --last or --since their course.

    Example: `towpath metrics 'job.latency.end_to_end.*' --last 10m --step 10s --aggregation max`
    """
    if definitions:
        return print_json(METRICS_TABLE) if as_json else print_rich(definition_table(METRICS_TABLE))
    chosen: dict[str, Any] = {
        "metrics": patterns or ["*"],
        "entities": entity or ["*"],
        "sites": site or None,
        "stale": stale,
        "aggregation": aggregation,
    }
    if step is not None:
        chosen["step_s"] = seconds_of(step, "step")
    question = _questions(chosen, last, since, until)
    _check(question())
    if watch:
        return asyncio.run(_watch(home_of(context), question, as_json))
    asked = question()
    found = asyncio.run(ask(home_of(context), asked))
    if as_json:
        return print_json(found)
    for name, why in found.unreached.items():
        say(f"{name} does not answer: {why}")
    if (coarse := by_minute_until(found.series)) is not None:
        say(f"before {clock(coarse)} by the minute: single samples of that time are gone")
    if found.series:
        print_rich(_view(asked, found))
    else:
        older = "" if stale or asked.since is not None else " in the last hour; --stale and --last look back"
        print(f"nothing of that was measured{older}")


def _questions(
    chosen: dict[str, Any], last: str | None, since: str | None, until: str | None
) -> Callable[[], QueryMetrics]:
    """Return the selection to ask for. The last minutes are different at each call."""
    time = time_of(last, since, until)
    return lambda: QueryMetrics.model_validate({**chosen, **time()})


def _check(question: QueryMetrics) -> None:
    """Raise `TowpathError` (invalid) for an unknown name, with similar ones."""
    try:
        check_metrics(question.metrics)
    except TowpathError as error:
        wrong, known = error.detail.value, error.detail.allowed
        near = difflib.get_close_matches(wrong, known if isinstance(known, list) else [], NEAR, 0.5)
        raise TowpathError(
            error.detail.code,
            error.detail.message,
            field=error.detail.field,
            value=wrong,
            allowed=near or "what `towpath metrics --list` shows",
        ) from error


def _view(asked: QueryMetrics, found: SeriesList) -> RenderableType:
    table = newest_table(found.series) if asked.since is None else range_table(found.series)
    if found.unreached:
        table.caption = f"no answer from {', '.join(sorted(found.unreached))}"
    return table


async def _watch(home: Home, question: Callable[[], QueryMetrics], as_json: bool) -> None:
    """Show the present values repeatedly: on one screen, or as lines of JSON."""
    async with open_bus(home) as bus:
        with nullcontext() if as_json else Live(auto_refresh=False) as screen:
            while True:
                asked = question()
                found = await bus.request(asked, deadline_s=LOOK_DEADLINE_S, attempt_s=LOOK_ATTEMPT_S)
                if screen is None:
                    print_json_line(found)
                else:
                    screen.update(_view(asked, found), refresh=True)
                await pause(WATCH_S)
