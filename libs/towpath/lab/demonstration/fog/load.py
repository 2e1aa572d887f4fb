"""The events of devices: of each airport one portion of departures for each input rate.

A scenario's jobs run through all rates without a restart, so event time must go on from one portion to
the next: each takes up the file behind the one before. And every portion must have all its results out
before the next begins, so it ends with one event that closes its windows: a departure that lies as far
ahead as windows wait for late ones. Departures that this event would make late are left out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.lab.workload.departures import (
    CLOSING_CARRIER,
    Departure,
    closing_event,
    departures,
    max_disorder_s,
    with_malformed,
)

MOST_DEPARTURES = 34_000
"""Of each airport: with February, which follows December in the file, event time would go back a year."""

MALFORMED_EVERY = 200
"""After so many departures one malformed record."""

MARGIN_S = 3600.0
"""Seconds that windows wait beyond the disorder of the file."""

_BEYOND_S = 2 * 3600.0
"""From the newest departure of a portion to the end of what is closed: more than the hour it lies in."""

_CLOSING_DELAY = 999.0
"""Of a closing event, minutes: it must pass job 2, which forwards late departures only."""


@dataclass(frozen=True)
class Portion:
    """The events of one airport's devices at one rate."""

    edge: str
    rate: float
    """Events per second."""
    events: list[bytes]
    """Departures and malformed records, in file order; the last one closes all windows."""


def watermark_s(airports: Sequence[str]) -> float:
    """Return the seconds of event time that windows wait, so that no departure of the file is too late."""
    disorder = max(max_disorder_s(airport, MOST_DEPARTURES) for airport in airports)
    return float(math.ceil(disorder + MARGIN_S))


def turns_of_devices(
    airports: Sequence[str], loads: Sequence[tuple[float, float]], wait_s: float
) -> list[list[Portion]]:
    """For each load, a rate and so many seconds of it, the portions of all airports.

    `wait_s` is the watermark delay of the windows they go through. Raises `TowpathError` (invalid) when
    the file has not so many departures.
    """
    logs = [_Log(airport) for airport in airports]
    turns: list[list[Portion]] = []
    for turn, (rate, seconds) in enumerate(loads):
        try:
            taken = [log.take(max(1, round(rate * seconds))) for log in logs]
        except IndexError:
            raise _too_many(loads) from None
        # One moment for all: where streams are merged, the slowest watermark holds all windows open.
        closed_until = max(event.at for events in taken for event in events) + _BEYOND_S
        turns.append(
            [
                Portion(log.airport.lower(), rate, log.payloads(events, turn, closed_until + wait_s))
                for log, events in zip(logs, taken, strict=True)
            ]
        )
        for log in logs:
            log.skip_until(closed_until)
    return turns


class _Log:
    """The departures of an airport, taken from the front."""

    def __init__(self, airport: str) -> None:
        self.airport = airport
        self._rows = departures(airport, MOST_DEPARTURES)
        at = np.array([row.at for row in self._rows])
        self._earliest_left = np.minimum.accumulate(at[::-1])[::-1]
        self._next = 0

    def take(self, count: int) -> list[Departure]:
        """The next so many. Raises `IndexError` when there are not enough."""
        if self._next + count > len(self._rows):
            raise IndexError(count)
        self._next += count
        return self._rows[self._next - count : self._next]

    def skip_until(self, moment: float) -> None:
        """Leave out what lies before this moment, Unix seconds: it would be dropped as late."""
        self._next = max(self._next, int(np.searchsorted(self._earliest_left, moment, side="left")))

    def payloads(self, events: Sequence[Departure], turn: int, closing_at: float) -> list[bytes]:
        """The events as they are sent, with malformed ones between them and a closing one behind."""
        disturbed = [event.payload for event in with_malformed(events, MALFORMED_EVERY)]
        return [*disturbed, _closing(self.airport, turn, closing_at)]


def _closing(airport: str, turn: int, at: float) -> bytes:
    """A departure of a carrier that no airline has, at this moment, Unix seconds."""
    event = json.loads(closing_event(airport).payload)
    moment = datetime.fromtimestamp(math.ceil(at), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert event["carrier"] == CLOSING_CARRIER
    # Three airports have closing events of their own, and no two of these may share an id.
    body = {"id": event["id"] + 3 * (turn + 1), "departed_at": moment, "delay": _CLOSING_DELAY}
    return json.dumps({**event, **body}, separators=(",", ":")).encode()


def _too_many(loads: Sequence[tuple[float, float]]) -> TowpathError:
    return TowpathError(
        ErrorCode.INVALID,
        "an airport has not so many departures",
        field="rates",
        value=", ".join(f"{rate:g}/s for {seconds:g} s" for rate, seconds in loads),
        allowed=f"fewer than {MOST_DEPARTURES:,} events in all",
    )
