"""Choose series by names, and join the answers of sites. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.metrics import MAX_POINTS
from towpath.contracts.storage import ValueSelection, ValueSeriesList, ValueSummary, Wanted
from towpath.stored_values.stored_value import Name
from towpath.stored_values.value_region import Point
from towpath.telemetry.selection import matches


def chosen_names(selection: ValueSelection, known: Mapping[Name, object]) -> list[Name]:
    """Return the series that a selection names, in order. Whole names are looked up, patterns are tried."""
    patterns = [*selection.metrics, *selection.entities]
    if not any("*" in pattern for pattern in patterns):
        named = {(entity, metric) for entity in selection.entities for metric in selection.metrics}
        return sorted(name for name in named if name in known)
    entities = {entity for entity, _ in known}
    metrics = {metric for _, metric in known}
    entities = {entity for entity in entities if matches(entity, selection.entities)}
    metrics = {metric for metric in metrics if matches(metric, selection.metrics)}
    return sorted(name for name in known if name[0] in entities and name[1] in metrics)


def joined(selection: ValueSelection, parts: Iterable[ValueSeriesList]) -> ValueSeriesList:
    """Return the answers of sites as one. Raises `TowpathError` (invalid) for more values than the limit."""
    parts = [*parts]
    series = sorted(
        (each for part in parts for each in part.series),
        key=lambda each: (each.site, each.entity, each.metric),
    )
    if sum(len(each.points) for each in series) > selection.limit:
        raise too_many_values(selection)
    if selection.wanted is not Wanted.AGGREGATE:
        return ValueSeriesList(series=series)
    return ValueSeriesList(series=series, summary=joined_summary(part.summary for part in parts))


def joined_summary(parts: Iterable[ValueSummary | None]) -> ValueSummary | None:
    """Return the summary of all values together; None if there are none."""
    known: Sequence[ValueSummary] = [part for part in parts if part is not None]
    if not known:
        return None
    return ValueSummary(
        count=sum(part.count for part in known),
        sum=sum(part.sum for part in known),
        min=min(part.min for part in known),
        max=max(part.max for part in known),
    )


def thinned(points: list[Point], share: float) -> list[Point]:
    """Return a share of the points of a series, or a little more: the first, and then every so many."""
    if share >= 1:
        return points
    return [each for n, each in enumerate(points) if math.ceil((n + 1) * share) > math.ceil(n * share)]


def too_many_values(selection: ValueSelection) -> TowpathError:
    """Return the refusal of more values than the limit."""
    narrower = "fewer series, or a shorter time" if selection.wanted is Wanted.RANGE else "fewer series"
    larger = f", or limit up to {MAX_POINTS}" if selection.limit < MAX_POINTS else ""
    return TowpathError(
        ErrorCode.INVALID,
        "more values than limit",
        field="limit",
        value=selection.limit,
        allowed=f"{narrower}{larger}",
    )
