"""A journey of a carriage, as the reports of the accelerometers on its axle boxes.

As in IRONEDGE's railway (Algorithms 2023, 16(2), 123) there are seven accelerometers. There one line of text
has one measurement of all seven, 150 bytes long, and a run replays 1,000 to 14,000 of these lines a second.
Here each accelerometer sends a line of its own, because each wheel has a model of its own. At the 100 Hz of
the default timetable that makes 700 reports a second:

    18211,3-left,2026-03-02T08:00:26.010Z,9.873,-412

These are the number of the report, the wheel, the time of the measurement, the speed of the wheel's tread in
m/s from the axle's encoder, and the raw vertical acceleration in steps of 2 mm/s².

The vibration is real, though not of a railway: see `accelerations`. Each wheel gets the recordings in an
order of its own, repeated for as long as the journey lasts, one measurement of 10 Hz for each measurement of
the accelerometer, hence faster than life. They are louder at higher speed: a root mean square of 1 m/s² at
full speed. From `flat_from_s` on, one wheel has a flat spot: each time it has turned once, it hits the rail.
The impact is added to one measurement, because it is shorter than the 10 ms between two of them.

The journey is compressed: sections of a few hundred metres stand for kilometres. It depends on the timetable,
the seed and the other fields alone, and never on the clock.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import accumulate

import numpy as np

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.lab.workload.accelerations import Signal, signal

WHEELS = ("1-left", "1-right", "2-left", "2-right", "3-left", "3-right", "4-left")
"""Seven axle boxes of the eight that a carriage with four axles has."""

BEGINS_AT = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
"""Time of the first measurement."""

STEP = 0.002
"""Acceleration of one raw count, m/s²."""

DIAMETER_M = 0.92
CIRCUMFERENCE_M = math.pi * DIAMETER_M

STANDING = 0.05
"""Vibration of a standing carriage, as a part of that at full speed: machines and passengers."""

READY_S = 600
"""Seconds before the journey for which the standing train can measure."""


@dataclass(frozen=True)
class Stop:
    """A station at which the train stops, and the section that it enters afterwards."""

    station: str
    stands_s: float
    section_s: float = 0.0
    """Seconds to the next station; 0 where the journey ends."""
    tunnel: bool = False
    """True if the section is a tunnel."""


@dataclass(frozen=True)
class Call:
    """A stop of the journey, in seconds since the first measurement."""

    stop: Stop
    arrives_s: float
    departs_s: float
    """Of the last stop: the end of the journey."""

    @property
    def station(self) -> str:
        """Where it is."""
        return self.stop.station


LINE = (
    Stop("Aspen", stands_s=8, section_s=18),
    Stop("Birch", stands_s=28, section_s=18, tunnel=True),
    Stop("Cedar", stands_s=8, section_s=18, tunnel=True),
    Stop("Dale", stands_s=28, section_s=18),
    Stop("Elm", stands_s=2),
)
"""Two long stops and a short one. 2 min 26 s."""


@dataclass(frozen=True, slots=True)
class Report:
    """One measurement, ready to be sent."""

    id: int
    wheel: str
    at: float
    """When it was measured, Unix seconds."""
    payload: bytes


@dataclass(frozen=True)
class Journey:
    """The timetable and everything else that the reports depend on. Raises `TowpathError` (invalid)."""

    line: Sequence[Stop] = LINE
    rate_hz: float = 100.0
    """Measurements per second of each accelerometer."""
    full_speed: float = 10.0
    """m/s. At 100 Hz a turn of the wheel then has 29 measurements."""
    acceleration: float = 1.5
    """m/s², also when the train brakes."""
    flat_wheel: str = "3-left"
    flat_from_s: float = 60.0
    """When the flat spot comes into being: in the tunnel behind the second station."""
    impact: float = 8.0
    """Acceleration that an impact adds at full speed, m/s². It grows with the speed."""
    seed: int = 7

    def __post_init__(self) -> None:
        """Refuse values that make no sense."""
        if len(self.line) < 2:
            raise TowpathError(
                ErrorCode.INVALID,
                "no journey",
                field="line",
                value=len(self.line),
                allowed="2 stations or more",
            )
        if self.flat_wheel not in WHEELS:
            raise TowpathError.unknown("flat_wheel", self.flat_wheel, list(WHEELS))
        for name in ("rate_hz", "full_speed", "acceleration"):
            if not getattr(self, name) > 0:
                raise TowpathError(
                    ErrorCode.INVALID,
                    "must be positive",
                    field=name,
                    value=getattr(self, name),
                    allowed="above 0",
                )

    @property
    def calls(self) -> list[Call]:
        """The stops in order, with their times."""
        stays = [(stop.stands_s, stop.section_s) for stop in self.line]
        arrivals = accumulate((stands + section for stands, section in stays[:-1]), initial=0.0)
        return [
            Call(stop, arrives, arrives + stop.stands_s)
            for stop, arrives in zip(self.line, arrivals, strict=True)
        ]

    @property
    def length_s(self) -> float:
        """Seconds from the first measurement to the end."""
        return self.calls[-1].departs_s

    @property
    def count(self) -> int:
        """Number of reports."""
        return self._measurements * len(WHEELS)

    @property
    def speeds(self) -> Signal:
        """The speed at each measurement, m/s, as it is reported."""
        seconds = np.arange(self._measurements) / self.rate_hz
        speeds = np.zeros(len(seconds))
        for call in self.calls:
            since, until = seconds - call.departs_s, call.departs_s + call.stop.section_s - seconds
            ramps = self.acceleration * np.minimum(since, until)
            speeds = np.maximum(speeds, np.clip(ramps, 0.0, self.full_speed))
        return np.round(speeds, 3)

    @property
    def impacts(self) -> np.ndarray:
        """True for each measurement in which the flat spot hits the rail."""
        turns = np.floor(np.cumsum(self.speeds) / self.rate_hz / CIRCUMFERENCE_M)
        begun = np.arange(self._measurements) >= self.flat_from_s * self.rate_hz
        return (np.diff(turns, prepend=0.0) > 0) & begun

    @property
    def first_impact(self) -> int | None:
        """Number of the report with the first impact; None if there is none."""
        [places] = np.nonzero(self.impacts)
        return int(places[0]) * len(WHEELS) + WHEELS.index(self.flat_wheel) if len(places) else None

    def accelerations(self, wheel: str) -> Signal:
        """Return all that the accelerometer of a wheel measures, m/s²."""
        loudness = STANDING + (1 - STANDING) * self.speeds / self.full_speed
        # Seeds of two journeys differ, and so do those of two wheels of one journey.
        measured = signal(self._measurements, self.seed * len(WHEELS) + WHEELS.index(wheel)) * loudness
        if wheel != self.flat_wheel:
            return measured
        return measured + self.impact * self.impacts * self.speeds / self.full_speed

    def reports(self) -> Iterator[Report]:
        """Yield the reports in the order of time."""
        speeds = self.speeds.tolist()
        counts = np.stack([np.rint(self.accelerations(wheel) / STEP) for wheel in WHEELS], axis=1)
        for place, (speed, row) in enumerate(zip(speeds, counts.astype(int).tolist(), strict=True)):
            yield from _measured(place, place / self.rate_hz, speed, row)

    def standing(self) -> Iterator[list[Report]]:
        """Yield one measurement of all wheels for each second of `READY_S` before the journey, in order.

        The numbers of these reports are negative.
        """
        counts = [
            signal(READY_S, self.seed * len(WHEELS) + place) * STANDING / STEP for place in range(len(WHEELS))
        ]
        for second, row in enumerate(np.rint(np.stack(counts, axis=1)).astype(int).tolist(), -READY_S):
            yield list(_measured(second, float(second), 0.0, row))

    @property
    def _measurements(self) -> int:
        return int(self.length_s * self.rate_hz)


def _measured(place: int, second: float, speed: float, counts: Sequence[int]) -> Iterator[Report]:
    """Yield the reports of a measurement of all wheels, `second` seconds after the journey began."""
    at_ms = round(BEGINS_AT.timestamp() * 1000) + round(second * 1000)
    at = np.datetime64(at_ms, "ms")
    for position, (wheel, raw) in enumerate(zip(WHEELS, counts, strict=True)):
        number = place * len(WHEELS) + position
        yield Report(number, wheel, at_ms / 1000, f"{number},{wheel},{at}Z,{speed:.3f},{raw}".encode())
