"""Compare answers of queries with expected ones."""

from __future__ import annotations

import math
from typing import Any


def is_close(expected: Any, found: Any) -> bool:
    """Return true if an answer is the expected one but for rounding. It may explain more."""
    if isinstance(expected, list):
        return len(expected) == len(found) and all(map(is_close, expected, found))
    if isinstance(expected, dict):
        return all(is_close(value, found.get(name)) for name, value in expected.items())
    if isinstance(expected, float | int) and isinstance(found, float | int):
        return math.isclose(expected, found, rel_tol=1e-7, abs_tol=1e-7)
    return expected == found
