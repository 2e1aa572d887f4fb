"""Results of a key depend on its events alone: not on micro-batches, nor on saved state."""

from __future__ import annotations

import itertools
import math
import pickle
import random
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from running.predictions import model, operator, results
from towpath.prediction.groups import NUMBER, KeyGroups
from towpath.prediction.packing import PACKED, Packing, unpacked
from towpath.prediction.plan import Plan
from towpath.prediction.registry import KINDS

ROLLING = {
    "size_s": 7,
    "aggregates": {
        "mean_7_s": {"function": "avg", "field": "v"},
        "spread": {"function": "stddev", "field": "v"},
        "seen": {"function": "count"},
    },
}
LEARN = {"learn_events": 5}
MODELS: dict[str, dict[str, Any]] = {
    "cusum": {**LEARN, "threshold": 3, "head_start": 0.3},
    "shewhart": {**LEARN, "limit": 1.5, "of": "mean_7_s"},
    "ewma": {**LEARN, "limit": 1.2, "side": "upper"},
    "page_hinkley": {**LEARN, "threshold": 4},
    "adwin": {**LEARN, "every_events": 4, "confidence": 0.3},
    "kswin": {"window_events": 12, "recent_events": 4, "significance": 0.2},
    "flat_wheel": {"speed": "speed", "angles": 8, "turns": 3, "crest_factor": 1.5},
    "python": {
        "entry": "own:Model",
        "threshold": 8.0,
        "writes": {"half": "double"},
        "parameters": {"start": 3},
    },
}


class Model:
    """A class of the user: counts, and keeps the largest number."""

    def __init__(self, start: int) -> None:
        self.seen, self.largest = start, -math.inf

    def predict(self, values: dict[str, Any]) -> dict[str, Any]:
        self.seen += 1
        self.largest = max(self.largest, values["v"] if values["v"] is not None else -math.inf)
        return {"statistic": self.largest + self.seen, "half": values["mean_7_s"]}


def plan(kind: str, **changes: Any) -> Plan:
    body = {**model(kind), **MODELS[kind]}
    if kind == "python":
        del body["of"]
    return Plan.of(operator(body, rolling=ROLLING, **changes), Model)


def rows(seed: int, count: int) -> list[tuple[float, float, float]]:
    """Number, speed and seconds: noise with a shift, gaps, and times that now and then go back."""
    chance = random.Random(seed)
    made, second = [], 0.0
    for n in range(count):
        second += chance.choice([0.25, 0.5, 0.5, -0.5] * 12 + [1.5])
        value = math.nan if chance.random() < 0.1 else chance.gauss(0, 1) + (4 if n > count / 2 else 0)
        made.append((value, chance.uniform(1, 4), 100 + second))
    return made


def test_models_when_listed_then_are_all_of_them() -> None:
    assert sorted(MODELS) == sorted(KINDS.by_name())


@pytest.mark.parametrize("kind", sorted(MODELS))
@settings(max_examples=15)
@given(
    seed=st.integers(0, 10**6),
    count=st.integers(1, 120),
    cuts=st.lists(st.integers(1, 119)),
    output=st.sampled_from(["each", "alarms", "changes"]),
    above=st.sampled_from([None, 1.0]),
)
def test_results_when_cut_anywhere_then_are_the_same_in_every_digit(
    kind: str, seed: int, count: int, cuts: list[int], output: str, above: float | None
) -> None:
    computing = plan(kind, output=output, above=above)
    events = rows(seed, count)

    cut = results(computing, events, [each for each in cuts if each < count])

    assert cut == results(computing, events)


@pytest.mark.parametrize("kind", sorted(MODELS))
def test_results_when_there_are_enough_events_then_some_are_alarms(kind: str) -> None:
    events = rows(1, 400)

    each = results(plan(kind), events)

    assert [one["serial"] for one in each] == [*range(1, 401)]
    found = [one["serial"] for one in each if one["state"] == "alarm"]
    assert found
    assert [one["serial"] for one in results(plan(kind, output="alarms"), events)] == found


class State:
    """The state of a key, as Spark keeps it."""

    def __init__(self) -> None:
        self.value: tuple[Any, ...] = ()

    @property
    def exists(self) -> bool:
        return bool(self.value)

    @property
    def get(self) -> tuple[Any, ...]:
        return self.value

    def update(self, newValue: tuple[Any, ...]) -> None:
        self.value = newValue


@given(seed=st.integers(0, 10**6), count=st.integers(1, 60), cuts=st.lists(st.integers(1, 59), max_size=5))
@settings(max_examples=25)
def test_frames_when_a_micro_batch_has_its_events_in_any_order_then_results_are_the_same(
    seed: int, count: int, cuts: list[int]
) -> None:
    computing = plan("cusum")
    made = rows(seed, count)
    rows_of_key = pa.table(
        {
            "serial": np.arange(count) * 3 + 1,
            "at": pa.array([int(second * 1e6) for _, _, second in made], pa.timestamp("us")),
            f"{NUMBER}v": [value for value, _, _ in made],
            "v": [None if math.isnan(value) else value for value, _, _ in made],
            "key": [f"sensor {seed % 2}"] * count,
        }
    )
    written = {"mean_7_s": "double", "state": "string", "upper_sum": "double", "since_serial": "long"}
    # The function travels to workers.
    groups = pickle.loads(
        pickle.dumps(KeyGroups(computing, "at", ["v"], written, "values", {"serial": "serial"}))
    )
    whole = unpacked(groups.whole((), _by_key(rows_of_key))[PACKED])

    state, parts = State(), []
    bounds = sorted({0, count, *(cut for cut in cuts if cut < count)})
    for begin, end in itertools.pairwise(bounds):
        order = np.random.default_rng(seed).permutation(end - begin)
        shuffled = rows_of_key.slice(begin, end - begin).take(order)
        middle = (end - begin) // 2
        frames = [_by_key(shuffled.slice(0, middle)), _by_key(shuffled.slice(middle))]
        parts += [*groups.stateful((), iter(frames), state)]

    assert unpacked([value for frame in parts for value in frame[PACKED]]).to_pylist() == whole.to_pylist()
    assert whole["serial"].to_pylist() == rows_of_key["serial"].to_pylist()


def _by_key(rows_of_key: pa.Table) -> pd.DataFrame:
    packing = Packing(["key"])
    batches = [*packing.by_key(rows_of_key.to_batches())]
    return pd.DataFrame({PACKED: [value for batch in batches for value in batch.column(PACKED).to_pylist()]})


def test_rows_when_packed_then_each_key_has_its_own_in_their_order() -> None:
    keys = ["b", "a", None, "b", "a", "b"]
    batch = pa.record_batch({"key": keys, "number": [1.5, None, 2.0, 2.0, 1.5, 1.5], "n": [*range(6)]})

    (made,) = Packing(["key", "number"]).by_key([batch, batch.slice(6)])

    found = {
        (key, number): unpacked([value])["n"].to_pylist()
        for key, number, value in zip(*made.to_pydict().values(), strict=True)
    }
    assert found == {("a", None): [1], ("a", 1.5): [4], ("b", 1.5): [0, 5], ("b", 2.0): [3], (None, 2.0): [2]}
