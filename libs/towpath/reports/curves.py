"""Summarise curves in figures, and draw them around an interval."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from towpath.reports.drawing import BAND, LINE, colour
from towpath.reports.facts import Curve


@dataclass(frozen=True)
class Interval:
    """An interval, in Unix seconds."""

    begin: float
    end: float


@dataclass(frozen=True)
class Figures:
    """Mean and maximum of a curve over an interval."""

    mean: float
    highest: float


def figures(curve: Curve, begin: float = -math.inf, end: float = math.inf) -> Figures | None:
    """Return figures of the points from `begin` to before `end`. None if there are none."""
    values = [value for at, value in curve if begin <= at < end and not math.isnan(value)]
    return Figures(statistics.fmean(values), max(values)) if values else None


def number(value: float) -> str:
    """Return a measured value as text: the larger it is, the fewer decimals it has."""
    size = abs(value)
    digits = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 0.1 or size == 0 else 4
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def quantity(value: float, unit: str) -> str:
    """Return a measured value with its unit."""
    return f"{number(value)} {unit}".rstrip()


def plot(axis: Any, curves: Mapping[str, Curve], sites: Sequence[str], origin: float, label: str) -> None:
    """Draw a curve for each site, in seconds since `origin`. Each site keeps its colour on all axes."""
    in_order = [*(site for site in sites if site in curves), *(site for site in curves if site not in sites)]
    for site in in_order:
        curve = curves[site]
        at = [moment - origin for moment, _ in curve]
        values = [value for _, value in curve]
        position = sites.index(site) if site in sites else len(sites)
        axis.plot(at, values, color=colour(position), lw=1.4, marker=".", ms=3, label=f"at {site}")
    axis.set_ylabel(label)
    axis.margins(x=0.01, y=0.12)
    axis.set_ylim(bottom=0)
    axis.grid(axis="y", color=LINE, lw=0.5)
    axis.set_axisbelow(True)


def name_curves(axis: Any) -> None:
    """Put a legend above an axis."""
    place = {"loc": "lower left", "bbox_to_anchor": (0, 1.02), "borderaxespad": 0}
    axis.legend(frameon=False, ncols=4, fontsize=8, **place)


def mark(axis: Any, span: Interval, origin: float) -> None:
    """Shade an interval."""
    axis.axvspan(span.begin - origin, span.end - origin, color=BAND, alpha=0.45, zorder=0, linewidth=0)
