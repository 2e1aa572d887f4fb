"""Times as integers: microseconds since 1970, from texts and numbers as files have them."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from towpath.checker.identity import utc

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class TimeUnit(StrEnum):
    """Unit of a time given as a number since 1970-01-01 UTC."""

    SECONDS = "s"
    MILLISECONDS = "ms"
    MICROSECONDS = "us"


_MICROSECONDS = {TimeUnit.SECONDS: 1_000_000, TimeUnit.MILLISECONDS: 1_000, TimeUnit.MICROSECONDS: 1}


def microseconds(value: Any, unit: TimeUnit = TimeUnit.SECONDS) -> int | None:
    """Return the moment in microseconds since 1970; None for other values. A text without a zone is UTC."""
    if isinstance(value, str):
        try:
            return (utc(value) - _EPOCH) // _MICROSECOND
        except (ValueError, OverflowError):
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return round(value * _MICROSECONDS[unit]) if math.isfinite(value) else None


def written(at_us: int) -> str:
    """Return a moment for people: ISO 8601, UTC."""
    return (_EPOCH + at_us * _MICROSECOND).isoformat().replace("+00:00", "Z")
