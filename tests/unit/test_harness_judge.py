"""The truth about a job whose inputs are results of other jobs, or several streams."""

from __future__ import annotations

import json
from typing import Any

from towpath.checker.accepted import StoredEvent
from towpath.checker.observation import ReceivedMessage, observe
from towpath.contracts.job import Input, JobSpec, Output
from towpath.contracts.operators import (
    Aggregate,
    AggregateFunction,
    Chain,
    Clean,
    FieldRule,
    FieldType,
    Filter,
    Forward,
    Operator,
    Window,
)
from towpath.lab.harness.judge import JobTruth, StoredInput, identity_for, judged

HOURLY = Window(
    fields={"key": FieldType.STRING, "at": FieldType.TIMESTAMP},
    event_time="at",
    watermark_s=600,
    size_s=3600,
    key=["key"],
    aggregates={"events": Aggregate(function=AggregateFunction.COUNT)},
)
CLEAN = Clean(
    fields={"n": FieldRule(type=FieldType.LONG), "key": FieldRule(type=FieldType.STRING)}, identity=["n"]
)


def job(operator: Operator, *topics: str) -> JobSpec:
    inputs = [Input(site="a", topic=topic) for topic in topics]
    return JobSpec(name="j", site="a", inputs=inputs, output=Output(topic="out"), operator=operator)


def envelope(serial: int, values: dict[str, Any], **more: Any) -> bytes:
    about = {"job": "up", "site": "a", "epoch": 1, "serial": serial, "stored_at": "2026-01-01T00:00:00Z"}
    return json.dumps({**about, **more, "values": values}).encode()


def results_of_a_job(name: str, *values: dict[str, Any]) -> StoredInput:
    events = [StoredEvent(serial, envelope(serial, each)) for serial, each in enumerate(values, start=1)]
    return StoredInput(name, False, events)


def sent_by_devices(*payloads: bytes) -> StoredInput:
    return StoredInput("a/site/x", True, [StoredEvent(n, body) for n, body in enumerate(payloads, start=1)])


def came(spec: JobSpec, *bodies: bytes, topic: str = "out") -> list[ReceivedMessage]:
    return [observe(body, identity_for(spec), 0.0, 1, topic) for body in bodies]


def test_windows_over_two_jobs_when_one_lags_then_only_windows_closed_by_both_are_expected() -> None:
    spec = job(HOURLY, "up/one", "up/two")
    fast = results_of_a_job("a/up/one", *({"key": "k", "at": f"2026-01-01T0{h}:30:00Z"} for h in range(5)))
    slow = results_of_a_job("a/up/two", *({"key": "k", "at": f"2026-01-01T0{h}:30:00Z"} for h in range(3)))
    expected = JobTruth.of(spec, [fast, slow]).expected
    assert list(expected.values()) == [{"events": 2}, {"events": 2}]


def test_windows_over_two_jobs_when_one_has_sent_nothing_then_none_is_expected() -> None:
    spec = job(HOURLY, "up/one", "up/two")
    fast = results_of_a_job("a/up/one", *({"key": "k", "at": f"2026-01-01T0{h}:30:00Z"} for h in range(5)))
    assert JobTruth.of(spec, [fast, StoredInput("a/up/two", False)]).expected == {}


def test_forwarded_results_when_one_is_missing_and_one_was_changed_then_verdict_counts_both() -> None:
    spec = job(Forward(), "up/one")
    truth = JobTruth.of(spec, [results_of_a_job("a/up/one", {"v": 1}, {"v": 2}, {"v": 3})])
    window = {"start": "2026-01-01T00:00:00Z", "end": "2026-01-01T01:00:00Z"}
    seen = came(spec, envelope(1, {"v": 1}, job="j", window=window), envelope(3, {"v": 4}, job="j"))
    verdict = truth.verdict(seen)
    assert (verdict.lost, verdict.wrong, verdict.duplicated, verdict.unexpected) == (1, 1, 0, 0)
    assert not truth.complete({each.identity for each in seen})


def test_cleaned_events_when_a_rejected_one_did_not_come_then_it_is_lost() -> None:
    spec = job(CLEAN, "site/x")
    truth = JobTruth.of(spec, [sent_by_devices(b'{"n": 1, "key": "k"}', b"rubbish", b"{}")])
    result = envelope(1, {"n": 1, "key": "k"}, job="j")
    about = {"job": "j", "serial": 3, "input": "a/site/x", "stored_at": "2026-01-01T00:00:00Z"}
    rejected = json.dumps({**about, "reason": "missing", "event": "{}"}).encode()
    seen = [*came(spec, result), *came(spec, rejected, topic="out/rejected")]
    verdict = truth.verdict(seen)
    assert (verdict.lost, verdict.unexpected) == (1, 0)
    assert verdict.examples["lost"] == ["rejected event: EventIdentity(event='rubbish')"]
    assert not truth.complete({each.identity for each in seen})


def test_cleaned_events_when_all_came_then_verdict_is_clean() -> None:
    spec = job(CLEAN, "up/one")
    truth = JobTruth.of(spec, [results_of_a_job("a/up/one", {"n": 1, "key": "k"})])
    seen = came(spec, envelope(1, {"n": 1, "key": "k"}, job="j"))
    assert truth.verdict(seen).clean
    assert truth.complete({each.identity for each in seen})


def test_filter_when_a_number_decides_then_results_with_the_declared_fields_are_expected() -> None:
    spec = job(Filter(fields={"v": FieldType.DOUBLE, "key": FieldType.STRING}, where="v > 1.5"), "up/one")
    given = results_of_a_job("a/up/one", {"v": 1, "key": "k"}, {"v": 2, "key": "k", "w": 7}, {"key": "k"})
    truth = JobTruth.of(spec, [given])
    assert list(truth.expected.values()) == [{"v": 2.0, "key": "k"}]
    verdict = truth.verdict(
        came(spec, envelope(1, {"v": 1, "key": "k"}, job="j"), envelope(2, {"v": 2.0, "key": "k"}, job="j"))
    )
    assert (verdict.lost, verdict.wrong, verdict.unexpected) == (0, 0, 1)


def test_chain_when_it_cleans_and_compares_then_windows_over_what_is_left_are_expected() -> None:
    fields = {"key": FieldType.STRING, "at": FieldType.TIMESTAMP, "v": FieldType.DOUBLE}
    clean = Clean(fields={name: FieldRule(type=kind) for name, kind in fields.items()})
    chain = Chain(steps=[clean, Filter(fields=fields, where="v > 1"), HOURLY])
    spec = job(chain, "site/x")
    events = [
        {"key": "k", "at": f"2026-01-01T0{hour}:30:00Z", "v": v} for hour in range(3) for v in (1, 2, 3)
    ]
    given = sent_by_devices(b"rubbish", b'{"key": "k"}', *(json.dumps(event).encode() for event in events))
    assert judged(spec)
    truth = JobTruth.of(spec, [given])
    assert [*truth.expected.values()] == [{"events": 2}, {"events": 2}]
    assert not judged(job(Chain(steps=[clean.model_copy(update={"identity": ["key"]}), clean]), "site/x"))


def test_job_when_its_operator_does_not_say_what_it_does_then_it_is_not_judged() -> None:
    kept = Filter(fields={"v": FieldType.DOUBLE}, where="round(v) > 1")
    assert not judged(job(kept, "up/one"))
    assert judged(job(HOURLY, "up/one", "up/two"))
