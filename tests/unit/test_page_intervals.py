"""Estimated answers on the page: values with their interval, and bands that break where a line does."""

from __future__ import annotations

from typing import Any

from running.page_modules import page_result

TEXTS = """async (load, answers) => {
    const { estimate, intervalOf } = await load("intervals");
    return answers.map(values => estimate(values.value, intervalOf(values)));
}"""
NAMES = """async (load, charts) => {
    const { intervalName, intervalOf } = await load("intervals");
    return charts.map(answers => intervalName(answers.map(intervalOf)));
}"""
BAND = """async (load, moments, answers) => {
    const { bandOf, intervalOf } = await load("intervals");
    return bandOf(moments, answers.map(intervalOf));
}"""


def told(value: float, low: float, high: float, **more: Any) -> dict[str, Any]:
    return {"value": value, "low": low, "high": high, **more}


def test_value_when_it_is_an_estimate_then_half_the_width_of_its_interval_is_behind_it() -> None:
    answers = {
        "7.3": {"value": 7.25},
        "–": {},
        "7.3 ± 0.41": told(7.25, 6.8375, 7.6625, confidence=0.95),
        "50,000 ± 1,200": told(50_000, 48_766, 51_234, confidence=0.95),
        "0 ± 0.0042": told(0.0, -0.0042, 0.0042),
        "7 ± 0": told(7, 7, 7),
        "2 (1.5 to 4)": told(2, 1.5, 4),
    }

    assert page_result(TEXTS, [*answers.values()]) == [*answers]


def test_intervals_when_named_then_by_their_confidence() -> None:
    charts = {
        "95 % interval": [told(1, 0, 2, confidence=0.95), {"value": 1}, told(2, 1, 3, confidence=0.95)],
        "90 % or 99.99 % interval": [told(1, 0, 2, confidence=0.9999), told(1, 0, 2, confidence=0.9)],
        "interval": [told(1, 0, 2)],
        "": [{"value": 1}],
    }

    assert page_result(NAMES, [*charts.values()]) == [*charts]


def test_band_when_answers_without_an_interval_are_between_then_has_a_piece_on_each_side() -> None:
    answers = [{"value": 1}, told(2, 1, 3), told(3, 2, 4), {"value": 4}, told(5, 4, 6)]

    band = page_result(BAND, [10, 20, 30, 40, 50], answers)

    assert band == [
        [{"at": 20, "low": 1, "high": 3}, {"at": 30, "low": 2, "high": 4}],
        [{"at": 50, "low": 4, "high": 6}],
    ]
