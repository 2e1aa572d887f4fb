"""Measure the events per second of one core in the function that Spark calls for a prediction.

Without Spark: frames as Spark's workers make them, with state that is saved and read for each micro-batch.

    nice -n 10 .venv/bin/python tests/bench/predictions.py
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1]))

from running.predictions import model, operator
from towpath.operators.kinds.predict import written
from towpath.prediction.groups import NUMBER, KeyGroups
from towpath.prediction.packing import PACKED, packed
from towpath.prediction.plan import Plan

ROLLING = {
    "size_s": 5,
    "aggregates": {
        name: {"function": name if name != "mean" else "avg", "field": "v"}
        for name in ("mean", "stddev", "min", "max", "rms", "count")
    },
}
MODELS: dict[str, dict[str, Any]] = {
    "cusum": {},
    "shewhart": {},
    "ewma": {},
    "page_hinkley": {},
    "adwin": {},
    "kswin": {},
    "flat_wheel": {"speed": "speed", "sample_rate_hz": 2000},
}


class State:
    """A key's state between micro-batches."""

    value: tuple[Any, ...] = ()

    @property
    def exists(self) -> bool:
        return bool(self.value)

    @property
    def get(self) -> tuple[Any, ...]:
        return self.value

    def update(self, newValue: tuple[Any, ...]) -> None:
        self.value = newValue


def rate(kind: str, keys: int, events: int, batches: int, *, rolls: bool) -> tuple[float, int]:
    """Return events per second of CPU, and bytes of a key's state. `events` are those of a key and batch."""
    rolling = {**ROLLING, "aggregates": {f"r_{n}": a for n, a in ROLLING["aggregates"].items()}}
    predict = operator({**model(kind), **MODELS[kind]}, rolling=rolling if rolls else None)
    types = {name: str(kind) for name, kind in written(predict).items()}
    carried = {"serial": "serial", "stored_at": "stored_at"}
    groups = KeyGroups(Plan.of(predict), "stored_at", ["v", "name"], types, "values", carried)
    chance = np.random.default_rng(0)
    states = [State() for _ in range(keys)]
    frames = [
        pa.table(
            {
                "serial": np.arange(events) + batch * events,
                "stored_at": ((np.arange(events) + batch * events) * 1e6 / events).astype("datetime64[us]"),
                f"{NUMBER}v": chance.normal(size=events),
                f"{NUMBER}speed": np.full(events, 20.0),
                "name": ["a wheel"] * events,
                "v": chance.normal(size=events),
            }
        )
        for batch in range(batches)
    ]
    began = time.process_time()
    for rows in frames:
        frame = pd.DataFrame({PACKED: [packed(rows)]})
        for state in states:
            for _ in groups.stateful((), iter([frame]), state):
                pass
    return keys * events * batches / (time.process_time() - began), len(states[0].value[0])


def main() -> None:
    """Print a line for each model: seven keys at 14,000 events/s; then many keys with an event each."""
    print(f"{'model':14}{'window':>8}{'keys':>8}{'events':>8}{'events/s':>12}{'state, bytes':>14}")
    for kind in MODELS:
        for rolls in (False, True):
            found, size = rate(kind, keys=7, events=2000, batches=6, rolls=rolls)
            print(f"{kind:14}{'5 s' if rolls else '-':>8}{7:8}{2000:8}{found:12,.0f}{size:14,}")
    for events in (1, 20):
        found, size = rate("cusum", keys=500, events=events, batches=4, rolls=True)
        print(f"{'cusum':14}{'5 s':>8}{500:8}{events:8}{found:12,.0f}{size:14,}")


if __name__ == "__main__":
    main()
