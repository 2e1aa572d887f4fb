"""Which series a selection means, and what it refuses: pure functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from math import ceil

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.metrics import (
    MAX_POINTS,
    METRICS_BY_NAME,
    Aggregation,
    MetricKind,
    MetricSelection,
)

RULE_PREFIX = "rule."
"""What rules measure has names that nobody knows beforehand."""

ANY_UNIT = "1"
"""Unit of what a rule measures: it does not say."""


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether one of the patterns is the name; `*` in it stands for any characters. Case counts.

    However many there are: `fnmatch` does not try their places again and again, as `.*` would.
    """
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def check_metrics(patterns: Iterable[str]) -> None:
    """Raises `TowpathError` (invalid) for the first pattern that no metric can match."""
    for pattern in patterns:
        known = any(matches(name, [pattern]) for name in METRICS_BY_NAME)
        if not known and not pattern.startswith(RULE_PREFIX):
            raise TowpathError(
                ErrorCode.INVALID,
                "no such metric",
                field="metrics",
                value=pattern,
                allowed=[*METRICS_BY_NAME, f"{RULE_PREFIX}*"],
            )


def chooses(selection: MetricSelection) -> Callable[[str, str], bool]:
    """Whether a series, given by its entity and metric, is in the selection.

    Gauges have no rate: they are not in a selection of rates.
    """
    rates = selection.aggregation is Aggregation.RATE and selection.step_s is not None

    def chosen(entity: str, metric: str) -> bool:
        if rates and not is_counter(metric):
            return False
        return matches(metric, selection.metrics) and matches(entity, selection.entities)

    return chosen


def is_counter(metric: str) -> bool:
    """Whether its growth means something. What a rule measures may be a counter."""
    definition = METRICS_BY_NAME.get(metric)
    return definition is None or definition.kind is MetricKind.COUNTER


def unit_of(metric: str) -> str:
    """The unit of a metric, as its definition says."""
    definition = METRICS_BY_NAME.get(metric)
    return ANY_UNIT if definition is None else definition.unit


def too_many(selection: MetricSelection, series: int, begin: float, end: float) -> TowpathError:
    """The refusal of more points than `limit`: so many series between two moments (Unix seconds)."""
    fits = [f"fewer of the {series} series"]
    if selection.since is not None and series <= selection.limit:
        # One point more than whole steps: a range rarely begins with a step.
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
