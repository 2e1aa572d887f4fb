"""Stored values: what it costs to take them in, and how soon they answer: one store, then three sites.

    .venv/bin/python tests/bench/stored_values.py [--quick]

A store first takes in the values of 20,000 series, as events of `site/metrics` bring them, 20 in each. Then
it is asked.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmark import Benchmark, Say, Scale
from figures import Case, Measured, Target, Value, rounded
from measured_mesh import MeasuredMesh
from values_over_sites import cases_over_sites

from towpath.contracts.storage import StorageSpec, ValueSelection, Wanted
from towpath.stored_values.event_values import values_of_metrics
from towpath.stored_values.stored_value import StoredValue
from towpath.stored_values.value_store import MEBIBYTE, ValueStore

ENTITIES, METRICS = 1_000, 20
ROUNDS = 20
"""Values of each series."""
QUESTIONS = 21

DAY_S, EVERY_S = 86_400, 2
"""A day of one metric, in the interval in which sites measure themselves."""

TAKEN, COST = "values/s of one core", "µs a value"
MEDIAN = "ms, median"
REGION_MB = 256


def events(number: int, at: float) -> list[bytes]:
    """Return an event of each entity."""
    moment = datetime.fromtimestamp(at + number, UTC).isoformat()
    return [
        json.dumps(
            {"entityType": "POD", "podName": f"pod{entity}", "time": moment}
            | {f"metric{metric}": 1.5 * entity + number for metric in range(METRICS)}
        ).encode()
        for entity in range(ENTITIES)
    ]


async def measure(mesh: MeasuredMesh | None, scale: Scale, say: Say, measured: Measured) -> None:
    """Fill a store, and ask it."""
    rounds = 4 if scale is Scale.QUICK else ROUNDS
    now = time.time()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "values.db"
        with closing(ValueStore("jfk", path, StorageSpec(disk_mb=4_000))) as store:
            day = [StoredValue("node:jfk", "cpu", now - DAY_S + at, 1.0) for at in range(0, DAY_S, EVERY_S)]
            store.add(day)
            say(f"take in {rounds * ENTITIES * METRICS:,} values")
            measured.cases.append(_taken(store, rounds, now))
            say("ask")
            measured.cases += _asked(store, now, QUESTIONS if scale is not Scale.QUICK else 5)
        measured.cases.append(_kept(path, len(day) + rounds * ENTITIES * METRICS))
    measured.cases += await cases_over_sites(say, QUESTIONS if scale is Scale.QUICK else 10 * QUESTIONS)


def _taken(store: ValueStore, rounds: int, now: float) -> Case:
    spent = 0.0
    for number in range(rounds):
        came = events(number, now)
        begun = time.process_time()
        store.add([value for event in came for value in values_of_metrics(event, now)], {"METRICS": number})
        spent += time.process_time() - begun
    each = spent / (rounds * ENTITIES * METRICS)
    figures: dict[str, Value] = {COST: rounded(1e6 * each), TAKEN: rounded(1 / each)}
    return Case("from the event into the file", figures, {TAKEN: Target(at_least=20_000)})


def _asked(store: ValueStore, now: float, times: int) -> list[Case]:
    day = {"metrics": ["cpu"], "since": datetime.fromtimestamp(now - DAY_S - 1, UTC), "limit": 100_000}

    def case(name: str, target: float | None, **selection: Any) -> Case:
        asked = ValueSelection(**selection)
        figures: dict[str, Value] = {
            MEDIAN: rounded(_median_ms(lambda: store.read(asked).model_dump_json(), times))
        }
        return Case(name, figures, {} if target is None else {MEDIAN: Target(at_most=target)})

    one = {"metrics": ["metric7"], "entities": ["pod:pod7"]}
    return [
        case("newest value of one series", 2.0, **one),
        case("newest values of 1,000 series, by a pattern", None, metrics=["metric7*"]),
        case("a day of one metric, every 2 s", 50.0, wanted=Wanted.RANGE, entities=["node:jfk"], **day),
        case("its aggregate", None, wanted=Wanted.AGGREGATE, entities=["node:jfk"], **day),
        case("aggregate of all", None, wanted=Wanted.AGGREGATE),
    ]


def _median_ms(ask: Callable[[], object], times: int) -> float:
    taken = []
    for _ in range(times):
        begun = time.perf_counter()
        ask()
        taken.append(1000 * (time.perf_counter() - begun))
    return statistics.median(taken)


def _kept(path: Path, values: int) -> Case:
    size = path.stat().st_size
    figures: dict[str, Value] = {
        "bytes a value": rounded(size / values),
        f"values in {REGION_MB} MB": round(REGION_MB * MEBIBYTE * values / size),
    }
    return Case("on disk", figures, {f"values in {REGION_MB} MB": Target(at_least=427_000)})


BENCHMARK = Benchmark(
    name="stored-values",
    title="Stored values of a site: taking them in, and asking",
    sites=(),
    measure=measure,
    on_request=True,
)

if __name__ == "__main__":
    import run

    sys.exit(run.main(["--only", BENCHMARK.name, *sys.argv[1:]]))
