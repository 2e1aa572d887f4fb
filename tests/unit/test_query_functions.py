"""The reference computes each function as the tables of docs/query-language.md say, by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest

from towpath.queries.reference_functions import (
    arithmetic,
    correlation,
    geohash,
    of_one_value,
    of_values,
    outliers,
)

CASES = [
    ("AVG", (), [1, 2, 6], 3),
    ("SUM", (), [0.1] * 10, 1.0),
    ("SUM", (), [1e16, 1.0, -1e16], 1.0),
    ("MIN", (), [3, -1, 2], -1),
    ("MAX", (), [3, -1, 2], 3),
    ("COUNT", (), [], 0),
    ("COUNT", (), ["a", "b", "a"], 3),
    ("VARIANCE", (), [2, 4, 4, 4, 5, 5, 7, 9], 32 / 7),
    ("VARIANCE", (), [0.1, 0.1, 0.1], 0),
    ("SDEV", (), [1, 3], math.sqrt(2)),
    ("GEOMETRIC_MEAN", (), [1, 10, 100], 10),
    ("GEOMETRIC_MEAN", (), [1, 0], None),
    ("GEOMETRIC_MEAN", (), [1, -1], None),
    ("PERCENTILE", (50,), [4, 1, 3, 2], 2.5),
    ("PERCENTILE", (0,), [4, 1, 3], 1),
    ("PERCENTILE", (100,), [4, 1, 3], 4),
    ("PERCENTILE", (90,), [0, 10], 9),
    ("MEDIAN", (), [5, 1, 3], 3),
    ("MODE", (), [2, 1, 2, 1, 3], 1),
    ("RUNNING_COUNT", (), [1, 1], 2),
    ("RUNNING_MEAN", (), [1, 2], 1.5),
    ("RUNNING_MIN", (), [2, 1], 1),
    ("RUNNING_MAX", (), [2, 1], 2),
    ("RUNNING_SDEV", (), [1, 3], math.sqrt(2)),
    ("EWMA", (0.25,), [8], 8),
    ("EWMA", (0.25,), [8, 4, 16], 0.25 * 16 + 0.75 * (0.25 * 4 + 0.75 * 8)),
    ("DIFF", (), [1, 5, 3], -2),
    ("VALUE", (), [1, 5, 3], 3),
]


@pytest.mark.parametrize(("function", "parameters", "values", "value"), CASES)
def test_function_when_it_has_values_then_is_computed_as_the_table_says(
    function: str, parameters: tuple[float, ...], values: list[Any], value: float | None
) -> None:
    assert of_values(function, parameters, values) == (
        None if value is None else pytest.approx(value, rel=1e-12)
    )


def test_top_when_values_are_equally_frequent_then_are_in_order() -> None:
    assert of_values("TOP_K", [2], ["b", "c", "a", "c", "b"]) == [
        {"value": "b", "count": 2},
        {"value": "c", "count": 2},
    ]


def test_histogram_when_a_value_is_on_an_edge_then_is_in_the_upper_bin() -> None:
    assert of_values("HISTOGRAM", [2], [0.0, 1.0, 2.0, 4.0, 4.0]) == [
        {"from": 0.0, "to": 2.0, "count": 2},
        {"from": 2.0, "to": 4.0, "count": 3},
    ]


def test_histogram_when_all_values_are_equal_then_has_one_bin() -> None:
    assert of_values("HISTOGRAM", [5], [3.0, 3.0]) == [{"from": 3.0, "to": 3.0, "count": 2}]


def test_correlation_when_values_lie_on_a_line_then_is_one() -> None:
    assert correlation([(1, 3), (2, 5), (4, 9)]) == pytest.approx(1)
    assert correlation([(1, -3), (2, -5), (4, -9)]) == pytest.approx(-1)
    assert correlation([(1, 2), (2, 1), (3, 2)]) == pytest.approx(0)


@pytest.mark.parametrize("pairs", [[], [(1, 2)], [(1, 2), (1, 3)], [(1, 2), (3, 2)], [(0.1, 1)] * 3])
def test_correlation_when_values_do_not_differ_then_has_no_value(pairs: list[tuple[float, float]]) -> None:
    assert correlation(pairs) is None


def test_outlier_when_neighbours_are_counted_then_a_distance_of_exactly_r_counts_and_itself_does_not() -> (
    None
):
    values = [(1, 1.0), (2, 1.5), (3, 2.0), (4, 9.0)]

    assert outliers(values, 2, 0.5) == [
        {"time": 1, "value": 1.0, "neighbours": 1},
        {"time": 3, "value": 2.0, "neighbours": 1},
        {"time": 4, "value": 9.0, "neighbours": 0},
    ]
    assert outliers(values, 0, 0.5) == []


def test_pewma_when_in_training_then_is_the_mean_and_afterwards_an_improbable_value_moves_it_little() -> None:
    trained = [float(n % 2) for n in range(30)]

    assert of_values("PEWMA", [0.9], trained) == pytest.approx(0.5)
    # The mean is 0.5 and the variance 0.25, so 1.0 is at z = 1 with density 0.24197, and 9.0 at z = 17.
    assert of_values("PEWMA", [0.9], [*trained, 1.0]) == pytest.approx(
        0.5 + 0.5 * (1 - 0.9 * (1 - 0.2419707))
    )
    assert of_values("PEWMA", [0.9], [*trained, 9.0]) == pytest.approx(0.5 + 8.5 * 0.1)


def test_pewma_when_all_values_were_equal_then_another_one_is_improbable() -> None:
    assert of_values("PEWMA", [0.9], [4.0] * 40) == pytest.approx(4)
    assert of_values("PEWMA", [0.9], [*[4.0] * 40, 5.0]) == pytest.approx(4.1)


@pytest.mark.parametrize(
    ("function", "values"),
    [
        ("SUM", [1.7e308, 1.7e308]),
        ("SUM", [1e308, 1e308, -1e308]),
        ("AVG", [1.7e308, 1.7e308]),
        ("VARIANCE", [-1e300, 1e300]),
        ("DIFF", [-1e308, 1e308]),
        ("HISTOGRAM", [-1e308, 1e308]),
    ],
)
def test_function_when_its_value_or_a_sum_is_beyond_the_range_of_numbers_then_has_none(
    function: str, values: list[float]
) -> None:
    assert of_values(function, [3] if function == "HISTOGRAM" else [], values) is None


@pytest.mark.parametrize(
    ("left", "operator", "right", "value"),
    [
        (1, "/", 0, None),
        (1, "%", 0, None),
        (None, "+", 1, None),
        (1, "-", None, None),
        (1e308, "*", 10, None),
        (1e308, "+", 1e308, None),
        (7.5, "%", 2, 1.5),
        (-7.5, "%", 2, -1.5),
        (7.5, "%", -2, 1.5),
        (1, "/", 4, 0.25),
    ],
)
def test_arithmetic_when_computed_then_is_of_double_precision_or_has_no_value(
    left: float | None, operator: str, right: float | None, value: float | None
) -> None:
    assert arithmetic(operator, left, right) == value


@pytest.mark.parametrize(
    ("function", "given", "value"),
    [("ABS", -2.0, 2.0), ("SQR", -3.0, 9.0), ("SQR", 1e200, None), ("SQRT", 9.0, 3.0), ("SQRT", -1.0, None)],
)
def test_function_of_one_value_when_computed_then_may_have_none(
    function: str, given: float, value: float | None
) -> None:
    assert of_one_value(function, given) == value
    assert of_one_value(function, None) is None


@pytest.mark.parametrize(
    ("latitude", "longitude", "square"),
    [(57.64911, 10.40744, "u4pruydqqvj"), (-25.382708, -49.265506, "6gkzwgjzn82"), (42.605, -5.603, "ezs42"),
     (0.0, 0.0, "s0000"), (90.0, 180.0, "zzzzz"), (-90.0, -180.0, "00000")],
)  # fmt: skip
def test_geohash_when_computed_then_is_the_published_one(
    latitude: float, longitude: float, square: str
) -> None:
    assert geohash(latitude, longitude, len(square)) == square
