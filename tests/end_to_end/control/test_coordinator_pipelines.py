"""Pipelines are applied, changed and deleted, even while processes die. Agents act, but run no Spark."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import pytest

from running.coordinator import Trial, spec
from running.promises import promise
from running.waiting import WITHIN_S, eventually
from towpath.contracts.commands import DeployJob, ListJobs, StrategyName
from towpath.contracts.errors import ErrorCode
from towpath.contracts.message import new_identifier
from towpath.contracts.pipeline import Action, ApplyState, ApplyView, ChangeState, PipelineSpec
from towpath.contracts.pipeline_commands import (
    ApplyPipeline,
    DeletePipeline,
    ListPipelines,
    PlanPipeline,
    RetryPipeline,
    RollbackPipeline,
    ShowPipeline,
    ShowPipelineHistory,
)

pytestmark = pytest.mark.asyncio(loop_scope="session")

FORWARD: dict[str, Any] = {"kind": "forward"}


def job(name: str, reads: str = "site/raw", writes: str | None = None, **changes: Any) -> dict[str, Any]:
    body = {
        "name": name,
        "site": "jfk",
        "inputs": [{"site": "jfk", "topic": reads}],
        "output": {"topic": writes or f"out/{name}", "site": "jfk"},
        "operator": FORWARD,
    }
    return {**body, **changes}


def pipeline(*jobs: dict[str, Any], name: str = "delays") -> PipelineSpec:
    return PipelineSpec.model_validate({"name": name, "jobs": list(jobs)})


def chain(length: int, start: str = "earliest", **changes: Any) -> list[dict[str, Any]]:
    """Return jobs that read each other: the first reads devices."""
    topics = ["site/raw", *(f"out/c{n:02d}" for n in range(length - 1))]
    inputs = [[{"site": "jfk", "topic": topic, "start": start}] for topic in topics]
    return [job(f"c{n:02d}", **{"inputs": reads, **changes}) for n, reads in enumerate(inputs)]


def actions(view: ApplyView) -> dict[str, list[Action]]:
    return {c.change.job: c.change.actions for c in view.changes}


async def sites_of(trial: Trial) -> dict[str, str]:
    return {view.spec.name: view.site for view in (await trial.ask(ListJobs())).jobs}


async def test_pipeline_when_jobs_begin_with_the_latest_then_sinks_began_before_sources(trial: Trial) -> None:
    view = await trial.ask(ApplyPipeline(spec=pipeline(*chain(3, "latest"))))
    assert view.state is ApplyState.COMPLETED
    assert await sites_of(trial) == {"c00": "jfk", "c01": "jfk", "c02": "jfk"}
    begun = {c.change.job: c.change.after for c in view.changes}
    assert begun == {"c00": ["c01"], "c01": ["c02"], "c02": []}
    shown = await trial.ask(ShowPipeline(pipeline="delays"))
    assert (shown.version, shown.job_versions) == (1, {"c00": 1, "c01": 1, "c02": 1})
    owned = [job.pipeline for job in (await trial.ask(ListJobs())).jobs]
    assert owned == ["delays"] * 3


async def test_pipeline_when_applied_again_then_nothing_is_touched(trial: Trial) -> None:
    await trial.ask(ApplyPipeline(spec=pipeline(*chain(3))))
    before = list(trial.agents.reached)
    view = await trial.ask(ApplyPipeline(spec=pipeline(*chain(3))))
    assert (view.state, view.version) == (ApplyState.COMPLETED, 1)
    assert set(map(tuple, actions(view).values())) == {(Action.KEEP,)}
    assert trial.agents.reached == before


@promise("applies")
async def test_pipeline_when_changed_then_only_what_differs_is_done(trial: Trial) -> None:
    a, b, c, d = (
        job("a", writes="t/a"),
        job("b", "t/a", "t/b"),
        job("c", "t/a", "t/c"),
        job("d", "t/c", "t/d"),
    )
    await trial.ask(ApplyPipeline(spec=pipeline(a, b, c, d)))
    changed = pipeline(
        a,
        job("c", "t/a", "t/c-raw"),
        job("c2", "t/c-raw", "t/c"),
        {**d, "site": "lga", "strategy": "general"},
    )
    plan = await trial.ask(PlanPipeline(spec=changed))
    assert {p.job: p.actions for p in plan.changes} == {
        "a": [Action.KEEP],
        "b": [Action.REMOVE],
        "c": [Action.REDIRECT],
        "c2": [Action.ADD],
        "d": [Action.REDIRECT, Action.MOVE],
    }
    moved = next(p for p in plan.changes if p.job == "d")
    assert (moved.source, moved.target, moved.strategy) == ("jfk", "lga", StrategyName.GENERAL)
    assert plan.predicted_s > 0
    view = await trial.ask(ApplyPipeline(spec=changed))
    assert view.state is ApplyState.COMPLETED
    assert await sites_of(trial) == {"a": "jfk", "c": "jfk", "c2": "jfk", "d": "lga"}
    jobs = {view.spec.name: view for view in (await trial.ask(ListJobs())).jobs}
    assert jobs["c"].output.stream == "OUT_c_1", "another topic is another stream"
    assert [i.stream for i in jobs["c2"].inputs] == ["OUT_c_1"]
    assert [i.stream for i in jobs["d"].inputs] == ["OUT_c2"]


async def test_plan_when_asked_then_changes_nothing(trial: Trial) -> None:
    plan = await trial.ask(PlanPipeline(spec=pipeline(*chain(2))))
    assert (plan.version, [c.actions for c in plan.changes]) == (1, [[Action.ADD], [Action.ADD]])
    assert await sites_of(trial) == {}
    assert (await trial.ask(ListPipelines())).pipelines == []


async def test_pipeline_when_several_things_are_wrong_then_all_are_told_and_nothing_is_done(
    trial: Trial,
) -> None:
    await trial.ask(DeployJob(spec=spec("taken")))
    wrong = pipeline(job("taken"), job("a", site="mars"), job("b", reads="out/missing"))
    detail = (await trial.refusal(ApplyPipeline(spec=wrong))).detail
    found = {(error.field, error.code) for error in detail.errors}
    assert ("jobs[0].name", ErrorCode.NAME_IN_USE) in found
    assert ("jobs[1].site", ErrorCode.UNKNOWN_SITE) in found
    assert ("jobs[2].inputs[0].topic", ErrorCode.UNKNOWN_TOPIC) in found
    assert set(await sites_of(trial)) == {"taken"}


async def test_apply_when_another_one_is_under_way_then_is_refused(trial: Trial) -> None:
    trial.agents.gates["start-job"] = asyncio.Event()
    first = await trial.ask(ApplyPipeline(spec=pipeline(*chain(2)), wait=False))
    assert first.state is ApplyState.RUNNING
    refused = (await trial.refusal(ApplyPipeline(spec=pipeline(*chain(3))))).detail
    assert (refused.code, refused.field, refused.value) == (ErrorCode.BUSY, "pipeline", "delays")
    trial.agents.gates["start-job"].set()

    async def ended() -> bool:
        return (await trial.ask(ShowPipeline(pipeline="delays"))).apply.state is ApplyState.COMPLETED

    await eventually(ended)


async def test_apply_when_a_job_fails_then_says_which_and_retry_or_rollback_end_well(trial: Trial) -> None:
    await trial.ask(ApplyPipeline(spec=pipeline(*chain(2, "latest"))))
    trial.agents.refused.add("check-spec")
    more = pipeline(*chain(4, "latest"))
    failed = await trial.ask(ApplyPipeline(spec=more))
    assert failed.state is ApplyState.FAILED
    states = {c.change.job: c.state for c in failed.changes}
    assert states["c03"] is ChangeState.FAILED
    assert states["c02"] is ChangeState.SKIPPED
    assert "pipeline retry delays" in failed.note
    shown = await trial.ask(ShowPipeline(pipeline="delays"))
    assert shown.job_versions == {"c00": 2, "c01": 2}
    trial.agents.refused.clear()
    assert (await trial.ask(RetryPipeline(pipeline="delays"))).state is ApplyState.COMPLETED
    assert len(await sites_of(trial)) == 4
    back = await trial.ask(RollbackPipeline(pipeline="delays", version=1))
    assert (back.state, back.version) == (ApplyState.COMPLETED, 3)
    assert set(await sites_of(trial)) == {"c00", "c01"}
    history = await trial.ask(ShowPipelineHistory(pipeline="delays"))
    assert [(v.version, len(v.spec.jobs)) for v in history.versions] == [(3, 2), (2, 4), (1, 2)]


async def test_pipeline_when_deleted_then_sources_went_first_and_its_name_is_free(trial: Trial) -> None:
    await trial.ask(ApplyPipeline(spec=pipeline(*chain(3))))
    command = DeletePipeline(pipeline="delays")
    view = await trial.ask(command)
    assert view.state is ApplyState.COMPLETED
    assert {c.change.job: c.change.after for c in view.changes} == {
        "c00": [],
        "c01": ["c00"],
        "c02": ["c01"],
    }
    assert await sites_of(trial) == {}
    assert (await trial.ask(ListPipelines())).pipelines == []
    assert (await trial.ask(command)).apply == view.apply, "the repeated command is the same apply"
    assert (await trial.refusal(ShowPipeline(pipeline="delays"))).detail.code is ErrorCode.UNKNOWN_PIPELINE


@pytest.mark.parametrize("after", [1, 7, pytest.param(16, marks=promise("applies")), 30, 44])
async def test_coordinator_when_killed_during_an_apply_of_twenty_changes_then_the_next_one_finishes_it(
    trial: Trial, after: int
) -> None:
    old = [job(f"old-{n}") for n in range(7)]
    kept = [job(f"kept-{n}") for n in range(7)]
    await trial.ask(ApplyPipeline(spec=pipeline(*old, *kept), at_once=8))
    moved = [{**job, "site": "lga", "strategy": "general"} for job in kept[:6]]
    new = [job(f"new-{n}") for n in range(7)]
    command = ApplyPipeline(id=new_identifier(), spec=pipeline(*moved, kept[6], *new), at_once=4, now=True)
    begun = len(trial.agents.reached)
    asking = trial.in_background(trial.client.request(command, deadline_s=2 * WITHIN_S, attempt_s=2))

    async def far_enough() -> bool:
        return len(trial.agents.reached) - begun >= after

    await eventually(far_enough)
    await trial.end_coordinator(signal.SIGKILL)
    await trial.start_coordinator()
    view = await asking
    assert view.state is ApplyState.COMPLETED
    sites = await sites_of(trial)
    assert sites == {
        **{f"kept-{n}": "lga" for n in range(6)},
        "kept-6": "jfk",
        **{f"new-{n}": "jfk" for n in range(7)},
    }
    for name, site in sites.items():
        assert trial.owners(name) == [site]
        trial.check_nothing_lost(name)
    operations = [o for c in view.changes for o in c.operations]
    assert len(operations) == len(set(operations)) == 20, "each change is one operation"
