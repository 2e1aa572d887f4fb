"""Test whether a time grows linearly with the number of jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Line:
    """The straight line nearest to some points, by least squares."""

    slope: float
    constant: float
    r_squared: float
    """Share of the variance that the line explains: 1 when all points lie on it."""


def line_through(points: Sequence[tuple[float, float]]) -> Line | None:
    """Return the line through (x, y); None for fewer than three different x, which any line would fit."""
    if len({x for x, _ in points}) < 3:
        return None
    x, y = np.array(points, float).T
    slope, constant = np.polyfit(x, y, 1)
    left = float(((y - (slope * x + constant)) ** 2).sum())
    whole = float(((y - y.mean()) ** 2).sum())
    return Line(float(slope), float(constant), 1.0 - left / whole if whole else 1.0)
