"""Compare values as far as a batch and a streaming computation can agree."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

from towpath.checker.identity import utc


def equal(expected: Any, actual: Any, tolerance: float) -> bool:
    """Tell if `actual`, from JSON, is the `expected` value.

    Floating-point numbers agree within a relative `tolerance` (and a thousandth of it absolute, because
    sums that cancel to zero leave a rest). Integers must be equal, and a truth value is no number. A time
    agrees with any ISO 8601 text of the same moment. NaN is null.
    """
    expected, actual = _null(expected), _null(actual)
    if isinstance(expected, datetime):
        return isinstance(actual, str) and _moment(expected) == _parsed(actual)
    if isinstance(expected, bool) or isinstance(actual, bool):
        return expected is actual
    if isinstance(expected, int | float) and isinstance(actual, int | float):
        if isinstance(expected, int) and isinstance(actual, int):
            return expected == actual
        return math.isclose(expected, actual, rel_tol=tolerance, abs_tol=tolerance * 1e-3)
    return type(expected) is type(actual) and expected == actual


def _null(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


def _moment(value: datetime) -> datetime:
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value


def _parsed(text: str) -> datetime | None:
    try:
        return utc(text)
    except ValueError:
        return None
