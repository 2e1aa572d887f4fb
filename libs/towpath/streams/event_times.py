"""Read times in events. They are texts of ISO 8601, as Spark casts them: UTC where they name no zone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

from towpath.streams.decoding import TIMESTAMP

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d{1,2})(?:[T ](\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?\s*(\S+)?)?)?)?\s*",
    re.ASCII,
)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d\d))?(?::?(\d\d))?", re.ASCII)
_UTC = frozenset({"Z", "UTC", "GMT", "UT"})
_FARTHEST = timedelta(hours=18)

_USUAL = r"^[1-9]\d{3}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-](0\d|1[0-7]):[0-5]\d)?$"
"""Texts that Arrow reads as `micros_of` does. It takes some others for times that are none to Spark."""


def times_of(texts: Sequence[str | None]) -> pa.Array:
    """Return the times of texts; null where a text is no time."""
    column = pa.array(texts, pa.string())
    usual = pc.all(pc.match_substring_regex(column, _USUAL)).as_py()  # pyright: ignore[reportAttributeAccessIssue]
    # Arrow reads a column several times as fast, if all of its texts name a zone or none does.
    for kind in (TIMESTAMP, pa.timestamp("us")) if usual else ():
        try:
            return column.cast(kind).cast(TIMESTAMP)
        except pa.ArrowInvalid:
            continue
    return pa.array([None if text is None else micros_of(text) for text in texts], TIMESTAMP)


def micros_of(text: str) -> int | None:
    """Return the microseconds since 1970 of a time; None if the text is no time."""
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    *numbers, fraction, zone = found.groups()
    try:
        parts = [int(number or 0) for number in numbers]
        time = datetime(*parts, tzinfo=UTC if zone is None else _zone(zone))  # type: ignore[misc]
        return (time - _EPOCH) // _MICROSECOND + int(f"{fraction or '':0<6}"[:6])
    except (ValueError, OverflowError, OSError, KeyError):
        return None


def _zone(name: str) -> tzinfo:
    """Return a zone by offset or region. For other names, raises `KeyError`, `ValueError` or `OSError`."""
    if name in _UTC:
        return UTC
    found = _OFFSET.fullmatch(name)
    if found is None:
        return ZoneInfo(name)
    sign, hours, minutes, seconds = found.groups()
    offset = timedelta(hours=int(hours), minutes=int(minutes or 0), seconds=int(seconds or 0))
    if offset > _FARTHEST:
        raise ValueError(f"no zone is {offset} from UTC")
    return timezone(-offset if sign == "-" else offset)
