"""The events that the load generator makes: JSON of a fixed layout, so that both making and reading one
costs a fraction of a microsecond.

`{"sensor":"s00042","n":1000000123,"at":"2026-01-01T00:00:00.000Z","value":21.5,"token":"xxxx…"}`
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np

TOPIC = "site/bench"

SIZE = 150
"""Bytes of a report, unless a benchmark wants larger ones."""

FIRST_NUMBER = 1_000_000_000
"""Numbers start here, because JSON knows no leading zeros."""

_HEAD = b'{"sensor":"s%05d","n":%010d,"at":"2026-01-01T00:00:00.000Z","value":21.5,"token":"' % (
    0,
    FIRST_NUMBER,
)
_TAIL = b'"}'

SENSOR = slice(11, 17)
"""Position of the sensor's name, `s` included."""
NUMBER = slice(23, 33)
AT = slice(40, 64)

_WORD = 4
"""Bytes that the random generator makes at a time; what a call leaves of them is lost."""

_LETTERS = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", np.uint8)


def template(size: int) -> bytes:
    """Return a report of `size` bytes; everything that varies is at its start value."""
    fill = size - len(_HEAD) - len(_TAIL)
    if fill < 0:
        raise ValueError(f"a report has at least {len(_HEAD) + len(_TAIL)} bytes")
    return _HEAD + b"x" * fill + _TAIL


def patch(rows: np.ndarray, numbers: np.ndarray, sensors: np.ndarray, at: datetime) -> None:
    """Write number, sensor and time into `rows`, an array of reports by bytes."""
    rows[:, SENSOR.start + 1 : SENSOR.stop] = _digits(sensors, 5)
    rows[:, NUMBER] = _digits(numbers + FIRST_NUMBER, 10)
    rows[:, AT] = np.frombuffer(stamp(at), np.uint8)


def patch_token(rows: np.ndarray, random: np.random.Generator) -> None:
    """Fill the tokens with random letters: all different, and nothing a compressor could shorten much.

    The same generator gives the same tokens however many reports are made at a time: each takes whole words.
    """
    start, stop = len(_HEAD), rows.shape[1] - len(_TAIL)
    in_words = -(-(stop - start) // _WORD) * _WORD
    letters = random.integers(0, 64, (len(rows), in_words), np.uint8)
    rows[:, start:stop] = _LETTERS[letters[:, : stop - start]]


def stamp(at: datetime) -> bytes:
    """A time as reports hold it: UTC, milliseconds, 24 bytes."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f").encode()[:23] + b"Z"


def sensors_of(payloads: Sequence[bytes]) -> np.ndarray:
    """Number of the sensor of each report."""
    return _numbers([payload[SENSOR.start + 1 : SENSOR.stop] for payload in payloads], 5)


def numbers_of(payloads: Sequence[bytes]) -> np.ndarray:
    """Number of each report, counted from 0."""
    return _numbers([payload[NUMBER] for payload in payloads], 10) - FIRST_NUMBER


def times_of(payloads: Sequence[bytes]) -> np.ndarray:
    """The reports' own time, as numpy's microseconds since 1970."""
    text = b"".join(payload[AT][:23] for payload in payloads).decode()
    return np.array([text[i : i + 23] for i in range(0, len(text), 23)], "datetime64[us]")


def tokens_of(payloads: Sequence[bytes]) -> np.ndarray:
    """A number for each report's token: equal for equal tokens, within this process."""
    return np.array([hash(payload[len(_HEAD) : -len(_TAIL)]) for payload in payloads], np.int64)


def _digits(values: np.ndarray, width: int) -> np.ndarray:
    powers = 10 ** np.arange(width - 1, -1, -1, dtype=np.int64)
    return (values[:, None] // powers % 10 + ord("0")).astype(np.uint8)


def _numbers(texts: list[bytes], width: int) -> np.ndarray:
    digits = np.frombuffer(b"".join(texts), np.uint8).reshape(-1, width).astype(np.int64) - ord("0")
    return digits @ (10 ** np.arange(width - 1, -1, -1, dtype=np.int64))
