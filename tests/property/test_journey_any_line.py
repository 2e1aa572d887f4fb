"""Any journey is the same each time, in the order of time, with each measurement of each wheel once."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from towpath.lab.workload.journey import WHEELS, Journey, Stop

stops = st.builds(
    Stop,
    station=st.sampled_from(["Aspen", "Birch", "Cedar"]),
    stands_s=st.integers(0, 5).map(float),
    section_s=st.integers(1, 12).map(float),
    tunnel=st.booleans(),
)
journeys = st.builds(
    Journey,
    line=st.lists(stops, min_size=2, max_size=3),
    rate_hz=st.sampled_from([10.0, 25.0, 50.0]),
    full_speed=st.floats(1, 40),
    acceleration=st.floats(0.5, 3),
    flat_wheel=st.sampled_from(WHEELS),
    flat_from_s=st.floats(0, 100),
    seed=st.integers(0, 1_000),
)


@settings(max_examples=30, deadline=None)
@given(journeys)
def test_journey_when_played_twice_then_each_measurement_comes_once_and_in_order(journey: Journey) -> None:
    reports = list(journey.reports())
    assert reports == list(journey.reports())
    assert [report.id for report in reports] == list(range(journey.count))
    assert [report.at for report in reports] == sorted(report.at for report in reports)
    assert len({(report.wheel, report.at) for report in reports}) == len(reports)


@settings(max_examples=30, deadline=None)
@given(journeys)
def test_train_when_between_stations_then_never_faster_than_allowed_and_stands_at_each(
    journey: Journey,
) -> None:
    speeds = journey.speeds
    assert speeds.min(initial=0) >= 0
    assert speeds.max(initial=0) <= journey.full_speed + 0.001
    for call in journey.calls:
        standing = speeds[int(call.arrives_s * journey.rate_hz) : int(call.departs_s * journey.rate_hz)]
        assert not standing.any()


@settings(max_examples=20, deadline=None)
@given(journeys)
def test_first_impact_when_there_is_one_then_is_not_before_the_wheel_is_flat(journey: Journey) -> None:
    first = journey.first_impact
    if first is None:
        assert not journey.impacts.any()
    else:
        assert first / len(WHEELS) >= journey.flat_from_s * journey.rate_hz - 1
        assert WHEELS[first % len(WHEELS)] == journey.flat_wheel
