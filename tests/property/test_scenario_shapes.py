"""Loads of any shape: as many events as planned, in order."""

from __future__ import annotations

from itertools import pairwise, takewhile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from running.example_counts import share_of_examples
from towpath.contracts.scenario_load import SyntheticLoad
from towpath.lab.harness.load_shapes import due_times, planned, rate_at

RATES = st.floats(1, 300)
LOADS = st.one_of(
    st.builds(lambda rate: {"rate": rate}, RATES),
    st.builds(
        lambda shape, rate, peak, period: {"shape": shape, "rate": rate, "peak": peak, "period_s": period},
        st.sampled_from(["ramp", "diurnal"]),
        RATES,
        RATES,
        st.floats(0.5, 30),
    ),
    st.builds(
        lambda rate, peak, period, share: {
            "shape": "burst",
            "rate": rate,
            "peak": peak,
            "period_s": period,
            "burst_s": period * share,
        },
        RATES,
        RATES,
        st.floats(0.5, 30),
        st.floats(0.05, 0.9),
    ),
)


def load_of(content: dict[str, Any]) -> SyntheticLoad:
    return SyntheticLoad.model_validate({"site": "jfk", **content})


@share_of_examples(0.6)
@given(LOADS)
def test_due_times_when_of_any_shape_then_never_go_back_and_are_as_many_as_planned(
    content: dict[str, Any],
) -> None:
    load = load_of(content)
    times = list(takewhile(lambda at: at < 6.0, due_times(lambda: load)))
    assert all(earlier <= later for earlier, later in pairwise(times))
    # Rates jump within a step of the sum where bursts begin and end.
    assert len(times) == pytest.approx(planned(load, 0.0, 6.0), rel=0.05, abs=8)


@share_of_examples(0.6)
@given(LOADS, st.floats(0, 100))
def test_rate_when_of_any_shape_then_lies_between_its_two(content: dict[str, Any], at_s: float) -> None:
    load = load_of(content)
    rates = (load.rate, load.peak or load.rate)
    assert min(rates) - 1e-6 <= rate_at(load, at_s) <= max(rates) + 1e-6
