"""The journey as reports: they depend on timetable and seed, and the flat wheel hits the rail once a turn."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest

from towpath.checker.identity import utc
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.lab.workload import accelerations
from towpath.lab.workload.accelerations import recordings, signal
from towpath.lab.workload.journey import BEGINS_AT, CIRCUMFERENCE_M, READY_S, STEP, WHEELS, Journey, Stop

SHORT = (Stop("Aspen", stands_s=2, section_s=20), Stop("Birch", stands_s=3))
FLAT = "3-left"


def test_accelerations_when_read_then_are_the_recordings_of_three_accelerometers_scaled() -> None:
    found = recordings()
    assert len(found) == 240
    assert all(len(each) == 100 for each in found)
    assert np.mean([each**2 for each in found]) == pytest.approx(1.0)
    assert found[0][0] == found[0][1], "the watch repeats values, as real devices do"


def test_signal_when_longer_than_the_recordings_then_begins_again() -> None:
    twice = signal(48_000, seed=1)
    assert np.array_equal(twice[:24_000], twice[24_000:])
    assert not np.array_equal(twice[:24_000], signal(24_000, seed=2))


def test_accelerations_when_not_installed_then_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(accelerations.importlib.util, "find_spec", lambda name: None)
    recordings.cache_clear()
    with pytest.raises(TowpathError) as caught:
        recordings()
    assert caught.value.detail.allowed == "pip install sktime"


def test_report_when_sent_then_is_one_line_with_number_wheel_time_speed_and_raw_value() -> None:
    journey = Journey(line=SHORT)
    report = list(journey.reports())[7 * 1_200 + WHEELS.index(FLAT)]
    number, wheel, at, speed, raw = report.payload.decode().split(",")
    assert (int(number), wheel) == (report.id, FLAT)
    assert utc(at) == BEGINS_AT + timedelta(seconds=12)
    assert utc(at).timestamp() == report.at
    assert float(speed) == journey.full_speed
    assert int(raw) * STEP == pytest.approx(journey.accelerations(FLAT)[1_200], abs=STEP / 2)


def test_train_when_made_ready_then_stands_and_measures_once_a_second_until_the_journey_begins() -> None:
    measured = list(Journey().standing())
    reports = [report for each in measured for report in each]
    assert [report.id for report in reports] == list(range(-READY_S * len(WHEELS), 0))
    assert reports[-1].at == BEGINS_AT.timestamp() - 1
    assert {report.payload.split(b",")[3] for report in reports} == {b"0.000"}


def test_timetable_when_read_then_each_stop_has_its_times_and_the_train_stands_there() -> None:
    journey = Journey(line=SHORT)
    assert [(c.station, c.arrives_s, c.departs_s) for c in journey.calls] == [
        ("Aspen", 0.0, 2.0),
        ("Birch", 22.0, 25.0),
    ]
    assert journey.count == 25 * 100 * len(WHEELS)
    speeds = journey.speeds
    assert not speeds[:200].any()
    assert not speeds[2_200:].any()
    assert speeds[201:2_200].all()


def test_impacts_when_the_wheel_is_flat_then_come_once_a_turn_from_that_moment_on() -> None:
    journey = Journey(line=SHORT, flat_from_s=10.0)
    distance_m = np.cumsum(journey.speeds) / journey.rate_hz
    [places] = np.nonzero(journey.impacts)
    assert places[0] >= 1_000
    assert np.diff(distance_m[places]) == pytest.approx(CIRCUMFERENCE_M, abs=0.11)
    sound = Journey(line=SHORT, flat_from_s=99.0)
    added = journey.accelerations(FLAT) - sound.accelerations(FLAT)
    assert np.array_equal(np.nonzero(added)[0], places)
    assert np.array_equal(journey.accelerations("1-left"), sound.accelerations("1-left"))
    assert sound.first_impact is None


def test_first_impact_when_looked_up_then_is_the_report_of_that_wheel() -> None:
    journey = Journey(line=SHORT, flat_from_s=10.0)
    first = journey.first_impact
    assert first is not None
    assert list(journey.reports())[first].wheel == FLAT


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"line": SHORT[:1]}, "line"),
        ({"flat_wheel": "9-left"}, "flat_wheel"),
        ({"rate_hz": 0.0}, "rate_hz"),
        ({"acceleration": -1.0}, "acceleration"),
    ],
)
def test_journey_when_a_value_makes_no_sense_then_the_error_names_the_field(
    changes: dict[str, object], field: str
) -> None:
    with pytest.raises(TowpathError) as caught:
        Journey(**changes)  # pyright: ignore[reportArgumentType]
    assert (caught.value.detail.code, caught.value.detail.field) == (ErrorCode.INVALID, field)
