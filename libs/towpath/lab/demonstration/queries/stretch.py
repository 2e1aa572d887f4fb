"""A stretch of real time: the first departures of 2013 by the timetable, compressed to seconds.

All airports are in step: one second of the run is as much time of the year at each of them. Devices report in
the order of the timetable, so departures that are late come late, by up to a day. That is the disorder which
the texts' `delay` covers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.lab.harness.load import DueEvent
from towpath.lab.workload.departures import CLOSING_CARRIER, timetable

CLOSING_DAYS = 60
"""Days to each closing departure from the one before: longer than any window of a text and its delay."""

Due = Mapping[str, list[DueEvent]]
"""Site → its events, each with the second when it is due."""


@dataclass(frozen=True)
class Stretch:
    """Departures of all airports, as devices send them."""

    events: Due
    days: float
    """Of the timetable."""
    newest: datetime
    """The last departure."""

    @property
    def count(self) -> int:
        """Events of all airports."""
        return sum(map(len, self.events.values()))

    @property
    def closing(self) -> list[bytes]:
        """Two departures, each so late that every window before it is past.

        Answers about the first one show that all answers about earlier events were given.
        """
        times = [self.newest + timedelta(days=CLOSING_DAYS * number) for number in (1, 2)]
        about = {"carrier": CLOSING_CARRIER, "delay": 0, "distance": 1_000}
        return [json.dumps({**about, "departed_at": time.isoformat()}).encode() for time in times]

    @property
    def until(self) -> datetime:
        """A time between the last departure and the first closing one, that no window reaches."""
        return self.newest + timedelta(days=CLOSING_DAYS // 2)

    def parts(self, after_s: float) -> tuple[Due, Due]:
        """Return the events that are due until then, and the others, due so much earlier."""
        first = {site: [e for e in events if e.at <= after_s] for site, events in self.events.items()}
        rest = {
            site: [DueEvent(e.payload, e.at - after_s) for e in events if e.at > after_s]
            for site, events in self.events.items()
        }
        return first, rest


def stretch(rate: float, seconds: float) -> Stretch:
    """Return as many departures as all airports send in so many seconds, `rate` at each in the mean.

    Raises `TowpathError` (invalid) if the year does not have so many.
    """
    count = round(rate * seconds * 3)
    found = timetable(count)
    if len(found) < count:
        raise TowpathError(
            ErrorCode.INVALID,
            "the airports have not so many departures",
            field="rate",
            value=f"{rate:g}/s for {seconds:g} s",
            allowed=f"up to {len(found):,} events",
        )
    begin, end = found[0].scheduled_at, found[-1].scheduled_at
    per_second = (end - begin) / seconds
    events: dict[str, list[DueEvent]] = {}
    for each in found:
        due = (each.scheduled_at - begin) / per_second
        events.setdefault(each.event.airport.lower(), []).append(DueEvent(each.event.payload, due))
    newest = max(datetime.fromtimestamp(each.event.at, begin.tzinfo) for each in found)
    return Stretch(events, (end - begin) / timedelta(days=1), newest)
