"""Jobs with `site: auto`: new ones get the collector's place, and those that run stay where they are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from coordinator_trial import Played, apply_record, entry, job, pipeline

from towpath.contracts.commands import DeployJob, UpdateJob
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import Command
from towpath.contracts.pipeline import Action, PipelineJob, PolicyName
from towpath.contracts.placement import NewPlace, NewPlaces, PlacementFigures, PlaceNewJobs
from towpath.contracts.site import SiteSpec
from towpath.coordinator.jobs.plans import Nothing, plan_deploy, plan_update
from towpath.coordinator.pipelines.decisions import Decision, decide
from towpath.protocols.record import JobEntry
from towpath.queries.compilation import Asked, compiled

NO_ROOM = TowpathError(ErrorCode.NOT_ALLOWED, "it needs 9 cores", field="jobs", value="b", allowed="less")
FIGURES = PlacementFigures(latency_s=0, power_w=0, checked_share=0, bytes_per_s=0)


@dataclass
class Placing(Played):
    """A coordinator whose collector places every job at `lga`, or fails."""

    names: tuple[str, ...] = ("jfk", "lga")
    failure: TowpathError | None = None
    asked: list[PlaceNewJobs] = field(default_factory=list)

    async def request(self, command: Command[Any], *, deadline_s: float, attempt_s: float = 0) -> Any:
        if not isinstance(command, PlaceNewJobs):
            raise TowpathError(ErrorCode.UNREACHABLE, "no site answers")
        self.asked.append(command)
        if self.failure is not None:
            raise self.failure
        auto = [each.name for each in command.jobs if each.site == "auto"]
        places = [NewPlace(job=name, site="lga", cores=0.25, reason="there is room") for name in auto]
        return NewPlaces(policy="performance", age_s=1, places=places, figures=FIGURES)


def auto(name: str, reads: str = "jfk:site/raw", **more: Any) -> PipelineJob:
    site, _, topic = reads.partition(":")
    changes = {"site": "auto", "inputs": [{"site": site, "topic": topic}], **more}
    return PipelineJob.model_validate(job(name).model_dump() | changes)


def moved(wanted: PipelineJob, site: str) -> JobEntry:
    return entry(wanted).model_copy(update={"site": site})


async def decided(played: Placing, *jobs: PipelineJob) -> Decision:
    return await decide(pipeline(*jobs), played.situation, cast("Any", played), drop_state=[])


async def refusal(played: Placing, *jobs: PipelineJob) -> tuple[ErrorCode, str | None, Any, Any]:
    with pytest.raises(TowpathError) as refused:
        await decided(played, *jobs)
    detail = refused.value.detail
    return detail.code, detail.field, detail.value, detail.allowed


async def test_deploy_when_the_site_is_auto_then_the_job_and_its_output_are_where_the_collector_says() -> (
    None
):
    operation = await plan_deploy(DeployJob(spec=auto("a").job_spec()), Placing().situation)

    after = operation.entry_after
    assert (after.spec.site, after.site, after.spec.output.site, after.output.site) == ("lga",) * 4
    assert operation.note == "auto is lga: there is room"


async def test_deploy_when_the_output_has_a_site_then_only_the_job_is_placed() -> None:
    spec = auto("a", output={"topic": "t", "site": "jfk"}).job_spec()

    after = (await plan_deploy(DeployJob(spec=spec), Placing().situation)).entry_after

    assert (after.site, after.output.site) == ("lga", "jfk")


async def test_deploy_when_the_job_runs_already_then_does_nothing_and_asks_no_one() -> None:
    played = Placing({"a": moved(job("a"), "lga")})

    with pytest.raises(Nothing):
        await plan_deploy(DeployJob(spec=auto("a").job_spec()), played.situation)
    assert played.asked == []


@pytest.mark.parametrize("code", [ErrorCode.DEADLINE, ErrorCode.UNREACHABLE])
async def test_deploy_when_the_collector_does_not_answer_then_is_refused_with_the_names_of_sites(
    code: ErrorCode,
) -> None:
    played = Placing(failure=TowpathError(code, "no answer"))

    with pytest.raises(TowpathError, match="found no place within 10 s") as refused:
        await plan_deploy(DeployJob(spec=auto("a").job_spec()), played.situation)
    detail = refused.value.detail
    assert (detail.code, detail.field, detail.value) == (ErrorCode.DEADLINE, "site", "auto")
    assert detail.allowed == ["jfk", "lga"]
    assert detail.retryable


async def test_deploy_when_no_site_has_room_then_says_what_is_short() -> None:
    with pytest.raises(TowpathError, match="it needs 9 cores") as refused:
        await plan_deploy(DeployJob(spec=auto("a").job_spec()), Placing(failure=NO_ROOM).situation)
    assert (refused.value.detail.field, refused.value.detail.value) == ("site", "auto")


async def test_update_when_the_site_is_auto_then_the_job_stays_where_it_is() -> None:
    played = Placing({"a": moved(job("a"), "lga")})
    changed = auto("a", trigger_s=7.0).job_spec()

    after = (await plan_update(UpdateJob(spec=changed), played.situation)).entry_after

    assert (after.spec.site, after.site, after.spec.output.site, after.spec.trigger_s) == (
        "jfk",
        "lga",
        "jfk",
        7,
    )
    assert played.asked == []


async def test_pipeline_when_new_jobs_are_auto_then_they_are_placed_together_and_the_plan_says_why() -> None:
    played = Placing()

    decision = await decided(played, auto("a"), auto("b", "auto:out/a"), job("c"))

    assert [each.site for each in decision.spec.jobs] == ["lga", "lga", "jfk"]
    assert decision.spec.jobs[1].inputs[0].site == "lga", "where a has its output"
    assert {change.job: change.target for change in decision.plan(4).changes} == dict(
        a="lga", b="lga", c="jfk"
    )
    assert [change.reason for change in decision.changes if change.job == "b"] == [
        "new in the description; auto is lga: there is room"
    ]
    [asked] = played.asked
    assert asked.policy is PolicyName.PERFORMANCE
    assert [(each.name, each.site) for each in asked.jobs] == [("a", "auto"), ("b", "auto"), ("c", "jfk")]


async def test_queries_when_they_name_a_scheduler_then_its_policy_is_asked_once() -> None:
    text = 's = STREAM FROM topic(topic="site/a", value="v") q = COMPUTE AVG(s, 1 m) WITH SCHEDULER=energy'
    spec = compiled(Asked("delays", "jfk", text, {}, ["jfk", "lga"])).pipeline
    played = Placing()

    decision = await decide(spec, played.situation, cast("Any", played), drop_state=[])

    panes, answers = decision.spec.jobs
    assert [asked.policy for asked in played.asked] == [PolicyName.ENERGY]
    assert (panes.site, answers.site, answers.output.site) == ("jfk", "lga", "jfk")
    running = entry(panes)
    entries = {panes.name: running, answers.name: entry(answers, {panes.name: running})}
    later = Placing(entries, newest=apply_record(decision.spec))
    again = await decide(spec, later.situation, cast("Any", later), drop_state=[])
    assert again.changes_nothing
    assert again.is_current
    assert later.asked == []


async def test_pipeline_when_the_same_file_is_applied_again_then_nothing_changes_and_no_one_is_asked() -> (
    None
):
    file = [auto("a"), auto("b", "auto:out/a")]
    first = await decided(Placing(), *file)
    a = entry(first.spec.jobs[0])
    played = Placing({"a": a, "b": entry(first.spec.jobs[1], {"a": a})}, newest=apply_record(first.spec))

    again = await decided(played, *file)

    assert again.changes_nothing
    assert again.is_current
    assert played.asked == []


@pytest.mark.parametrize("described", [job("a"), auto("a")], ids=["was named", "was auto"])
async def test_pipeline_when_a_running_job_is_auto_then_stays_also_where_it_moved(
    described: PipelineJob,
) -> None:
    ran = described.model_copy(update={"site": "jfk"})

    decision = await decided(Placing({"a": moved(ran, "lga")}), auto("a"))

    assert [change.actions for change in decision.changes] == [[Action.KEEP]]
    assert decision.spec.jobs[0].site == "lga"
    assert decision.spec.jobs[0].output.site == "jfk", "its output stays"


async def test_pipeline_when_a_job_that_was_auto_is_named_then_moves() -> None:
    decision = await decided(Placing({"a": moved(job("a"), "lga")}), job("a"))

    assert [(change.actions, change.target) for change in decision.changes] == [([Action.MOVE], "jfk")]


async def test_pipeline_when_a_place_is_refused_then_names_the_job_in_the_file() -> None:
    code, field, value, allowed = await refusal(Placing(failure=NO_ROOM), auto("a"), auto("b"))

    assert (code, field, value, allowed) == (ErrorCode.NOT_ALLOWED, "jobs[1].site", "auto", "less")


async def test_pipeline_when_the_collector_is_silent_then_is_refused_with_the_names_of_sites() -> None:
    silent = Placing(failure=TowpathError(ErrorCode.DEADLINE, "no answer"))

    assert await refusal(silent, job("c"), auto("a")) == (
        ErrorCode.DEADLINE,
        "jobs[1].site",
        "auto",
        ["jfk", "lga"],
    )


async def test_pipeline_when_an_input_is_auto_and_no_job_of_it_writes_the_topic_then_is_refused() -> None:
    code, field, value, _ = await refusal(Placing(), auto("a", "auto:out/none"))

    assert (code, field, value) == (ErrorCode.INVALID, "jobs[0].inputs[0].site", "auto")


def test_site_when_it_would_be_called_auto_then_is_refused() -> None:
    with pytest.raises(ValueError, match="'auto' asks Towpath to find a site"):
        SiteSpec(name="auto")
