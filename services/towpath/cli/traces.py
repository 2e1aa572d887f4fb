"""Commands that show the effects of one request over all services and sites."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer
from rich.text import Text

from towpath.cli.connection import ask
from towpath.cli.output import clock, print_json, print_rich, print_table, say
from towpath.cli.settings import AsJson, home_of
from towpath.cli.waterfall import waterfall
from towpath.contracts.traces import ListTraces, ShowTrace, Trace, TraceSummary
from towpath.telemetry.trace_tree import is_unfinished, orphans

Limit = Annotated[int, typer.Option(min=1, max=200, help="How many.")]
Events = Annotated[bool, typer.Option("--events", help="Traces of single events, from device to result.")]
About = Annotated[
    str, typer.Argument(metavar="ID", help="A trace's id, or an operation's, an apply's or a scenario run's.")
]


def traces(
    context: typer.Context, limit: Limit = 20, events: Events = False, as_json: AsJson = False
) -> None:
    """List recent requests with their outcome, newest first, and traces of single events.

    Example: `towpath traces --limit 5`
    """
    found = asyncio.run(ask(home_of(context), ListTraces(events=events, limit=limit)))
    if as_json:
        return print_json(found)
    rows = [_row(one) for one in found.traces]
    columns = ("trace", "begins with", "service", "took", "spans", "failed", "operation", "when")
    print_table(columns, rows, nothing="no traces yet")
    _tell_of_gaps(found.unreached)


def trace(context: typer.Context, about: About, as_json: AsJson = False) -> None:
    """Show a trace as a waterfall: causes and effects, places and durations.

    Example: `towpath trace 5f0c9a7be210`
    """
    found = asyncio.run(ask(home_of(context), ShowTrace(about=about)))
    if as_json:
        return print_json(found)
    print_rich(Text(_headline(found), style="bold"))
    print_rich(waterfall(found.spans))
    _tell_of_gaps(found.unreached)


def _row(one: TraceSummary) -> tuple[object, ...]:
    return (
        one.trace,
        one.name,
        one.service,
        f"{one.duration_s:.3f} s",
        one.spans,
        one.failed or None,
        one.operation,
        clock(one.begun_at),
    )


def _headline(found: Trace) -> str:
    begin = min(span.begun_ns for span in found.spans)
    took_s = (max(span.ended_ns for span in found.spans) - begin) / 1e9
    failed = sum(span.error is not None for span in found.spans)
    goes_on = sum(is_unfinished(span) for span in found.spans)
    loose = len(orphans(found.spans))
    counts = [
        f"{len(found.spans)} spans",
        f"{took_s:.3f} s",
        *([f"{failed} failed"] if failed else []),
        *([f"{goes_on} not ended"] if goes_on else []),
        *([f"{loose} without their parent"] if loose else []),
    ]
    return f"trace {found.trace}: {', '.join(counts)}"


def _tell_of_gaps(unreached: dict[str, str]) -> None:
    for site, why in sorted(unreached.items()):
        say(f"without the spans of {site}: {why}")
