"""`towpath values`: stored values anywhere in the mesh, as if there were one store."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from pydantic import ValidationError
from rich.table import Table

from towpath.cli.connection import ask
from towpath.cli.metric_views import blocks, quantity
from towpath.cli.output import clock, print_json, print_rich, say, table_of
from towpath.cli.settings import AsJson, home_of
from towpath.cli.times import time_of
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.storage import QueryValues, ValueSeries, ValueSeriesList, ValueSummary, Wanted


def values(
    context: typer.Context,
    patterns: Annotated[
        list[str] | None,
        typer.Argument(metavar="[METRIC]…", help="Such as cpu_ptc or 'delay_*'; default: all."),
    ] = None,
    site: Annotated[list[str] | None, typer.Option(help="Only values that are stored at this site.")] = None,
    entity: Annotated[list[str] | None, typer.Option(help="Only values of this: 'node:*'.")] = None,
    group: Annotated[list[str] | None, typer.Option(help="Only series of this group.")] = None,
    last: Annotated[str | None, typer.Option(metavar="TIME", help="The last 30s, 10m, 2h or 1d.")] = None,
    since: Annotated[str | None, typer.Option(metavar="WHEN", help="From this moment on, ISO 8601.")] = None,
    until: Annotated[str | None, typer.Option(metavar="WHEN", help="Before this moment.")] = None,
    aggregate: Annotated[
        bool, typer.Option("--aggregate", help="Count, least, greatest and mean, instead of values.")
    ] = False,
    listed: Annotated[bool, typer.Option("--list", help="The series only, without values.")] = False,
    share: Annotated[
        float, typer.Option(help="Of a time: drop values of far sites, but keep this share on average.")
    ] = 1.0,
    as_json: AsJson = False,
) -> None:
    """Show stored values of all sites: the newest, or with --last or --since those of a time.

    Example: `towpath values cpu_ptc --entity 'node:*' --last 1h --aggregate`
    """
    chosen: dict[str, Any] = {
        "metrics": patterns or ["*"],
        "entities": entity or ["*"],
        "groups": group or ["*"],
        "sites": site or None,
        "share": share,
        "wanted": _wanted(aggregate, listed, timed=any((last, since, until))),
    }
    try:
        asked = QueryValues.model_validate({**chosen, **time_of(last, since, until)()})
    except ValidationError as error:
        raise TowpathError.of_validation(error) from error
    found = asyncio.run(ask(home_of(context), asked))
    if as_json:
        return print_json(found)
    _say_what_differs(found)
    if found.series:
        print_rich(_table(asked.wanted, found))
    else:
        print("nothing of that is stored")


def _wanted(aggregate: bool, listed: bool, *, timed: bool) -> Wanted:
    if aggregate and listed:
        raise TowpathError(
            ErrorCode.INVALID,
            "either values or series",
            field="list",
            value=True,
            allowed="--aggregate or --list",
        )
    if listed:
        return Wanted.LIST
    if aggregate:
        return Wanted.AGGREGATE
    return Wanted.RANGE if timed else Wanted.LATEST


def _say_what_differs(found: ValueSeriesList) -> None:
    """Say which values are not there, not all there, or not from their own site."""
    for owner, at in found.copies.items():
        if owner in found.nearer:
            say(f"{owner}: from the copy at {at}, which is nearer")
        else:
            say(f"{owner} does not answer: these are from the copy at {at}")
    for owner, kept in found.shares.items():
        if kept < 1:
            say(f"{owner}: {kept:.0%} of its values")
    for name, why in found.unreached.items():
        say(f"{name} does not answer: {why}")


def _table(wanted: Wanted, found: ValueSeriesList) -> Table:
    match wanted:
        case Wanted.LATEST:
            table = table_of(("site", "entity", "metric", "value", "at"), map(_newest, found.series))
        case Wanted.RANGE:
            titles = ("site", "entity", "metric", "values", "min", "max", "last", "over time")
            table = table_of(titles, map(_range, found.series))
        case Wanted.AGGREGATE:
            table = _aggregates(found)
        case Wanted.LIST:
            titles = ("site", "entity", "metric", "unit", "group", "kept")
            table = table_of(titles, map(_described, found.series))
    if found.unreached:
        table.caption = f"no answer from {', '.join(sorted(found.unreached))}"
    return table


def _newest(series: ValueSeries) -> Sequence[object]:
    at, value = series.points[-1]
    return (*_name(series), quantity(value, series.unit), clock(datetime.fromtimestamp(at, UTC)))


def _range(series: ValueSeries) -> Sequence[object]:
    found = [value for _, value in series.points]
    ends = (min(found), max(found), found[-1])
    return (*_name(series), len(found), *(quantity(value, series.unit) for value in ends), blocks(found))


def _aggregates(found: ValueSeriesList) -> Table:
    rows = [(*_name(each), *_summary(each.summary, each.unit)) for each in found.series]
    if found.summary is not None and len(rows) > 1:
        rows.append(("all", "", "", *_summary(found.summary, "")))
    return table_of(("site", "entity", "metric", "values", "min", "mean", "max", "sum"), rows)


def _summary(summary: ValueSummary | None, unit: str) -> Sequence[object]:
    assert summary is not None
    numbers = (summary.min, summary.mean, summary.max, summary.sum)
    return (summary.count, *(quantity(number, unit) for number in numbers))


def _described(series: ValueSeries) -> Sequence[object]:
    kept = "in memory" if series.transient else "on disk"
    return (*_name(series), series.unit, series.group, kept)


def _name(series: ValueSeries) -> tuple[str, str, str]:
    return series.site, series.entity, series.metric
