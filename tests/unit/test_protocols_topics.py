"""Inputs become streams, and another job must write the fields that a job asks for."""

from __future__ import annotations

from typing import Any

import pytest

from towpath.composition.schemas import ResultFields, check_readers
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import JobSpec
from towpath.coordinator.jobs.topics import resolve_inputs, resolve_output
from towpath.protocols.record import JobEntry

CLEAN = {"kind": "clean", "fields": {"carrier": {"type": "string"}, "delay": {"type": "double"}}}
FORWARD = {"kind": "forward"}
WINDOW = {
    "kind": "window",
    "fields": {"carrier": "string", "delay": "long"},
    "size_s": 60,
    "key": ["carrier"],
    "aggregates": {
        "n": {"function": "count"},
        "kinds": {"function": "distinct", "field": "carrier"},
        "mean": {"function": "avg", "field": "delay"},
        "worst": {"function": "max", "field": "delay"},
    },
}


def asks(**fields: str) -> dict[str, Any]:
    return {"kind": "filter", "fields": fields, "where": "true"}


def spec(name: str, operator: dict[str, Any], *topics: str, output: str | None = None) -> JobSpec:
    inputs = [{"site": "jfk", "topic": topic} for topic in topics]
    body = {"name": name, "site": "jfk", "inputs": inputs, "operator": operator}
    return JobSpec.model_validate({**body, "output": {"topic": output or f"out/{name}"}})


def running(*specs: JobSpec) -> dict[str, JobEntry]:
    return {
        s.name: JobEntry(spec=s, site="cloud", epoch=1, inputs=[], output=resolve_output(s)) for s in specs
    }


CLEANING = spec("clean", CLEAN, "site/raw")


def refusal(reader: JobSpec, *writers: JobSpec) -> TowpathError:
    with pytest.raises(TowpathError) as refused:
        resolve_inputs(reader, running(*writers))
    return refused.value


def test_input_when_device_topic_then_is_a_subject_of_the_site_stream() -> None:
    (found,) = resolve_inputs(spec("a", FORWARD, "site/raw/x"), {})
    assert (found.stream, found.subject, found.from_device) == ("IN", "site.raw.x", True)


def test_input_when_topic_of_metrics_then_is_a_stream_of_its_own() -> None:
    (found,) = resolve_inputs(spec("a", FORWARD, "site/metrics"), {})
    assert (found.stream, found.subject, found.from_device) == ("METRICS", "site.metrics", True)


def test_input_when_topic_of_a_moved_job_then_is_its_output_where_it_stayed() -> None:
    (found,) = resolve_inputs(spec("a", FORWARD, "out/clean"), running(CLEANING))
    assert (found.name, found.site, found.stream) == ("jfk/out/clean", "jfk", "OUT_clean")
    assert (found.subject, found.from_device) == (None, False)


def test_input_when_several_jobs_write_the_topic_then_is_one_input_for_each() -> None:
    writers = [spec(name, CLEAN, "site/raw", output="shared") for name in ("one", "two")]
    found = resolve_inputs(spec("a", FORWARD, "shared"), running(*writers))
    assert [(i.name, i.stream) for i in found] == [
        ("jfk/shared#one", "OUT_one"),
        ("jfk/shared#two", "OUT_two"),
    ]


def test_input_when_dead_letter_topic_then_is_the_stream_of_rejected_events() -> None:
    (found,) = resolve_inputs(spec("a", FORWARD, "out/clean/rejected"), running(CLEANING))
    assert (found.stream, found.subject) == ("REJECTED_clean", None)


def test_input_when_no_one_writes_it_then_error_lists_known_topics() -> None:
    detail = refusal(spec("a", FORWARD, "site/x", "out/none"), CLEANING).detail
    assert (detail.code, detail.field, detail.value) == (
        ErrorCode.UNKNOWN_TOPIC,
        "inputs.1.topic",
        "out/none",
    )
    assert detail.allowed is not None
    assert "jfk/out/clean" in detail.allowed


def test_input_when_writer_is_being_deployed_then_may_be_asked_again() -> None:
    jobs = running(CLEANING)
    jobs["clean"] = jobs["clean"].model_copy(update={"running": False})
    with pytest.raises(TowpathError) as refused:
        resolve_inputs(spec("a", FORWARD, "out/clean"), jobs)
    assert refused.value.detail.retryable


def test_input_when_it_is_the_jobs_own_output_then_is_refused() -> None:
    assert refusal(spec("clean", FORWARD, "out/clean"), CLEANING).detail.code is ErrorCode.NOT_ALLOWED


@pytest.mark.parametrize(
    ("operator", "fields"),
    [
        (CLEAN, {"carrier": "string", "delay": "double"}),
        (asks(delay="long"), {"delay": "long"}),
        ({"kind": "map", "fields": {"a": "long"}, "select": {"b": "a + 1"}}, {"b": None}),
        (
            WINDOW,
            {
                "carrier": "string",
                "window_start": "timestamp",
                "window_end": "timestamp",
                "count": "long",
                "n": "long",
                "kinds": "long",
                "mean": "double",
                "worst": "long",
            },
        ),
        (FORWARD, None),
        ({"kind": "python", "fields": {"a": "long"}, "entry": "m:f"}, None),
    ],
    ids=["clean", "filter", "map", "window", "forward-of-devices", "python"],
)
def test_results_when_operator_is_known_then_their_fields_are(operator: Any, fields: Any) -> None:
    assert ResultFields({"a": spec("a", operator, "site/raw")}).of("a") == fields


@pytest.mark.parametrize("between", [[], [FORWARD], [FORWARD, {"kind": "merge"}]], ids=len)
@pytest.mark.parametrize(
    ("asked", "fits"),
    [({"delay": "double"}, True), ({"delay": "string"}, False), ({"altitude": "double"}, False)],
    ids=["there", "other-type", "absent"],
)
def test_reader_when_field_comes_through_others_then_is_checked_at_its_origin(
    between: list[dict[str, Any]], asked: dict[str, str], fits: bool
) -> None:
    chain, topic = [CLEANING], "out/clean"
    for number, operator in enumerate(between):
        chain.append(spec(f"pass-{number}", operator, topic))
        topic = f"out/pass-{number}"
    reader = spec("reader", asks(**asked), topic)
    if fits:
        assert len(resolve_inputs(reader, running(*chain))) == 1
        return
    detail = refusal(reader, *chain).detail
    assert (detail.code, detail.field, detail.value) == (
        ErrorCode.SCHEMA_MISMATCH,
        "inputs.0",
        next(iter(asked)),
    )
    assert detail.allowed == ["carrier: string", "delay: double"]


def test_reader_when_whole_numbers_are_read_as_numbers_then_fits() -> None:
    counting = spec("counts", WINDOW, "site/raw")
    assert resolve_inputs(spec("a", asks(n="double"), "out/counts"), running(counting))


def test_merge_when_one_branch_lacks_a_field_then_reader_cannot_ask_for_it() -> None:
    branches = [CLEANING, spec("thin", asks(carrier="string"), "site/raw")]
    merging = spec("all", {"kind": "merge"}, "out/clean", "out/thin")
    assert refusal(spec("a", asks(delay="double"), "out/all"), *branches, merging).detail.value == "delay"


def test_change_when_it_takes_a_field_from_a_reader_then_is_refused() -> None:
    jobs = running(CLEANING, spec("reader", asks(delay="double"), "out/clean"))
    with pytest.raises(TowpathError, match="reader asks for field 'delay'"):
        check_readers({**jobs, **running(spec("clean", asks(carrier="string"), "site/raw"))}, "clean")
