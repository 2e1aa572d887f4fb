"""What curves say in figures, and how they are drawn around something that happened."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from towpath.reports.drawing import BAND, LINE, colour
from towpath.reports.facts import Curve


@dataclass(frozen=True)
class Span:
    """A time, in Unix seconds: something that lasted."""

    begin: float
    end: float


@dataclass(frozen=True)
class Figures:
    """What a curve was like in a time."""

    mean: float
    highest: float


def figures(curve: Curve, begin: float = -math.inf, end: float = math.inf) -> Figures | None:
    """Of the points from `begin` on and before `end`; None where there is none."""
    values = [value for at, value in curve if begin <= at < end and not math.isnan(value)]
    return Figures(statistics.fmean(values), max(values)) if values else None


def number(value: float) -> str:
    """A measured value with as many digits as say something."""
    size = abs(value)
    digits = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 0.1 or size == 0 else 4
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def quantity(value: float, unit: str) -> str:
    """A measured value with its unit."""
    return f"{number(value)} {unit}".rstrip()


def plot(axis: Any, curves: Mapping[str, Curve], sites: Sequence[str], origin: float, label: str) -> None:
    """Draw a curve for each site, in seconds since `origin`; each site keeps its colour from axis to axis."""
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
    """Say above an axis which curve is which."""
    place = {"loc": "lower left", "bbox_to_anchor": (0, 1.02), "borderaxespad": 0}
    axis.legend(frameon=False, ncols=4, fontsize=8, **place)


def mark(axis: Any, span: Span, origin: float) -> None:
    """Shade a time."""
    axis.axvspan(span.begin - origin, span.end - origin, color=BAND, alpha=0.45, zorder=0, linewidth=0)
