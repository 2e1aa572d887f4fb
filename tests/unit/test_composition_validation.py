"""All mistakes in a pipeline are reported at once, each with its place."""

from __future__ import annotations

from typing import Any

import pytest

from towpath.composition.difference import spelled_out
from towpath.composition.running import RunningJob
from towpath.composition.validation import SiteFacts, problems
from towpath.contracts.errors import ErrorCode, ErrorDetail
from towpath.contracts.pipeline import Demand, PipelineJob, PipelineSpec
from towpath.contracts.site import Capacity

SITES = {"edge": SiteFacts(up=True), "cloud": SiteFacts(up=True), "barn": SiteFacts(up=False)}


def job(name: str, reads: str = "site/x", writes: str | None = None, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "site": "edge",
        "inputs": [{"site": "edge", "topic": reads}],
        "output": {"topic": writes or f"t/{name}"},
        "operator": {"kind": "forward"},
        **more,
    }


def described(*jobs: dict[str, Any]) -> PipelineSpec:
    return PipelineSpec.model_validate({"name": "delays", "jobs": jobs})


def running(body: dict[str, Any], pipeline: str | None = "delays", **more: Any) -> dict[str, RunningJob]:
    found = PipelineJob.model_validate(body)
    state = RunningJob(
        spec=spelled_out(found),
        site=more.get("site", found.site),
        pipeline=pipeline,
        resources=Demand(**more.get("resources", {})),
    )
    return {found.name: state}


def wrong(
    *jobs: dict[str, Any], sites: dict[str, SiteFacts] | None = None, **around: Any
) -> list[ErrorDetail]:
    mine, others = around.get("mine", {}), around.get("others", {})
    return problems(described(*jobs), sites=sites or SITES, mine=mine, others=others)


def only(found: list[ErrorDetail]) -> tuple[ErrorCode, str | None, Any]:
    (error,) = found
    assert error.message
    return error.code, error.field, error.value


def test_pipeline_when_nothing_is_wrong_then_there_are_no_problems() -> None:
    assert wrong(job("a"), job("b", "t/a"), job("c", "t/a", "t/b"), job("d", "t/b")) == []


def test_site_when_unknown_then_every_mention_is_told_once() -> None:
    lost = job("b", site="mars", inputs=[{"site": "moon", "topic": "site/x"}])
    named = job("c", output={"site": "venus", "topic": "t/c"})
    found = wrong(job("a"), lost, named)
    assert [(e.code, e.field, e.value) for e in found] == [
        (ErrorCode.UNKNOWN_SITE, "jobs[1].site", "mars"),
        (ErrorCode.UNKNOWN_SITE, "jobs[1].inputs[0].site", "moon"),
        (ErrorCode.UNKNOWN_SITE, "jobs[2].output.site", "venus"),
    ]
    assert found[0].allowed == ["barn", "cloud", "edge"]


@pytest.mark.parametrize(
    ("wanted", "mine", "field"),
    [
        (job("a", site="barn"), {}, "jobs[0].site"),
        (job("a", output={"site": "barn", "topic": "t/a"}), {}, "jobs[0].output.site"),
        (job("a"), running(job("a"), site="barn"), "jobs[0].site"),
        (job("a"), running(job("a")) | running(job("gone", site="barn")), "jobs"),
    ],
    ids=["runs there", "writes there", "moves away from there", "is removed there"],
)
def test_site_when_down_and_a_change_needs_it_then_is_told(
    wanted: dict[str, Any], mine: dict[str, RunningJob], field: str
) -> None:
    assert only(wrong(wanted, mine=mine)) == (ErrorCode.SITE_DOWN, field, "barn")


def test_site_when_down_and_nothing_changes_there_then_is_no_problem() -> None:
    there = job("a", site="barn")
    assert wrong(there, job("b"), mine=running(there)) == []


def test_topic_when_no_one_writes_it_then_is_told_with_those_that_are_written() -> None:
    found = wrong(job("a"), job("b", "t/none"), others=running(job("x"), "other"))
    assert only(found) == (ErrorCode.UNKNOWN_TOPIC, "jobs[1].inputs[0].topic", "t/none")
    assert found[0].allowed is not None
    assert {"t/a", "t/x", "t/a/rejected", "site/…"} <= set(found[0].allowed)


def test_topic_when_only_a_job_writes_it_that_goes_then_dangles() -> None:
    gone = running(job("a"))
    assert only(wrong(job("b", "t/a"), mine=gone))[0] is ErrorCode.UNKNOWN_TOPIC
    assert wrong(job("b", "t/a"), others=gone) == []


def test_topic_when_results_and_rejected_events_meet_there_then_both_owners_are_told() -> None:
    clash = job("b", output={"topic": "t/b", "dead_letter": "t/a"})
    assert [(e.code, e.field) for e in wrong(job("a"), clash)] == [
        (ErrorCode.NOT_ALLOWED, "jobs[0].output.topic"),
        (ErrorCode.NOT_ALLOWED, "jobs[1].output.dead_letter"),
    ]
    itself = job("a", output={"topic": "t/a", "dead_letter": "t/a"})
    assert only(wrong(itself))[1] == "jobs[0].output.dead_letter"
    assert only(wrong(clash, others=running(job("a"), None)))[1] == "jobs[0].output.dead_letter"


def test_jobs_when_they_read_each_other_then_the_circle_is_named() -> None:
    (error,) = wrong(job("a", "t/c"), job("b", "t/a"), job("c", "t/b"))
    assert (error.code, error.field) == (ErrorCode.NOT_ALLOWED, "jobs[0].inputs[0].topic")
    assert "a → b → c → a" in error.message


def test_jobs_when_there_are_two_circles_then_both_are_told() -> None:
    found = wrong(job("a", "t/b"), job("b", "t/a"), job("c", "t/d"), job("d", "t/c"))
    assert [e.field for e in found] == ["jobs[0].inputs[0].topic", "jobs[2].inputs[0].topic"]


def test_jobs_when_a_circle_leads_through_another_pipeline_then_is_told() -> None:
    (error,) = wrong(job("b", "t/x"), others=running(job("x", "t/b"), "other"))
    assert "b → x → b" in error.message


def test_job_when_it_reads_itself_then_is_told() -> None:
    (error,) = wrong(job("a"), job("b", "t/b"))
    assert error.field == "jobs[1].inputs[0].topic"
    assert "what it writes" in error.message


@pytest.mark.parametrize(("owner", "said"), [("other", "pipeline other"), (None, "by itself")])
def test_name_when_somebody_else_has_it_then_is_told_whose_it_is(owner: str | None, said: str) -> None:
    found = wrong(job("a"), others=running(job("a"), owner))
    assert only(found) == (ErrorCode.NAME_IN_USE, "jobs[0].name", "a")
    assert said in found[0].message


def test_fields_when_several_are_missing_or_of_another_type_then_all_are_told() -> None:
    clean = {"kind": "clean", "fields": {"carrier": {"type": "string"}, "delay": {"type": "double"}}}
    late = {
        "kind": "filter",
        "fields": {"delay": "string", "dest": "string", "carrier": "string"},
        "where": "true",
    }
    found = wrong(job("a", operator=clean), job("pass", "t/a"), job("late", "t/pass", operator=late))
    assert [(e.code, e.field, e.value) for e in found] == [
        (ErrorCode.SCHEMA_MISMATCH, "jobs[2].inputs[0]", "delay"),
        (ErrorCode.SCHEMA_MISMATCH, "jobs[2].inputs[0]", "dest"),
    ]


def test_standby_when_there_is_no_such_site_then_is_told() -> None:
    found = wrong(job("a", standby={"site": "clowd"}))
    assert only(found) == (ErrorCode.UNKNOWN_SITE, "jobs[0].standby.site", "clowd")


def test_optional_fields_when_they_come_with_another_type_then_are_told_and_may_be_missing() -> None:
    written = {"kind": "clean", "fields": {"delay": {"type": "double"}}}
    rules = {
        "delay": {"type": "string", "required": False},
        "carrier": {"type": "string", "required": False},
    }
    asks = {"kind": "clean", "fields": rules}
    found = wrong(job("a", operator=written), job("b", "t/a", operator=asks))
    assert only(found) == (ErrorCode.SCHEMA_MISMATCH, "jobs[1].inputs[0]", "delay")


def test_fields_when_a_job_outside_would_miss_them_then_the_writer_is_told() -> None:
    clean = {"kind": "clean", "fields": {"carrier": {"type": "string"}}}
    asks = {"kind": "filter", "fields": {"delay": "double"}, "where": "true"}
    found = wrong(job("a", operator=clean), others=running(job("x", "t/a", operator=asks), "other"))
    assert only(found) == (ErrorCode.SCHEMA_MISMATCH, "jobs[0].operator", "delay")


def test_placement_when_violated_then_each_rule_is_told() -> None:
    found = wrong(
        job("a", placement={"allowed": ["cloud"]}),
        job("b", placement={"forbidden": ["edge"]}),
        job("c", placement={"beside": ["e", "missing"], "apart_from": ["a", "c"]}),
        job("e", site="cloud"),
    )
    assert [(e.code, e.field, e.value) for e in found] == [
        (ErrorCode.NOT_ALLOWED, "jobs[0].site", "edge"),
        (ErrorCode.NOT_ALLOWED, "jobs[1].site", "edge"),
        (ErrorCode.NOT_ALLOWED, "jobs[2].site", "edge"),
        (ErrorCode.UNKNOWN_JOB, "jobs[2].placement.beside[1]", "missing"),
        (ErrorCode.NOT_ALLOWED, "jobs[2].site", "edge"),
        (ErrorCode.UNKNOWN_JOB, "jobs[2].placement.apart_from[1]", "c"),
    ]


def test_placement_when_kept_then_is_no_problem() -> None:
    assert (
        wrong(
            job("a", placement={"allowed": ["edge", "cloud"], "beside": ["b"], "apart_from": ["c"]}),
            job("b", placement={"forbidden": ["cloud"]}),
            job("c", site="cloud"),
        )
        == []
    )


def test_resources_when_a_site_has_not_enough_then_the_first_job_too_many_is_told() -> None:
    small = {**SITES, "edge": SiteFacts(up=True, capacity=Capacity(cores=2, memory_mb=1000))}
    held = running(job("x"), "other", resources={"cores": 1.0})
    elsewhere = running(job("y", site="cloud"), "other", resources={"cores": 9.0})
    half, hungry = {"cores": 0.5}, {"cores": 0.6, "memory_mb": 2000}
    found = wrong(
        job("a", resources=half),
        job("b", resources=hungry),
        job("c", resources=half),
        sites=small,
        others=held | elsewhere,
    )
    assert [(e.field, e.value, e.allowed) for e in found] == [
        ("jobs[1].resources.cores", 0.6, "at most 0.5"),
        ("jobs[1].resources.memory_mb", 2000, "at most 1000"),
    ]
    tenths = [job(f"j{n}", resources={"cores": 0.1}) for n in range(10)]
    assert wrong(*tenths, sites=small, others=held) == []


def test_problems_when_many_then_all_are_told_at_once() -> None:
    found = wrong(job("a", "t/none", site="mars"), job("b", "t/b"), others=running(job("b"), None))
    assert [e.code for e in found] == [
        ErrorCode.NAME_IN_USE,
        ErrorCode.UNKNOWN_SITE,
        ErrorCode.UNKNOWN_TOPIC,
        ErrorCode.NOT_ALLOWED,
    ]
