"""The results of each operator on a real Spark session."""

from __future__ import annotations

import json
import math
import random
import re
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from running.operators import (
    DEVICE,
    SCHEMA,
    START,
    STREAM,
    UPSTREAM,
    Outcome,
    assignment,
    compiled,
    message,
    messages,
    run,
    stream,
)
from running.promises import promise
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import Assignment
from towpath.operators.rejections import observed
from towpath.streams.encoding import Message, MessageEncoder

pytestmark = promise("operators")


def test_forward_of_a_device_event_when_numbers_are_long_then_its_text_is_in_the_result_unchanged(
    session: SparkSession,
) -> None:
    event = (
        '{"big":123456789012345678901234567890,"fine":0.12345678901234567890,"e":1e400,"o":{"z":[1.10,null]}}'
    )

    outcome = run({"kind": "forward"}, messages(session, f" {event}\n"))

    assert outcome.bodies == {
        f"job/{STREAM}/1": '{"job":"job","site":"cloud","epoch":3,"serial":1,'
        f'"stored_at":"2026-01-01T00:00:01.000Z","count":1,"values":{event}}}'
    }


def test_forward_of_a_result_when_it_has_window_and_key_then_they_and_the_count_stay(
    session: SparkSession,
) -> None:
    upstream = (
        '{"job":"up","site":"s","epoch":1,"serial":7,"stored_at":"2026-01-01T00:00:00.000Z",'
        '"window":{"start":"2026-01-01T00:00:00.000Z","end":"2026-01-01T01:00:00.000Z"},"count":12,'
        '"key":{"values":"a,\\"values\\":{"},"values":{"fine":0.12345678901234567890,"n":{"m":1.10}}}'
    )

    outcome = run(
        {"kind": "merge"}, messages(session, upstream), messages(session, {"a": 1}), names=(UPSTREAM, DEVICE)
    )

    passed = outcome.results[f"job/{stream(UPSTREAM)}/1"]
    assert (passed.input, passed.serial, passed.count, passed.key) == (
        UPSTREAM,
        1,
        12,
        {"values": 'a,"values":{'},
    )
    assert passed.window is not None
    assert passed.window.end == START + timedelta(hours=1)
    assert outcome.bodies[f"job/{stream(UPSTREAM)}/1"].endswith(
        '"values":{"fine":0.12345678901234567890,"n":{"m":1.10}}}'
    )
    assert outcome.results[f"job/{STREAM}/1"].values == {"a": 1}


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("long", [1, -5, 9223372036854775807], ["1.0", "9223372036854775808", '"1"', "true", "[]", "1e2"]),
        ("double", [1, 1.5, -1e300], ['"1.5"', '"NaN"', "1e400", "false", "{}"]),
        ("string", ["x", "5", "true", "{}", "[1]", ""], ["5", "-1.5e3", "true", '{"a":1}', "[1]"]),
        ("boolean", [True, False], ["1", '"true"', '""']),
        (
            "timestamp",
            ["2026-01-01T00:00:00Z", "2026-01-01 02:00:00+02:00"],
            ["1767225600", '"12:30"', '"soon"', '""'],
        ),
    ],
)
def test_filter_when_a_field_has_another_type_than_declared_then_the_reason_names_field_and_value(
    session: SparkSession, kind: str, good: list[Any], bad: list[str]
) -> None:
    source = messages(
        session, *({"f": value} for value in good), {}, {"f": None}, *(f'{{"f": {v}}}' for v in bad)
    )

    outcome = run({"kind": "filter", "fields": {"f": kind}, "where": "true"}, source)

    if kind != "timestamp":
        assert outcome.values == [*({"f": value} for value in good), {}, {}]
    else:
        assert outcome.values == [*[{"f": "2026-01-01T00:00:00.000Z"}] * len(good), {}, {}]
    assert len(outcome.reasons) == len(bad)
    assert all(r.startswith("field 'f': expected ") for r in outcome.reasons)


def test_filter_when_its_input_is_a_job_then_fields_come_from_values_key_and_envelope(
    session: SparkSession,
) -> None:
    envelope = {
        "values": {"mean": 2.5},
        "key": {"carrier": "AA"},
        "count": 4,
        "window": {"start": "2026-01-01T00:00:00.000Z", "end": "2026-01-01T01:00:00.000Z"},
    }
    fields = {"mean": "double", "carrier": "string", "count": "long", "window_end": "timestamp"}
    where = "carrier = 'AA' and count = 4 and window_end = timestamp'2026-01-01 01:00:00'"
    source = messages(session, envelope, {**envelope, "values": {"mean": "x"}}, {"mean": 1.0})

    outcome = run({"kind": "filter", "fields": fields, "where": where}, source, names=(UPSTREAM,))

    assert outcome.values == [
        {"mean": 2.5, "carrier": "AA", "count": 4, "window_end": "2026-01-01T01:00:00.000Z"}
    ]
    assert outcome.reasons == [
        "field 'mean': expected a finite number, got \"x\"",
        "field 'values': expected an object, as in every job's result",
    ]


def test_filter_when_the_condition_is_false_or_null_then_the_event_is_dropped_not_rejected(
    session: SparkSession,
) -> None:
    outcome = run(
        {"kind": "filter", "fields": {"a": "long"}, "where": "a > 1"},
        messages(session, {"a": 1}, {}, {"a": 2}),
    )

    assert outcome.ids == {f"job/{STREAM}/3"}


def test_map_when_expressions_are_computed_then_only_they_are_the_values(session: SparkSession) -> None:
    select = {"twice": "a * 2", "named": "named_struct('x', upper(s))", "gone": "nullif(a, a)"}
    operator = {"kind": "map", "fields": {"a": "long", "s": "string"}, "select": select}

    outcome = run(operator, messages(session, {"a": 4, "s": 'q"é'}))

    assert outcome.values == [{"twice": 8, "named": {"x": 'Q"É'}}]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("nope + 1", ErrorCode.SCHEMA_MISMATCH),
        ("struct(*)", ErrorCode.NOT_ALLOWED),
        ("a +", ErrorCode.SCHEMA_MISMATCH),
        ("upper(a, a)", ErrorCode.SCHEMA_MISMATCH),
    ],
)
def test_map_when_an_expression_is_no_function_of_one_event_then_the_error_names_it(
    session: SparkSession, text: str, code: ErrorCode
) -> None:
    operator = {"kind": "map", "fields": {"a": "long"}, "select": {"ok": "a", "bad": text}}

    with pytest.raises(TowpathError) as raised:
        run(operator, messages(session))

    assert raised.value.detail.code is code
    assert raised.value.detail.field == "operator.select.bad"


def test_clean_when_rules_are_broken_then_the_reason_names_field_value_and_rule(
    session: SparkSession,
) -> None:
    rules = {
        "id": {"type": "string", "pattern": "[a-z]+|x"},
        "n": {"type": "long", "minimum": 0, "maximum": 9, "required": False},
        "c": {"type": "string", "one_of": ["AA", "UA"], "required": False},
    }
    source = messages(
        session, {"id": "a"}, {"n": 1}, {"id": None}, {"id": "A"}, {"id": "a1"}, {"id": "a", "n": -1},
        {"id": "a", "n": 10}, {"id": "a", "c": "B6"}, {"id": 5},
    )  # fmt: skip

    outcome = run({"kind": "clean", "fields": rules}, source)

    assert outcome.values == [{"id": "a"}]
    assert outcome.reasons == [
        "field 'id': required, but missing or null",
        "field 'id': required, but missing or null",
        "field 'id': A does not match the pattern [a-z]+|x",
        "field 'id': a1 does not match the pattern [a-z]+|x",
        "field 'n': -1 is below the minimum 0",
        "field 'n': 10 is above the maximum 9",
        "field 'c': B6 is not one of AA, UA",
        "field 'id': expected a string, got 5",
    ]


def test_clean_when_it_has_an_identity_then_ids_come_from_it_and_fit_a_header(session: SparkSession) -> None:
    rules = {"id": {"type": "string", "required": False}, "n": {"type": "long"}}
    source = messages(session, {"id": "a", "n": 1}, {"n": 1}, {"id": "é", "n": 1}, {"id": "x" * 300, "n": 1})

    outcome = run({"kind": "clean", "fields": rules, "identity": ["id", "n"]}, source)

    hashed = outcome.ids - {'job/["a",1]', f"job/{STREAM}/2"}
    assert len(hashed) == 2
    assert all(len(i) < 200 and i.isascii() for i in hashed)


def window(**more: Any) -> dict[str, Any]:
    operator = {
        "kind": "window",
        "fields": {"k": "string", "v": "double", "n": "long", "at": "timestamp"},
        "event_time": "at",
        "size_s": 10,
        "watermark_s": 2,
        "key": ["k"],
        "aggregates": {"total": {"function": "sum", "field": "v"}},
    }
    return {name: value for name, value in {**operator, **more}.items() if value is not None}


def at(second: float, k: str | None = "x", **more: Any) -> dict[str, Any]:
    return {"at": (START + timedelta(seconds=second)).isoformat(), "k": k, **more}


ALL_AGGREGATES = {
    "events": {"function": "count"},
    "present": {"function": "count", "field": "v"},
    "sum": {"function": "sum", "field": "v"},
    "avg": {"function": "avg", "field": "v"},
    "min": {"function": "min", "field": "v"},
    "max": {"function": "max", "field": "v"},
    "stddev": {"function": "stddev", "field": "v"},
    "median": {"function": "percentile", "field": "v", "q": 0.5},
    "different": {"function": "distinct", "field": "v"},
    "large": {"function": "sum", "field": "n"},
}


def test_window_when_all_aggregates_are_asked_then_they_are_right_and_nulls_do_not_count(
    session: SparkSession,
) -> None:
    largest = 2**63 - 1
    source = messages(
        session, at(1, v=1.0, n=largest), at(2, v=2.0, n=largest), at(3, v=4.0), at(4, v=4.0), at(5),
        at(6, k=None, v=1.0), {"k": "x"}, at(11, k="y"),
    )  # fmt: skip

    outcome = run(window(aggregates=ALL_AGGREGATES), source)

    first, second = outcome.results.values()
    assert first.values == {
        "events": 5, "present": 4, "sum": 11.0, "avg": 2.75, "min": 1.0, "max": 4.0,
        "stddev": 1.5, "median": 3.0, "different": 3, "large": 2 * largest,
    }  # fmt: skip
    assert (first.key, first.count, first.serial, first.stored_at) == (
        {"k": "x"},
        5,
        5,
        START + timedelta(seconds=5),
    )
    assert second.values == {"events": 1, "present": 0, "different": 0}
    assert 'job/1767225600000/1767225610000/{"k":"x"}' in outcome.ids
    assert outcome.reasons == ["field 'k': missing or null", "field 'at': missing or null"]


@pytest.mark.parametrize("names", [["low", "high"], ["high", "low"], ["low"], ["events"]])
def test_window_when_results_use_aggregates_in_any_order_then_its_state_has_one_layout(
    session: SparkSession, names: list[str]
) -> None:
    functions = {"events": {"function": "count"}, "high": {"function": "max", "field": "v"},
                 "low": {"function": "min", "field": "n"}}  # fmt: skip
    plan = compiled(assignment(window(aggregates={n: functions[n] for n in names})), messages(session))

    optimised = plan._jdf.queryExecution().optimizedPlan().toString()  # type: ignore[operator]

    (aggregate,) = (line for line in optimised.splitlines() if "Aggregate [" in line)
    kept = re.findall(r" AS (serial|stored_at|count|max v|min n)#", aggregate)
    assert kept == ["serial", "stored_at", "count", *(n for n in ("max v", "min n") if n in kept)]


def test_window_sums_when_events_come_in_any_order_then_every_digit_is_equal(session: SparkSession) -> None:
    generator = random.Random(7)
    numbers = [generator.choice([1e-12, 1.0, 1e9, 1e17]) * generator.uniform(-1, 1) for _ in range(400)]
    rows = [at(1, v=number) for number in numbers]
    kept = {name: ALL_AGGREGATES[name] for name in ("sum", "avg", "stddev")}
    found = set()

    for _ in range(4):
        generator.shuffle(rows)
        source = messages(session, *rows).repartition(3, "serial")
        found.add(json.dumps(run(window(aggregates=kept), source).values))

    assert len(found) == 1
    assert json.loads(found.pop())[0]["sum"] == pytest.approx(math.fsum(numbers), rel=1e-15)


def test_window_when_sliding_or_session_then_bounds_are_those_of_the_shape(session: SparkSession) -> None:
    source = messages(session, at(1, v=1), at(4, v=1), at(30, v=1))
    sliding = run(window(shape="sliding", size_s=10, slide_s=5), source)
    session = run(window(shape="session", size_s=None, gap_s=5, key=None), source)

    assert len(sliding.results) == 4
    assert sorted(
        (r.count, r.window and (r.window.start - START).seconds) for r in session.results.values()
    ) == [
        (1, 30),
        (2, 1),
    ]
    assert all(r.key is None for r in session.results.values())


def test_window_when_it_has_several_inputs_then_the_result_has_the_largest_serial_and_names_none(
    session: SparkSession,
) -> None:
    left = messages(session, message(5, at(1, v=1), 50), message(6, at(2, v=1), 60))
    right = messages(session, message(90, at(3, v=1), 55), message(91, at(11, v=1), 56))

    outcome = run(window(), left, right, names=("ewr/site/a", "jfk/site/a"))

    first, second = sorted(outcome.results.values(), key=lambda r: r.window and r.window.start)  # type: ignore
    assert (first.input, first.serial, first.stored_at) == (None, 90, START + timedelta(seconds=60))
    assert (second.input, second.serial, second.count) == (None, 91, 1)


PYTHON_FIELDS = {"v": "long"}


def python_job(folder: Path, code: str, **more: Any) -> dict[str, Any]:
    folder.mkdir(exist_ok=True)
    (folder / "own_code.py").write_text(code)
    return {
        "kind": "python",
        "fields": PYTHON_FIELDS,
        "entry": "own_code:run",
        "artefact": str(folder),
        **more,
    }


USER_CODE = """
from pyspark.sql import functions as F

def scaled(v):
    return v * FACTOR

def run(events, parameters):
    each = F.udf(scaled, "long")
    return events.withColumn("v", each("v") + parameters["plus"])

FACTOR = {factor}
"""


def test_python_when_its_code_is_updated_then_workers_run_the_new_code(
    session: SparkSession, tmp_path: Path
) -> None:
    source = messages(session, {"v": 1}, {"v": 2}, {"v": "no"})

    for factor in (10, 20):
        operator = python_job(tmp_path, USER_CODE.replace("{factor}", str(factor)), parameters={"plus": 1})
        outcome = run(operator, source)
        assert outcome.values == [{"v": factor + 1}, {"v": 2 * factor + 1}]
        assert outcome.reasons == ["field 'v': expected an integer of at most 64 bits, got \"no\""]


def test_python_when_it_makes_several_rows_of_an_event_then_identity_tells_them_apart(
    session: SparkSession, tmp_path: Path
) -> None:
    code = "def run(events, p): return events.selectExpr('explode(sequence(1, v)) as part', 'v', 'serial')"

    outcome = run(python_job(tmp_path, code, identity=["v", "part"]), messages(session, {"v": 2}))

    assert outcome.ids == {"job/[2,1]", "job/[2,2]"}
    assert {r.serial for r in outcome.results.values()} == {1}


def test_python_when_its_rows_have_an_identity_and_no_serial_number_then_later_steps_read_them(
    session: SparkSession, tmp_path: Path
) -> None:
    code = "def run(events, p): return events.selectExpr('v', 'timestamp_seconds(v) as at')"
    first = python_job(tmp_path, code, identity=["v"])
    checked = {"kind": "clean", "fields": {"v": {"type": "long", "maximum": 5}}}
    window = {
        "kind": "window",
        "fields": {"v": "long", "at": "timestamp"},
        "event_time": "at",
        "size_s": 10,
        "aggregates": {"n": {"function": "count"}},
    }
    source = messages(session, {"v": 1}, {"v": 2}, {"v": 7})

    outcome = run({"kind": "chain", "steps": [first, checked]}, source)
    assert (outcome.values, outcome.reasons) == (
        [{"v": 1}, {"v": 2}],
        ["field 'v': 7 is above the maximum 5"],
    )

    outcome = run({"kind": "chain", "steps": [first, window]}, source)
    assert [result.count for result in outcome.results.values()] == [3]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import no_such_module_anywhere", "does not import: ModuleNotFoundError"),
        ("def walk(events, p): pass", "has no function 'run'"),
        ("def run(events, p): return 5", "returns int, not a DataFrame"),
        ("def run(events, p): return events.select('v')", "its result lacks serial, stored_at"),
        ("def run(events, p): return events.select('x')", "UNRESOLVED_COLUMN"),
    ],
)
def test_python_when_the_code_does_not_fit_then_the_error_names_the_entry(
    session: SparkSession, tmp_path: Path, code: str, said: str
) -> None:
    with pytest.raises(TowpathError) as raised:
        run(python_job(tmp_path, code), messages(session))

    assert raised.value.detail.field == "operator.entry"
    assert said in raised.value.detail.message


class Topic:
    """A streaming input to which a test adds the messages of one micro-batch at a time."""

    def __init__(self, session: SparkSession, folder: Path) -> None:
        self.spark, self.folder = session, folder
        folder.mkdir()

    def put(self, *events: Any) -> None:
        messages(self.spark, *events).coalesce(1).write.mode("append").parquet(str(self.folder))

    @property
    def stream(self) -> DataFrame:
        return self.spark.readStream.schema(SCHEMA).parquet(str(self.folder))


class Running:
    """A job's query on a checkpoint; `published` grows batch by batch."""

    def __init__(self, job: Assignment, topics: list[Topic], checkpoint: Path, site: str = "jfk") -> None:
        self.results: list[Message] = []
        self.rejected: list[Message] = []
        self.encoder = MessageEncoder.of(job, site)
        made = compiled(job, *(topic.stream for topic in topics))
        writer = made.writeStream.foreachBatch(self.publish)
        self.query = writer.outputMode("append").option("checkpointLocation", str(checkpoint)).start()

    def publish(self, batch: DataFrame, _: int) -> None:
        self.results += self.encoder.results(batch.toArrow())
        while not hasattr(self, "query"):
            time.sleep(0.01)
        execution = self.query._jsq.streamingQuery().lastExecution()  # type: ignore[operator]
        self.rejected += self.encoder.rejected(observed(execution).rejected)

    def settle(self) -> Outcome:
        """Process everything that is there. Return all results."""
        self.query.processAllAvailable()
        return Outcome(self.results, self.rejected)

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        self.query.stop()


def test_window_when_the_watermark_passes_its_end_then_it_appears_once_and_rejects_do_not_wait(
    session: SparkSession, tmp_path: Path
) -> None:
    topic = Topic(session, tmp_path / "in")
    topic.put(message(1, at(1, v=1)), message(2, at(9, v=2)), message(3, "rubbish"), message(4, {"k": "x"}))

    with Running(assignment(window()), [topic], tmp_path / "checkpoint") as job:
        early = job.settle()
        read = [p.numInputRows for p in job.query.recentProgress if p.numInputRows]
        topic.put(message(5, at(3, v=4)), message(6, at(12.5, v=8)))
        closed = job.settle()
        topic.put(message(7, at(4, v=16)), message(8, at(30, v=32)))
        done = job.settle()

    assert (early.values, early.reasons) == ([], ["not a JSON object", "field 'at': missing or null"])
    assert read == [4], "the source was read more than once"
    assert closed.values == [{"total": 7.0}]
    assert done.values == [{"total": 7.0}, {"total": 8.0}]


def test_window_when_one_of_two_inputs_is_slow_then_windows_wait_for_it(
    session: SparkSession, tmp_path: Path
) -> None:
    fast, slow = Topic(session, tmp_path / "fast"), Topic(session, tmp_path / "slow")
    job = assignment(window(), "ewr/site/a", "jfk/site/a")
    fast.put(message(1, at(1, v=1)), message(2, at(100, v=1)))
    slow.put(message(1, at(2, v=1)))

    with Running(job, [fast, slow], tmp_path / "checkpoint") as running:
        waiting = running.settle()
        fast.put(message(3, at(200, v=1)))
        still_waiting = running.settle()
        slow.put(message(2, at(3, v=1)), message(3, at(50, v=1)))
        closed = running.settle()

    assert waiting.values == still_waiting.values == []
    assert [(r.values, r.serial) for r in closed.results.values()] == [({"total": 3.0}, 2)]


def test_window_when_another_site_goes_on_from_its_checkpoint_then_no_event_is_lost_or_counted_twice(
    session: SparkSession, tmp_path: Path
) -> None:
    topic, checkpoint = Topic(session, tmp_path / "in"), tmp_path / "checkpoint"
    operator = window(aggregates={**ALL_AGGREGATES, "total": {"function": "sum", "field": "v"}})
    topic.put(message(1, at(1, v=0.1)), message(2, at(2, v=0.2)))
    with Running(assignment(operator, epoch=1), [topic], checkpoint) as before:
        assert before.settle().results == {}
    topic.put(message(3, at(3, v=0.3)), message(4, at(20, v=1)))

    with Running(assignment(operator, epoch=2), [topic], checkpoint, site="cloud") as after:
        (result,) = after.settle().results.values()

    assert (result.site, result.epoch, result.serial, result.count) == ("cloud", 2, 3, 3)
    assert result.values["total"] == pytest.approx(0.6, rel=1e-15)
    assert result.values["median"] == 0.2


def test_session_window_without_key_when_streaming_then_it_closes_after_its_gap(
    session: SparkSession, tmp_path: Path
) -> None:
    topic = Topic(session, tmp_path / "in")
    operator = window(shape="session", size_s=None, gap_s=5, key=None)
    topic.put(message(1, at(1, v=1)), message(2, at(4, v=1)))

    with Running(assignment(operator), [topic], tmp_path / "checkpoint") as job:
        job.settle()
        topic.put(message(3, at(7, v=1)), message(4, at(60, v=1)))
        (result,) = job.settle().results.values()

    assert (result.count, result.window and result.window.end) == (3, START + timedelta(seconds=12))


def test_map_when_an_expression_fails_on_one_event_then_it_is_null_and_the_job_goes_on(
    session: SparkSession, tmp_path: Path
) -> None:
    topic = Topic(session, tmp_path / "in")
    fields = {"a": "long", "s": "string"}
    select = {"ratio": "10 / a", "number": "cast(s as long)", "more": "a + 9223372036854775807L"}
    topic.put({"a": 0, "s": "x"}, {"a": 5, "s": "7"})

    with Running(
        assignment({"kind": "map", "fields": fields, "select": select}), [topic], tmp_path / "checkpoint"
    ) as job:
        outcome = job.settle()

    assert [set(v) for v in outcome.values] == [{"more"}, {"ratio", "number", "more"}]
    assert session.conf.get("spark.sql.ansi.enabled") == "true"
