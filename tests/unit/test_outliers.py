"""Outliers of small windows, of limits that are no doubles, and of real values."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import pytest

from running.outliers import delays
from towpath.outliers.algorithms import ALGORITHMS, DEFAULT
from towpath.outliers.detection import Outlier, OutlierDetector
from towpath.outliers.pmcod import TOGETHER, Pmcod

DENSE = [1.0, 1.1, 0.9, 1.0]
"""A micro-cluster for K = 3 and R = 0.5."""


@pytest.fixture(params=ALGORITHMS)
def algorithm(request: pytest.FixtureRequest) -> type[OutlierDetector]:
    return ALGORITHMS[request.param]


def explanations(found: list[Outlier]) -> dict[float, str]:
    return {one.value: one.explanation for one in found}


def test_outlier_when_nothing_is_near_then_is_isolated(algorithm: type[OutlierDetector]) -> None:
    found = algorithm(3, 0.5).slide([*DENSE, 9.0])

    assert [(one.number, one.value, one.neighbours) for one in found] == [(4, 9.0, 0)]
    assert found[0].explanation == "isolated"


def test_outliers_when_steps_within_r_connect_them_then_are_a_small_cluster(
    algorithm: type[OutlierDetector],
) -> None:
    found = algorithm(3, 0.5).slide([*DENSE, 9.0, 9.8, 9.4])

    assert [one.neighbours for one in found] == [1, 1, 2]
    assert {*explanations(found).values()} == {"in a small cluster of 3 values within R"}


def test_outlier_when_a_dense_value_is_near_then_is_at_the_edge(algorithm: type[OutlierDetector]) -> None:
    found = algorithm(3, 0.5).slide([*DENSE, 1.6, 2.0])

    assert explanations(found) == {1.6: "at the edge of a cluster", 2.0: "at the edge of a cluster"}


def test_outliers_when_the_window_is_shorter_than_k_then_are_all_values(
    algorithm: type[OutlierDetector],
) -> None:
    detector = algorithm(3, 0.5)

    assert len(detector.slide([1.0, 1.0, 1.0])) == 3
    assert detector.slide([1.0]) == []
    assert len(detector.slide([], expired=1)) == 3


def test_outliers_when_k_is_0_then_are_none(algorithm: type[OutlierDetector]) -> None:
    detector = algorithm(0, 0.5)

    assert detector.slide([1.0, 9.0]) == []
    assert detector.slide([5.0], expired=3) == []


@pytest.mark.parametrize(
    ("low", "high", "r", "near"),
    [
        (0.3, 0.8, 0.5, True),
        (0.6, 1.1, 0.5, False),
        (0.5, 0.8, 0.3, False),
        (-0.5, 1e-300, 0.5, True),
        (-1.7e308, 1.7e308, 1e308, False),
    ],
)
def test_distance_when_decimals_say_r_then_doubles_decide(
    algorithm: type[OutlierDetector], low: float, high: float, r: float, near: bool
) -> None:
    for values in ([low, high], [high, low]):
        assert len(algorithm(1, r).slide(values)) == (0 if near else 2)


def test_slide_when_arrivals_expire_at_once_then_they_are_numbered_all_the_same(
    algorithm: type[OutlierDetector],
) -> None:
    detector = algorithm(1, 0.5)
    detector.slide([1.0, 2.0])

    found = detector.slide([3.0, 4.0, 5.0], expired=4)

    assert [(one.number, one.value) for one in found] == [(4, 5.0)]
    assert (detector.expired, len(detector)) == (4, 1)


def test_slide_when_more_expire_than_there_are_then_says_what_is_allowed(
    algorithm: type[OutlierDetector],
) -> None:
    with pytest.raises(ValueError, match="expired is 3; allowed: 0 to 2"):
        algorithm(1, 0.5).slide([1.0, 2.0], expired=3)


@pytest.mark.parametrize(("k", "r"), [(-1, 0.5), (1, -0.1), (1, float("nan")), (1, float("inf"))])
def test_detector_when_a_parameter_makes_no_sense_then_says_what_is_allowed(
    algorithm: type[OutlierDetector], k: int, r: float
) -> None:
    with pytest.raises(ValueError, match="allowed"):
        algorithm(k, r)


def test_pmcod_when_a_micro_cluster_dissolves_then_its_distance_is_gone() -> None:
    detector = Pmcod(3, 0.5)

    near = detector.slide([*DENSE, 9.0])
    gone = detector.slide([], expired=1)

    assert [one.cluster_distance for one in near] == [8.0]
    assert [one.cluster_distance for one in gone] == [None] * 4


def test_pmcod_when_half_of_r_is_no_double_then_finds_outliers_all_the_same() -> None:
    least = 5e-324

    found = Pmcod(2, 3 * least).slide([-2 * least, 2 * least, 0.0])

    assert [one.neighbours for one in found] == [1, 1]


def test_pmcod_when_older_values_join_a_micro_cluster_then_its_newest_ones_still_count() -> None:
    k = TOGETHER
    detector = Pmcod(k, 1.0)
    detector.slide([0.0] * (k + 1) + [0.4] * k + [0.8] * 2 * k)

    detector.slide([1.35], expired=k + 1)  # Those at 0.4 change from the micro-cluster at 0.0 to that at 0.8.

    assert detector.slide([], expired=k) == []


def test_default_when_looked_up_then_is_an_algorithm() -> None:
    assert DEFAULT in ALGORITHMS
    assert "pmcod" in ALGORITHMS


@pytest.mark.parametrize(("k", "r"), [(50, 5.0), (10, 0.5)])
def test_outliers_when_values_are_departure_delays_then_are_those_of_the_sorted_window(
    algorithm: type[OutlierDetector], k: int, r: float
) -> None:
    stream = delays(10_000)
    detector = algorithm(k, r)
    seen = 0
    for end in range(500, len(stream) + 1, 500):
        first = max(end - 2_000, 0)

        found = detector.slide(stream[end - 500 : end], first - detector.expired)

        window = stream[first:end]
        ordered = sorted(window)  # Whole minutes: sums and differences are exact.
        counts = [bisect_right(ordered, x + r) - bisect_left(ordered, x - r) - 1 for x in window]
        expected = [(first + at, window[at], n) for at, n in enumerate(counts) if n < k]
        assert [(one.number, one.value, one.neighbours) for one in found] == expected
        seen += len(found)
    assert 0 < seen < len(stream)
