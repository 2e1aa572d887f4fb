"""Metrics for people: values in units of a handy size, ranges as lines of blocks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import pairwise

from rich.table import Table

from towpath.cli.output import clock, table_of
from towpath.contracts.metrics import Series
from towpath.contracts.metrics_table import MetricDefinition
from towpath.telemetry.selection import unit_in_words

BLOCKS = "▁▂▃▄▅▆▇█"

MOST_BLOCKS = 60
"""Points in one line: in a longer series, neighbouring points are shown by their mean."""

_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi")
_SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


def definition_table(definitions: Iterable[MetricDefinition]) -> Table:
    """Return a table of all metrics."""
    rows = ((each.name, each.unit, each.kind, each.entity, each.meaning) for each in definitions)
    return table_of(("metric", "unit", "kind", "of a", "meaning"), rows)


def newest_table(series: Sequence[Series]) -> Table:
    """Return a table with the newest value of each series."""
    newest = ((each, *each.points[-1]) for each in series)
    rows = (
        (*_name(each), quantity(value, each.unit), clock(datetime.fromtimestamp(at, UTC)))
        for each, at, value in newest
    )
    return table_of(("site", "entity", "metric", "value", "at"), rows)


def range_table(series: Sequence[Series]) -> Table:
    """Return a table with smallest, greatest and newest value of each series, and a line of blocks."""
    rows = [(*_name(each), *_range(each)) for each in series]
    return table_of(("site", "entity", "metric", "min", "max", "last", "over time"), rows)


def by_minute_until(series: Iterable[Series]) -> datetime | None:
    """Return the moment before which some points stand for whole minutes; None if none do."""
    known = [each.by_minute_until for each in series if each.by_minute_until is not None]
    return datetime.fromtimestamp(max(known), UTC) if known else None


def _name(series: Series) -> tuple[str, str, str]:
    return series.site, series.entity, series.metric


def _range(series: Series) -> list[str]:
    values = [value for _, value in series.points]
    ends = (min(values), max(values), values[-1])
    return [*(quantity(value, series.unit) for value in ends), blocks(values)]


def quantity(value: float, unit: str) -> str:
    """Return a value and its unit: `1.5 MiB`, `12 ms`, `300 events/s`."""
    if unit in ("By", "By/s"):
        return _bytes(value) + unit.removeprefix("By")
    if unit == "s" and value:
        size, name = next((s for s in _SECONDS if abs(value) >= s[0]), _SECONDS[-1])
        return f"{_number(value / size)} {name}"
    return f"{_number(value)} {unit_in_words(unit)}".rstrip()


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
