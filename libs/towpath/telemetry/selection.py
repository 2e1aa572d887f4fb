"""Match series with a selection, and refuse selections that cannot be served. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from math import ceil

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.metrics import MAX_POINTS, Aggregation, MetricSelection
from towpath.contracts.metrics_table import METRICS_BY_NAME, MetricKind

RULE_PREFIX = "rule."
"""Prefix of metrics that rules measure. Their names are not known beforehand."""

ANY_UNIT = "1"
"""Unit of a rule's metric, because a rule does not name one."""


def matches(name: str, patterns: Iterable[str]) -> bool:
    """True if one of the patterns fits the name. `*` stands for any characters, and case counts.

    The cost stays low with many `*`: unlike `.*`, `fnmatch` does not try their places again and again.
    """
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def check_metrics(patterns: Iterable[str]) -> None:
    """Raise `TowpathError` (invalid) for the first pattern that no metric can match."""
    for pattern in patterns:
        known = any(matches(name, [pattern]) for name in METRICS_BY_NAME)
        if not known and not pattern.startswith(RULE_PREFIX):
            raise TowpathError.unknown(
                "metric", pattern, [*METRICS_BY_NAME, f"{RULE_PREFIX}*"], field="metrics"
            )


def chooses(selection: MetricSelection) -> Callable[[str, str], bool]:
    """Return a function that tells if a series, given by entity and metric, is in the selection.

    Gauges have no rate, so a selection of rates contains none.
    """
    rates = selection.aggregation is Aggregation.RATE and selection.step_s is not None

    def chosen(entity: str, metric: str) -> bool:
        if rates and not is_counter(metric):
            return False
        return matches(metric, selection.metrics) and matches(entity, selection.entities)

    return chosen


def is_counter(metric: str) -> bool:
    """True if the metric's growth means something. A rule's metric may be a counter."""
    definition = METRICS_BY_NAME.get(metric)
    return definition is None or definition.kind is MetricKind.COUNTER


def unit_of(metric: str) -> str:
    """Return the unit of a metric by its definition."""
    definition = METRICS_BY_NAME.get(metric)
    return ANY_UNIT if definition is None else definition.unit


def unit_in_words(unit: str) -> str:
    """Return a unit as people write it: `{event}/s` becomes `events/s`."""
    return {"By": "bytes", "1": ""}.get(unit, unit.replace("{", "").replace("}", "s"))


def too_many(selection: MetricSelection, series: int, begin: float, end: float) -> TowpathError:
    """Return the refusal of more points than `limit`: this many series between two moments (Unix seconds)."""
    fits = [f"fewer of the {series} series"]
    if selection.since is not None and series <= selection.limit:
        # One point more than whole steps, because a range rarely begins with a step.
        steps = max(1, selection.limit // max(series, 1) - 1)
        fits.append(f"step_s of {max(1, ceil((end - begin) / steps))} or more")
    if selection.limit < MAX_POINTS:
        fits.append(f"limit up to {MAX_POINTS}")
    return TowpathError(
        ErrorCode.INVALID,
        "more points than limit",
        field="limit",
        value=selection.limit,
        allowed=", or ".join(fits),
    )
