"""Effects of a pipeline's description on jobs of others, and refusals before they happen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import pytest
from coordinator_trial import Played, apply_record, entry, job, pipeline

from towpath.contracts.commands import DeployJob, UpdateJob
from towpath.contracts.errors import ErrorCode, ErrorDetail, TowpathError
from towpath.contracts.pipeline import Action, PipelineJob, PipelineSpec
from towpath.contracts.site import Capacity
from towpath.coordinator.jobs.plans import Nothing, plan_deploy, plan_update
from towpath.coordinator.pipelines.decisions import Decision, decide
from towpath.coordinator.pipelines.records import ApplyRecord, PipelineRecord
from towpath.coordinator.pipelines.room import room_problems
from towpath.coordinator.situation import Upcoming
from towpath.protocols.record import FormerJob


def read_elsewhere(*writers: PipelineJob) -> Played:
    """Jobs of the pipeline, and `reader` outside of it, which reads `t`."""
    played = Played({writer.name: entry(writer) for writer in writers})
    played.entries["reader"] = entry(job("reader", "t"), played.entries, pipeline="other")
    return played


async def decided(played: Played, *jobs: PipelineJob, delete: bool = False) -> Decision:
    store = cast("Any", played)
    return await decide(pipeline(*jobs), played.situation, store, drop_state=[], delete=delete)


async def wrong(played: Played, *jobs: PipelineJob) -> list[ErrorDetail]:
    with pytest.raises(TowpathError) as refused:
        await decided(played, *jobs)
    return refused.value.detail.errors


@pytest.mark.parametrize(
    ("jobs", "field"),
    [
        ([job("writer", writes="elsewhere")], "jobs[0].output.topic"),
        ([job("another")], "jobs"),
    ],
    ids=["is redirected", "is missing"],
)
async def test_writer_when_it_leaves_a_topic_that_a_job_elsewhere_reads_then_is_refused(
    jobs: list[PipelineJob], field: str
) -> None:
    (error,) = await wrong(read_elsewhere(job("writer", writes="t")), *jobs)
    assert (error.code, error.field, error.value) == (ErrorCode.NOT_ALLOWED, field, "t")
    assert "reader reads this topic" in error.message


async def test_writer_when_the_topic_keeps_another_writer_then_may_leave_it() -> None:
    stays, leaves = job("stays", writes="t"), job("leaves", writes="t")
    decision = await decided(read_elsewhere(stays, leaves), stays)
    assert {c.job: c.actions for c in decision.changes} == {
        "stays": [Action.KEEP],
        "leaves": [Action.REMOVE],
    }


async def test_writer_when_it_comes_to_a_topic_that_a_job_elsewhere_reads_then_is_refused() -> None:
    writer = job("writer", writes="t")
    (error,) = await wrong(read_elsewhere(writer), writer, job("second", writes="t"))
    assert (error.field, error.value) == ("jobs[1].output.topic", "t")
    assert "would not get what second writes" in error.message


async def test_writer_when_it_goes_on_in_a_stream_that_its_reader_elsewhere_lacks_then_is_refused() -> None:
    changed = PipelineJob.model_validate(
        job("writer").model_dump() | {"output": {"topic": "t", "dead_letter": "lost"}}
    )
    (error,) = await wrong(read_elsewhere(job("writer", writes="t")), changed)
    assert "another output is another stream" in error.message


async def test_writer_when_it_comes_back_to_its_stream_then_is_no_news_to_its_reader() -> None:
    writer = job("writer", writes="t")
    played = read_elsewhere(writer)
    played.left = {"writer": FormerJob(epoch=1, output=played.entries.pop("writer").output)}
    decision = await decided(played, writer)
    assert [c.actions for c in decision.changes] == [[Action.ADD]]


async def test_pipeline_when_it_is_deleted_then_it_goes_although_others_read_it() -> None:
    decision = await decided(read_elsewhere(job("writer", writes="t")), delete=True)
    assert [c.actions for c in decision.changes] == [[Action.REMOVE]]


async def test_deploy_when_a_job_reads_the_topic_and_would_not_get_the_results_then_is_refused() -> None:
    played = read_elsewhere(job("writer", writes="t"))
    with pytest.raises(TowpathError, match="would not get what second writes"):
        await plan_deploy(DeployJob(spec=job("second", writes="t").job_spec()), played.situation)


async def test_writer_when_a_reader_came_elsewhere_since_the_apply_began_then_is_not_turned_away() -> None:
    played = read_elsewhere(job("writer", writes="t"))
    turned = entry(job("writer", writes="u"))
    upcoming = Upcoming("delays", {"writer": turned})
    with pytest.raises(TowpathError, match="no one would write it any more") as refused:
        await plan_update(UpdateJob(spec=turned.spec), played.situation, upcoming)
    assert refused.value.detail.field == "output.topic"
    played.entries["reader"] = played.entries["reader"].model_copy(update={"pipeline": "delays"})
    upcoming = Upcoming("delays", {"writer": turned, "reader": entry(job("reader", "u"), {"writer": turned})})
    operation = await plan_update(UpdateJob(spec=turned.spec), played.situation, upcoming)
    assert operation.entry_after.output.topic == "u"


async def test_job_when_it_is_changed_then_who_published_before_a_rollback_is_forgotten() -> None:
    played = Played({"a": entry(job("a")).model_copy(update={"epoch": 4, "resumes": 1})})
    changed = played.entries["a"].spec.model_copy(update={"trigger_s": 7.0})
    operation = await plan_update(UpdateJob(spec=changed), played.situation)
    assert (operation.entry_after.epoch, operation.entry_after.resumes) == (5, None)


async def test_update_when_a_writer_came_to_a_topic_since_then_the_unchanged_job_reads_it_too() -> None:
    played = read_elsewhere(job("writer", writes="t"))
    played.entries["reader"] = played.entries["reader"].model_copy(update={"pipeline": None})
    unchanged = UpdateJob(spec=played.entries["reader"].spec)
    with pytest.raises(Nothing):
        await plan_update(unchanged, played.situation)
    played.entries["second"] = entry(job("second", writes="t"))
    operation = await plan_update(unchanged, played.situation)
    assert [i.stream for i in operation.entry_after.inputs] == ["OUT_writer", "OUT_second"]


async def test_update_when_an_input_says_what_repeats_then_the_job_goes_on_where_it_stands() -> None:
    window = {
        "kind": "window",
        "fields": {"at": "timestamp"},
        "size_s": 1,
        "aggregates": {"n": {"function": "count"}},
    }
    before = entry(PipelineJob.model_validate(job("a").model_dump() | {"operator": window}))
    stands = before.inputs[0].model_copy(update={"after_serial": 7})
    played = Played({"a": before.model_copy(update={"inputs": [stands]})})
    read = before.spec.inputs[0].model_copy(update={"identity": ["id"], "repeats_within": 50})
    changed = before.spec.model_copy(update={"inputs": [read]})

    operation = await plan_update(UpdateJob(spec=changed), played.situation)

    told = stands.model_copy(update={"identity": ["id"], "repeats_within": 50})
    assert operation.entry_after.inputs == [told]
    assert operation.entry_after.generation == before.generation, "its checkpoint goes on"


def demanding(name: str, cores: float, **changes: Any) -> PipelineJob:
    return PipelineJob.model_validate(job(name).model_dump() | {"resources": {"cores": cores}} | changes)


async def test_strategy_when_it_cannot_work_then_is_told_with_all_other_errors_also_for_new_jobs() -> None:
    new, lost = demanding("a", 0, strategy="parallel"), job("b", "out/missing")
    found = await wrong(Played(), new, lost)
    assert [e.field for e in found] == ["jobs[1].inputs[0].topic", "jobs[0].strategy"]


async def test_strategy_when_the_wanted_operator_admits_it_then_the_present_one_does_not_count() -> None:
    window = {"kind": "processing_window", "size_s": 1, "aggregates": {"n": {"function": "count"}}}
    wanted = demanding("a", 0, operator=window, strategy="parallel", site="lga")
    decision = await decided(Played({"a": entry(job("a"))}, names=("jfk", "lga")), wanted)
    assert [c.strategy for c in decision.changes] == ["parallel"]


@dataclass
class Crowded(Played):
    """A site of four cores, of which another pipeline, which is just being applied, takes three."""

    async def pipelines(self) -> dict[str, PipelineRecord]:
        return {"other": PipelineRecord(name="other", version=1, apply="a2")}

    async def record(self, apply: str) -> ApplyRecord:
        return apply_record(PipelineSpec(name="other", jobs=[demanding("o", 3)]))

    def capacity(self, site: str) -> Capacity:
        return Capacity(cores=4)


async def test_room_when_an_apply_under_way_will_take_it_then_is_not_promised_again() -> None:
    (error,) = await wrong(Crowded(), demanding("a", 2))
    assert (error.field, error.allowed) == ("jobs[0].resources.cores", "at most 1")
    assert (await decided(Crowded(), demanding("a", 1))).changes
    store = cast("Any", Crowded())
    assert len(await room_problems(pipeline(demanding("a", 2)), Crowded().situation, store)) == 1


async def test_room_when_the_job_that_will_take_it_runs_already_then_is_counted_once() -> None:
    crowded = Crowded({"o": entry(demanding("o", 3), pipeline="other")})
    assert (await decided(crowded, demanding("a", 1))).changes
