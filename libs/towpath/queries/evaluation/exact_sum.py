"""Add floating-point numbers exactly, so that no order of addition changes a sum."""

from __future__ import annotations

import math
from collections.abc import Iterable

Expansion = list[float]
"""A sum as numbers that do not overlap (Shewchuk, 1997). One that is beyond the range is `[inf]`."""


def add(total: Expansion, numbers: Iterable[float]) -> None:
    """Add numbers to a sum, in place."""
    for number in numbers:
        kept, left = [], number
        for part in total:
            large, small = (left, part) if abs(left) >= abs(part) else (part, left)
            left = large + small
            rest = small - (left - large)
            if rest:
                kept.append(rest)
        total[:] = [*kept, left] if math.isfinite(left) else [math.inf]


def value_of(total: Expansion) -> float:
    """Return the sum, rounded once; infinity if it is beyond the range."""
    return math.fsum(total) if math.inf not in total else math.inf
