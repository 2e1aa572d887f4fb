"""Metrics for people: values in units of a handy size, ranges as lines of blocks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import pairwise

from rich.markup import escape
from rich.table import Table

from towpath.cli.output import clock
from towpath.contracts.metrics import Series
from towpath.contracts.metrics_table import MetricDefinition

BLOCKS = "▁▂▃▄▅▆▇█"

MOST_BLOCKS = 60
"""Points in one line: in a longer series, neighbouring points are shown by their mean."""

_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi")
_SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


def definition_table(definitions: Iterable[MetricDefinition]) -> Table:
    """Return a table of all metrics."""
    table = _table("metric", "unit", "kind", "of a", "meaning")
    for each in definitions:
        table.add_row(*map(escape, (each.name, each.unit, each.kind, each.entity, each.meaning)))
    return table


def newest_table(series: Sequence[Series]) -> Table:
    """Return a table with the newest value of each series."""
    table = _table("site", "entity", "metric", "value", "at")
    for each in series:
        at, value = each.points[-1]
        shown = quantity(value, each.unit), str(clock(datetime.fromtimestamp(at, UTC)))
        table.add_row(*map(escape, (each.site, each.entity, each.metric, *shown)))
    return table


def range_table(series: Sequence[Series]) -> Table:
    """Return a table with smallest, greatest and newest value of each series, and a line of blocks."""
    table = _table("site", "entity", "metric", "min", "max", "last", "over time")
    for each in series:
        values = [value for _, value in each.points]
        shown = (quantity(value, each.unit) for value in (min(values), max(values), values[-1]))
        table.add_row(*map(escape, (each.site, each.entity, each.metric, *shown, blocks(values))))
    return table


def by_minute_until(series: Iterable[Series]) -> datetime | None:
    """Return the moment before which some points stand for whole minutes; None if none do."""
    known = [each.by_minute_until for each in series if each.by_minute_until is not None]
    return datetime.fromtimestamp(max(known), UTC) if known else None


def _table(*columns: str) -> Table:
    return Table(*columns, box=None, pad_edge=False, header_style="bold")


def quantity(value: float, unit: str) -> str:
    """Return a value and its unit: `1.5 MiB`, `12 ms`, `300 events/s`."""
    if unit in ("By", "By/s"):
        return _bytes(value) + unit.removeprefix("By")
    if unit == "s" and value:
        size, name = next((s for s in _SECONDS if abs(value) >= s[0]), _SECONDS[-1])
        return f"{_number(value / size)} {name}"
    thing = {"1": ""}.get(unit, unit.replace("{", "").replace("}", "s"))
    return f"{_number(value)} {thing}".rstrip()


def _bytes(value: float) -> str:
    power = 0
    while abs(value) >= 1024 and power < len(_BINARY) - 1:
        value, power = value / 1024, power + 1
    return f"{_number(value)} {_BINARY[power]}B"


def _number(value: float) -> str:
    """Return three significant digits, or all before the point."""
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def blocks(values: Sequence[float]) -> str:
    """Return a line of blocks, the lowest for the smallest value and the highest for the greatest."""
    means = [sum(part) / len(part) for part in _parts(values)]
    low, high = min(means), max(means)
    if high == low:
        return BLOCKS[0] * len(means)
    return "".join(BLOCKS[round((mean - low) / (high - low) * (len(BLOCKS) - 1))] for mean in means)


def _parts(values: Sequence[float]) -> list[Sequence[float]]:
    count = min(len(values), MOST_BLOCKS)
    bounds = [index * len(values) // count for index in range(count + 1)]
    return [values[begin:end] for begin, end in pairwise(bounds)]
