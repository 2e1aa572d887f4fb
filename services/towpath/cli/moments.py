"""Times as people write them on a command line."""

from __future__ import annotations

import re
from datetime import datetime

from towpath.contracts.errors import ErrorCode, TowpathError

_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def seconds_of(text: str, field: str) -> float:
    """Return a length of time, such as `10m` or `250ms`, in seconds. A number without unit is seconds.

    Raises `TowpathError` (invalid).
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)?", text.strip())
    seconds = float(found[1]) * _UNITS_S[found[2] or "s"] if found else 0.0
    if seconds <= 0:
        raise TowpathError(
            ErrorCode.INVALID,
            "not a length of time",
            field=field,
            value=text,
            allowed="a number and ms, s, m, h or d: 10m",
        )
    return seconds


def moment_of(text: str, field: str) -> datetime:
    """Return a moment in ISO 8601. Without a time zone, the machine's counts.

    Raises `TowpathError` (invalid).
    """
    try:
        return datetime.fromisoformat(text.strip()).astimezone()
    except (ValueError, OverflowError) as error:
        raise TowpathError(
            ErrorCode.INVALID,
            "not a moment",
            field=field,
            value=text,
            allowed="ISO 8601: 2026-01-31T12:00:00",
        ) from error
