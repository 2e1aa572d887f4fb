"""Times as people write them: `10m`, ISO 8601, and --last, --since and --until of a command."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import now

_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def time_of(last: str | None, since: str | None, until: str | None) -> Callable[[], dict[str, datetime]]:
    """Return a function that returns `since` and `until` of a question, as far as they were given.

    What `last` means is different at each call. Raises `TowpathError` (invalid).
    """
    if last is not None and (since is not None or until is not None):
        raise TowpathError(
            ErrorCode.INVALID, "either --last or a range", field="last", value=last, allowed="one of them"
        )
    if last is not None:
        length = timedelta(seconds=seconds_of(last, "last"))
        return lambda: {"since": now() - length}
    given = {"since": since, "until": until}
    fixed = {name: moment_of(text, name) for name, text in given.items() if text is not None}
    return lambda: fixed


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
