"""Compare values as far as a batch and a streaming computation can agree."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from towpath.checker.identity import utc


def differing(expected: Mapping[str, Any], actual: Mapping[str, Any], tolerance: float) -> str | None:
    """Return the first field that differs, for people; None if none does.

    A field that is missing where a value is expected differs, and so does an additional one. An absent
    field is the same as a null one: not every JSON writer writes nulls.
    """
    for name, value in expected.items():
        if not equal(value, actual.get(name), tolerance):
            return f"{name} is {actual.get(name)!r}, not {value!r}"
    for name, value in actual.items():
        if name not in expected and value is not None:
            return f"{name} = {value!r} is additional"
    return None


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
