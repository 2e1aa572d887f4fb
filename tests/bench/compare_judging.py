"""Judge what an engine made of a load, from its results alone: the same questions to every engine."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import median

SIZE_S = 1.0
"""Length of a window. Windows begin at whole seconds of the time that events carry."""

ALLOWED_S = 0.5
"""Delay behind the newest event with which an event still counts. Bytewax lets the processor's clock move its
watermark, so it needs more than the 0.1 s that events take on a busy machine."""

OVERDUE_LIMIT_S = 3.0
"""Delay of the next window beyond which an engine does not keep up. A trigger of 1 s makes 2 s of it."""

LOAD_BEHIND_LIMIT_S = 1.0
"""Delay of the load itself beyond which the broker does not take the rate."""


@dataclass(frozen=True)
class Result:
    """The count of one window and sensor, as the subscriber received it."""

    received_at: float
    """Unix seconds."""
    start: float
    """Start of the window, Unix seconds of the time that events carry."""
    sensor: str
    count: int

    @property
    def end(self) -> float:
        """End of the window."""
        return self.start + SIZE_S


@dataclass(frozen=True)
class Account:
    """The events of a load, and what the results of its windows say of them."""

    sent: int
    lost: int
    """Events that no result counts."""
    surplus: int
    """Events that results count and that were not sent."""
    repeated: int
    """Results of a window and sensor that already had one."""

    @property
    def exact(self) -> bool:
        """True if every event was counted once."""
        return not (self.lost or self.surplus or self.repeated)


def result_of(payload: bytes, received_at: float) -> Result:
    """Return the result in a message: of Towpath, or of one of the other engines' programs."""
    body = json.loads(payload)
    if "window" in body:
        start, sensor = body["window"]["start"], body["key"]["sensor"]
    else:
        start, sensor = body["start"], body["sensor"]
    moment = datetime.fromisoformat(start)
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return Result(received_at, aware.timestamp(), sensor, body["count"])


def account(results: Iterable[Result], since: float, until: float, sent: int) -> Account:
    """Compare a load with the results of its windows: those that start at `since` or later, before `until`.

    The first result of a window and sensor counts.
    """
    counts: dict[tuple[float, str], int] = {}
    repeated = 0
    for result in results:
        if since <= result.start < until:
            identity = (result.start, result.sensor)
            repeated += identity in counts
            counts.setdefault(identity, result.count)
    counted = sum(counts.values())
    return Account(sent, max(0, sent - counted), max(0, counted - sent), repeated)


def median_latency_s(results: Iterable[Result], begin: float, end: float) -> float | None:
    """Return the median time from the end of a window to its results, of windows that end in an interval."""
    latencies = [result.received_at - result.end for result in results if begin <= result.end < end]
    return median(latencies) if latencies else None


def overdue_s(results: Sequence[Result], since: float, now: float) -> float:
    """Return how long ago the next window could have closed; negative if it still cannot.

    `since`: the start of the first window that is awaited.
    """
    awaited = max((result.start + SIZE_S for result in results if result.start >= since), default=since)
    return now - (awaited + SIZE_S + ALLOWED_S)


def falls_behind(overdue: float, load_behind_s: float, found: Account | None) -> str | None:
    """Return why an engine does not keep up with a rate; none if it does.

    `found`: what became of the load, unless the engine is overdue anyway.
    """
    if load_behind_s > LOAD_BEHIND_LIMIT_S:
        return f"the broker takes the load {load_behind_s:.1f} s late"
    if overdue > OVERDUE_LIMIT_S:
        return f"the next window is {overdue:.1f} s overdue"
    if found is not None and not found.exact:
        return (
            f"of {found.sent:,} events {found.lost:,} are lost, {found.surplus:,} counted too often; "
            f"{found.repeated:,} results repeated"
        )
    return None
