"""Rolling aggregates are those of the events in their windows, however micro-batches cut them."""

from __future__ import annotations

import itertools
import math
import statistics
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.contracts.prediction import Rolling
from towpath.prediction.rolling import RollingWindow

FUNCTIONS = ("count", "sum", "avg", "min", "max", "stddev", "rms")
AGGREGATES = {name: {"function": name, "field": "x"} for name in FUNCTIONS} | {"all": {"function": "count"}}

numbers = st.one_of(st.just(math.nan), st.integers(-1000, 1000).map(lambda n: n / 8))
events = st.lists(st.tuples(st.integers(-3, 10), numbers), min_size=1, max_size=80)
sizes = st.one_of(
    st.builds(lambda n: {"size_events": n}, st.integers(1, 20)),
    st.builds(lambda s, n: {"size_s": s, "max_events": n}, st.integers(1, 30), st.integers(1, 20)),
)


def of(size: dict[str, Any]) -> RollingWindow:
    return RollingWindow(Rolling.model_validate({**size, "aggregates": AGGREGATES}))


def added(window: RollingWindow, times: list[int], values: list[float]) -> dict[str, np.ndarray]:
    micros = np.array(times, np.int64) * 1_000_000
    return window.add(micros, {"x": np.array(values, np.float64)})


def obvious(size: dict[str, Any], times: list[int], values: list[float]) -> list[dict[str, float]]:
    """Each window as a list, aggregated by the standard library."""
    clock = [max(times[: n + 1]) for n in range(len(times))]
    found = []
    for n in range(len(times)):
        inside = [m for m in range(n + 1) if "size_s" not in size or clock[m] > clock[n] - size["size_s"]]
        inside = inside[-size.get("size_events", size.get("max_events", 0)) :]
        x = [values[m] for m in inside if not math.isnan(values[m])]
        found.append(
            {
                "all": len(inside),
                "count": len(x),
                "sum": math.fsum(x) if x else math.nan,
                "avg": statistics.fmean(x) if x else math.nan,
                "min": min(x, default=math.nan),
                "max": max(x, default=math.nan),
                "stddev": statistics.stdev(x) if len(x) > 1 else math.nan,
                "rms": math.sqrt(math.fsum(v * v for v in x) / len(x)) if x else math.nan,
            }
        )
    return found


@given(size=sizes, steps=events, cuts=st.lists(st.integers(0, 80)))
def test_aggregates_when_cut_anywhere_then_are_those_of_the_events_in_the_window(
    size: dict[str, Any], steps: list[tuple[int, float]], cuts: list[int]
) -> None:
    times = list(np.cumsum([step for step, _ in steps]))
    values = [value for _, value in steps]
    whole = added(of(size), times, values)

    bounds = sorted({0, len(steps), *(cut for cut in cuts if cut < len(steps))})
    window, parts = of(size), []
    for begin, end in itertools.pairwise(bounds):
        parts.append(added(window, times[begin:end], values[begin:end]))
        saved, window = window.saved(), of(size)
        window.restore(saved)

    expected = obvious(size, times, values)
    for name in AGGREGATES:
        assert whole[name] == pytest.approx([one[name] for one in expected], nan_ok=True, abs=1e-9)
        # The same in every bit.
        assert np.concatenate([part[name] for part in parts]).tobytes() == whole[name].tobytes()


def test_sum_when_a_huge_number_has_left_the_window_then_nothing_of_it_remains() -> None:
    values = [0.1, 1e300, 0.25, 0.5]

    found = added(of({"size_events": 2}), [1, 2, 3, 4], values)

    assert found["sum"][-1] == 0.75
    assert found["stddev"][-1] == statistics.stdev([0.25, 0.5])
