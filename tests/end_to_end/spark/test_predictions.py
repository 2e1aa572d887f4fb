"""Predictions in an engine's Spark session: state over a restart, a chain, and a class of the user."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from running.engine import Site, assignment
from running.operators import assignment as batch_assignment
from running.operators import computed, messages
from running.promises import promise
from towpath.contracts.errors import TowpathError

pytestmark = pytest.mark.timeout(900)

NUMBERS = [10.0, 12.0, 11.0, 9.0, 10.5, 11.5, 30.0, 29.0, None, 31.0, 10.0, 60.0]
LONG = 2**53 + 1
"""No double holds it."""

PREDICT: dict[str, Any] = {
    "kind": "predict",
    "fields": {"k": "string", "v": "double", "n": "long", "ok": "boolean", "at": "timestamp"},
    "key": ["k"],
    "rolling": {
        "size_events": 3,
        "aggregates": {"mean_of_3": {"function": "avg", "field": "v"}, "seen": {"function": "count"}},
    },
    "model": {"kind": "cusum", "of": "v", "learn_events": 5, "threshold": 8},
}

COUNTER = """
class Counter:
    def __init__(self, start):
        self.seen = start

    def predict(self, values):
        self.seen += 1
        assert values["n"] is None or values["n"] == 2**53 + 1
        return {"statistic": self.seen, "alarm": values["v"] == 30.0, "text": f"{values['k']}{self.seen}"}
"""


def events() -> list[dict[str, Any]]:
    rows = [
        {"k": k, "v": v, "n": None if n % 3 else LONG, "ok": n % 2 == 0, "at": f"2026-01-01T00:00:{n:02}Z"}
        for n, v in enumerate(NUMBERS)
        for k in ("a", "b")
    ]
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


@promise("models")
async def test_job_when_it_restarts_between_micro_batches_then_its_results_are_those_of_one_batch(
    session: SparkSession, site: Site
) -> None:
    expected = computed(batch_assignment(PREDICT), messages(session, *events())).values
    job = assignment(PREDICT, max_events_per_batch=4)

    for begin, end in ((0, 9), (9, 17), (17, 24)):
        await site.put("site.a", *events()[begin:end])
        async with site.running(job):
            results = await site.until(lambda results, end=end: len(results) == end)

    by_serial = sorted(results, key=lambda result: result.serial)
    assert [_timeless(result.values) for result in by_serial] == [_timeless(values) for values in expected]
    alarms = [result.serial for result in by_serial if result.values["state"] == "alarm"]
    assert alarms[:2] == [13, 14]
    assert by_serial[0].values["n"] == LONG


def _timeless(values: dict[str, Any]) -> dict[str, Any]:
    """Without the time at which the site stored an event, which differs."""
    return {name: value for name, value in values.items() if name != "since"}


def test_step_when_it_reads_windows_then_takes_them_in_the_order_of_their_ends(session: SparkSession) -> None:
    rows = [{"k": "a", "v": float(n), "at": f"2026-01-01T00:0{n}:30Z"} for n in range(6)]
    late_first = [rows[1], rows[0], *rows[2:]]
    window = {
        "kind": "window",
        "fields": {"k": "string", "v": "double", "at": "timestamp"},
        "size_s": 60,
        "event_time": "at",
        "watermark_s": 600,
        "key": ["k"],
        "aggregates": {"top": {"function": "max", "field": "v"}},
    }
    watch = {
        "kind": "predict",
        "fields": {"k": "string", "top": "double", "window_end": "timestamp"},
        "key": ["k"],
        "time": "window_end",
        "rolling": {"size_s": 180, "aggregates": {"three": {"function": "sum", "field": "top"}}},
        "model": {"kind": "shewhart", "of": "top", "mean": 0, "deviation": 1, "limit": 4.5},
        "output": "changes",
    }

    outcome = computed(
        batch_assignment({"kind": "chain", "steps": [window, watch]}), messages(session, *late_first)
    )

    found = sorted((result.values for result in outcome.results.values()), key=lambda each: each["top"])
    assert [(each["top"], each["three"], each["state"]) for each in found] == [
        (0.0, 0.0, "normal"),
        (5.0, 12.0, "alarm"),
    ]
    assert all(result.key == {"k": "a"} and result.window for result in outcome.results.values())


def user_model(folder: Path, **changes: Any) -> dict[str, Any]:
    (folder / "own_model.py").write_text(COUNTER)
    model = {
        "kind": "python",
        "entry": "own_model:Counter",
        "artefact": str(folder),
        "parameters": {"start": 100},
        "writes": {"text": "string"},
        **changes,
    }
    return {**PREDICT, "model": model}


async def test_class_of_the_user_when_the_job_restarts_then_its_object_goes_on(
    site: Site, tmp_path: Path
) -> None:
    job = assignment(user_model(tmp_path), max_events_per_batch=4)

    for begin, end in ((0, 13), (13, 24)):
        await site.put("site.a", *events()[begin:end])
        async with site.running(job):
            results = await site.until(lambda results, end=end: len(results) == end)

    last = max(results, key=lambda result: result.serial).values
    assert (last["text"], last["statistic"]) == ("b112", 112.0)
    assert [r.serial for r in results if r.values["state"] == "alarm"] == [13, 14]


def test_class_of_the_user_when_it_cannot_predict_then_the_error_says_so(
    session: SparkSession, tmp_path: Path
) -> None:
    operator = user_model(tmp_path)
    (tmp_path / "own_model.py").write_text("class Counter:\n    pass\n")

    with pytest.raises(TowpathError, match="is no class with a method predict"):
        computed(batch_assignment(operator), messages(session, {"v": 1.0, "k": "a"}))


def test_field_when_the_model_writes_one_of_its_name_then_is_refused(session: SparkSession) -> None:
    operator = {**PREDICT, "fields": {**PREDICT["fields"], "state": "string"}}

    with pytest.raises(TowpathError, match="'state' is a field that the model cusum adds"):
        computed(batch_assignment(operator), messages(session, {"v": 1.0, "k": "a"}))
