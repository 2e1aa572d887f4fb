"""Each model detects what it is for. Vectors are those of the NIST/SEMATECH e-Handbook where it has one."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from running.predictions import alarms, detector, own, verdicts
from towpath.prediction.models.kswin import distance
from towpath.prediction.registry import KINDS, Sample

NIST_CUSUM = [
    324.925, 324.675, 324.725, 324.350, 325.350, 325.225, 324.125, 324.525, 325.225, 324.600,
    324.625, 325.150, 328.325, 327.250, 327.825, 328.500, 326.675, 327.775, 326.875, 328.350,
]  # fmt: skip
NIST_UPPER = [0, 0, 0, 0, 0.0325, 0, 0, 0, 0, 0, 0, 0, 3.0075, 4.94, 7.4475, 10.63, 11.9875, 14.445, 16.0025,
              19.035]  # fmt: skip
NIST_LOWER = [0, 0.0075, 0, 0.3325, 0, 0, 0.5575, 0.715, 0.1725, 0.255, 0.3125, *[0] * 9]
NIST_LIMITS: dict[str, Any] = {"mean": 325, "unit": "absolute", "slack": 0.3175, "threshold": 4.1959}

NIST_EWMA = [52.0, 47.0, 53.0, 49.3, 50.1, 47.0, 51.0, 50.1, 51.2, 50.5, 49.6, 47.6, 49.9, 51.3, 47.8, 51.2,
             52.6, 52.4, 53.6, 52.1]  # fmt: skip
NIST_AVERAGES = [50.60, 49.52, 50.56, 50.18, 50.16, 49.21, 49.75, 49.85, 50.26, 50.33, 50.11, 49.36, 49.52,
                 50.05, 49.38, 49.92, 50.73, 51.23, 51.94, 51.99]  # fmt: skip

LEARNT = [9.0, 10.0, 11.0] * 10
"""Mean 10, standard deviation 0.83."""


def noise(count: int, mean: float = 0.0, seed: int = 0) -> list[float]:
    chance = random.Random(seed)
    return [chance.gauss(mean, 1.0) for _ in range(count)]


def test_cusum_when_it_sees_the_vector_of_the_handbook_then_both_sums_and_the_alarm_are_those() -> None:
    found = verdicts(detector("cusum", **NIST_LIMITS, reset=False), NIST_CUSUM)

    assert own("cusum", found, "upper_sum") == pytest.approx(NIST_UPPER, abs=1e-9)
    assert own("cusum", found, "lower_sum") == pytest.approx(NIST_LOWER, abs=1e-9)
    assert alarms(found) == [*range(14, 21)]
    first = found[13]
    assert (first.side, first.since, first.limit) == ("upper", (13, 13_000_000), 4.1959)
    assert first.statistic == pytest.approx(4.94)


def test_cusum_when_it_resets_then_sums_start_again_after_each_alarm() -> None:
    found = verdicts(detector("cusum", **NIST_LIMITS), NIST_CUSUM)

    assert alarms(found) == [14, 16, 19]
    assert found[15].since == (15, 15_000_000)


def test_cusum_when_the_mean_falls_then_the_alarm_is_on_the_lower_side() -> None:
    mirrored = [650 - value for value in NIST_CUSUM]

    found = verdicts(detector("cusum", **NIST_LIMITS), mirrored)
    upper_only = verdicts(detector("cusum", **NIST_LIMITS, side="upper"), mirrored)

    assert (alarms(found)[0], found[13].side) == (14, "lower")
    assert alarms(upper_only) == []


def test_cusum_when_it_learns_then_limits_are_in_deviations_and_the_reference_is_frozen() -> None:
    watching = detector("cusum", learn_events=len(LEARNT))

    learning = verdicts(watching, LEARNT)
    found = verdicts(watching, [12.0] * 10, first=31)

    assert {verdict.state for verdict in learning} == {"learning"}
    deviation = math.sqrt(20 / 29)
    assert own("cusum", found, "deviation") == pytest.approx([deviation] * 10)
    assert own("cusum", found, "mean") == pytest.approx([10.0] * 10)
    # Each event adds 2 less half a deviation; the limit is five of them.
    assert alarms(found, first=31)[0] == 30 + math.ceil(5 * deviation / (2 - deviation / 2) + 1e-9)


def test_cusum_when_it_has_a_head_start_then_finds_sooner_what_is_wrong_already() -> None:
    wrong = [value + 0.9 for value in NIST_CUSUM[:12]]

    late = alarms(verdicts(detector("cusum", **NIST_LIMITS), wrong))
    soon = alarms(verdicts(detector("cusum", **NIST_LIMITS, head_start=0.5), wrong))

    assert soon
    assert not late or soon[0] < late[0]


def test_ewma_when_it_sees_the_vector_of_the_handbook_then_averages_and_limit_are_those() -> None:
    parameters: dict[str, Any] = {"mean": 50, "deviation": 2.0539, "weight": 0.3}

    found = verdicts(detector("ewma", **parameters), NIST_EWMA)

    assert own("ewma", found, "average") == pytest.approx(NIST_AVERAGES, abs=0.011)
    assert found[0].limit == pytest.approx(52.5884 - 50, abs=1e-3)
    assert alarms(found) == []


def test_ewma_when_the_mean_shifts_then_since_is_where_the_average_left_its_limits() -> None:
    found = verdicts(detector("ewma", mean=0, deviation=1, limit=2.7), [0.0, 0.0, 2.0, 2.0, 2.0, 2.0, -14.0])

    assert [(verdict.side, verdict.since) for verdict in found[3:]] == [
        (None, None),
        ("upper", (5, 5_000_000)),
        ("upper", (5, 5_000_000)),
        ("lower", (7, 7_000_000)),
    ]


def test_shewhart_when_a_number_is_an_outlier_then_only_that_is_an_alarm() -> None:
    found = verdicts(detector("shewhart", learn_events=30), [*LEARNT, 10.0, 13.0, 13.5, 7.0, 10.0])

    assert alarms(found) == [32, 33, 34]
    assert [verdict.side for verdict in found[31:34]] == ["upper", "upper", "lower"]
    assert [verdict.since for verdict in found[31:34]] == [
        (32, 32_000_000),
        (32, 32_000_000),
        (34, 34_000_000),
    ]
    assert found[30].since is None


def test_page_hinkley_when_the_mean_changes_then_tells_once_and_begins_anew() -> None:
    found = verdicts(detector("page_hinkley", threshold=20), [*noise(200), *noise(60, mean=4.0)])

    (alarm,) = alarms(found)
    assert 200 < alarm < 212
    assert found[alarm - 1].side == "upper"
    assert found[alarm - 1].since is not None
    assert found[alarm].state == "learning"


def test_page_hinkley_when_it_sees_numbers_then_its_alarms_are_those_of_river() -> None:
    river = pytest.importorskip("river.drift")
    values = [*noise(300), *noise(200, mean=3.0), *noise(200, mean=-2.0)]
    theirs, expected = river.PageHinkley(threshold=30), []
    for n, value in enumerate(values, 1):
        theirs.update(value)
        if theirs.drift_detected:
            expected.append(n)

    assert alarms(verdicts(detector("page_hinkley", threshold=30), values)) == expected
    assert len(expected) >= 2


def test_adwin_when_the_mean_changes_then_drops_what_was_before() -> None:
    values = [0.2 + 0.02 * value for value in noise(600)] + [
        0.6 + 0.02 * value for value in noise(300, seed=1)
    ]

    found = verdicts(detector("adwin"), values)

    first = alarms(found)[0]
    assert 600 < first <= 640
    alarm = found[first - 1]
    assert (alarm.side, alarm.since) == ("upper", alarm.since)
    assert alarm.since is not None
    assert abs(alarm.since[0] - 601) <= 32
    assert own("adwin", found, "mean")[-1] == pytest.approx(0.6, abs=0.01)
    assert own("adwin", found, "width")[-1] <= 330


def test_adwin_when_nothing_changes_then_its_window_grows_in_few_buckets() -> None:
    watching = detector("adwin")

    found = verdicts(watching, [0.5 + 0.1 * value for value in noise(5000)])

    assert alarms(found) == []
    assert own("adwin", found, "width")[-1] == 5000
    assert sum(map(len, watching.rows)) <= 6 * 12  # pyright: ignore[reportAttributeAccessIssue]


def test_kswin_when_the_spread_changes_but_not_the_mean_then_is_an_alarm() -> None:
    values = [*noise(300), *(10 * value for value in noise(100, seed=1))]

    found = verdicts(detector("kswin"), values)

    first = alarms(found)[0]
    assert 300 < first < 340
    assert found[first - 1].since == (first - 29, (first - 29) * 1_000_000)


def test_kswin_when_nothing_changes_then_is_no_alarm() -> None:
    assert alarms(verdicts(detector("kswin", significance=0.0001), noise(1000))) == []


@pytest.mark.parametrize("seed", range(20))
def test_distance_of_distributions_when_samples_are_compared_then_is_that_of_scipy(seed: int) -> None:
    stats = pytest.importorskip("scipy.stats")
    one = sorted(round(value, 1) for value in noise(30, seed=seed))
    other = sorted(round(value, 1) for value in noise(30, mean=0.4, seed=seed + 100))

    assert distance(one, other) == pytest.approx(stats.ks_2samp(one, other).statistic)


def ride(seconds: float, flat_g: float, seed: int = 0, drift: float = 0.0) -> list[Sample]:
    """Accelerations at 1,000 Hz of a wheel at 20 m/s and more, with noise, rail joints each 18 m, and a flat
    spot that rings for some milliseconds."""
    chance, distance_m, samples = random.Random(seed), 0.0, []
    circumference = math.pi * 0.92
    for n in range(int(seconds * 1000)):
        speed = 20.0 + 2.0 * math.sin(n / 4000)
        distance_m += speed / 1000
        turned = (distance_m * (1 + drift) / circumference) % 1
        since_joint_m = distance_m % 18.0
        impact = flat_g * math.exp(-((turned - 0.3) % 1) * 60)
        joint = 12.0 * math.exp(-since_joint_m * 20)
        place = (n + 1, n * 1000)
        samples.append(Sample(chance.gauss(0, 1) + impact + joint, place, (speed,)))
    return samples


def test_flat_wheel_when_the_wheel_has_a_flat_spot_then_tells_and_says_where() -> None:
    watching = detector("flat_wheel", speed="speed", sample_rate_hz=1000)

    found = [watching.see(sample) for sample in ride(12, flat_g=6.0)]

    first = alarms(found)[0]
    assert 2_000 < first < 6_000
    assert {verdict.state for verdict in found[first:]} == {"alarm"}
    assert own("flat_wheel", found, "peak_angle", speed="speed")[-1] == pytest.approx(360 * 0.3, abs=12)
    assert found[-1].since == (first, (first - 1) * 1000)


def test_flat_wheel_when_only_joints_and_noise_shake_it_then_is_no_alarm() -> None:
    for seed in range(3):
        watching = detector("flat_wheel", speed="speed")

        found = [watching.see(sample) for sample in ride(12, flat_g=0.0, seed=seed)]

        assert alarms(found) == []
        assert found[-1].state == "normal"


def test_flat_wheel_when_measurements_pause_then_begins_anew() -> None:
    watching = detector("flat_wheel", speed="speed")
    for sample in ride(8, flat_g=6.0):
        watching.see(sample)

    after = watching.see(Sample(0.0, (9_000, 30_000_000), (20.0,)))

    assert after.state == "learning"


def test_models_when_loaded_then_are_those_of_the_contract() -> None:
    from typing import get_args

    from towpath.contracts.prediction import PredictionModel

    contracts = get_args(get_args(PredictionModel)[0])
    assert sorted(KINDS.by_name()) == sorted(
        get_args(each.model_fields["kind"].annotation)[0] for each in contracts
    )
    for each in contracts:
        (name,) = get_args(each.model_fields["kind"].annotation)
        assert KINDS[name].judging <= each.model_fields.keys()
