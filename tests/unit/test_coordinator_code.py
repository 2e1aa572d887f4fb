"""A job runs the user code that was decided on, even if other code lies at its path when it is deployed."""

from __future__ import annotations

from typing import Any, cast

import pytest
from coordinator_trial import Played, apply_record, entry, job, pipeline, planned

from towpath.api.handlers.jobs import names_code
from towpath.contracts.commands import UpdateJob
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import JobSpec
from towpath.contracts.pipeline import Action, ChangeState, PipelineJob
from towpath.contracts.site import SiteState
from towpath.contracts.site_commands import TryCode
from towpath.coordinator.jobs.plans import plan_update
from towpath.coordinator.pipelines.decisions import Decision, decide
from towpath.coordinator.pipelines.user_code import tried_code
from towpath.protocols.record import JobEntry


def coded(path: str = "job.whl", **changes: Any) -> PipelineJob:
    """A job `a` with user code."""
    operator = {"kind": "python", "entry": "job:run", "artefact": path}
    return PipelineJob.model_validate(job("a").model_dump() | {"operator": operator} | changes)


def runs(wanted: PipelineJob, digest: str) -> dict[str, JobEntry]:
    return {"a": entry(wanted).model_copy(update={"artefact": digest})}


def applied(wanted: PipelineJob, digest: str, **lying: str) -> Played:
    """A pipeline that was applied with code of this digest; by now something else may lie at its path."""
    pinned = wanted.model_copy(update={"output": entry(wanted).spec.output})
    newest = apply_record(pipeline(pinned)).model_copy(update={"artefacts": {"a": digest}})
    return Played(
        runs(wanted, digest), newest=newest, lying={k.replace("_", "."): v for k, v in lying.items()}
    )


async def decided(played: Played, *jobs: PipelineJob, **more: Any) -> Decision:
    return await decide(pipeline(*jobs), played.situation, cast("Any", played), drop_state=["a"], **more)


async def test_code_when_it_changed_at_its_old_path_then_that_is_a_new_version() -> None:
    decision = await decided(applied(coded(), "good", job_whl="bad"), coded())
    assert [c.actions for c in decision.changes] == [[Action.CHANGE]]
    assert (decision.is_current, decision.version, decision.artefacts) == (False, 2, {"a": "bad"})
    unchanged = await decided(applied(coded(), "good", job_whl="good"), coded())
    assert (unchanged.is_current, unchanged.changes_nothing) == (True, True)


async def test_rollback_when_other_code_lies_at_the_path_by_now_then_takes_what_the_version_had() -> None:
    decision = await decided(applied(coded(), "bad", job_whl="bad"), coded(), kept={"a": "good"})
    assert [c.actions for c in decision.changes] == [[Action.CHANGE]]
    assert (decision.is_current, decision.artefacts) == (False, {"a": "good"})


async def test_rollback_when_the_code_is_not_kept_any_more_then_that_is_told_with_its_place() -> None:
    class Forgotten(Played):
        async def check_kept(self, digest: str) -> None:
            raise TowpathError(ErrorCode.INVALID, "not kept", field="operator.artefact", value=digest)

    _, (error,) = await tried_code(pipeline(coded()), Forgotten().situation, {}, {"a": "good"})
    assert (error.field, error.value) == ("jobs[0].operator.artefact", "good")


async def test_code_when_it_lies_there_no_more_then_an_untouched_job_keeps_it() -> None:
    decision = await decided(applied(coded(), "good"), coded())
    assert (decision.changes_nothing, decision.artefacts) == (True, {"a": "good"})


async def test_code_when_it_is_the_same_at_another_path_then_nothing_changes() -> None:
    played = applied(coded(), "good", other_whl="good")
    decision = await decide(
        pipeline(coded("other.whl")), played.situation, cast("Any", played), drop_state=[]
    )
    assert decision.changes_nothing
    spec = JobSpec.model_validate(coded("other.whl", trigger_s=7).job_spec())
    operation = await plan_update(UpdateJob(spec=spec), played.situation)
    assert operation.entry_after.generation == operation.entry_before.generation, "its state stays"


async def test_code_when_it_moved_and_lies_there_no_more_either_then_an_untouched_job_keeps_it() -> None:
    played = applied(coded("other.whl"), "good")
    played.entries = runs(coded(), "good")
    decision = await decided(played, coded("other.whl"))
    assert (decision.changes_nothing, decision.artefacts) == (True, {"a": "good"})


async def test_rollback_when_only_the_code_differs_and_the_site_is_down_then_that_is_told_first() -> None:
    class Down(Played):
        def state(self, site: str) -> SiteState:
            return SiteState.DOWN

    known = applied(coded(), "bad", job_whl="bad")
    played = Down(known.entries, newest=known.newest, lying=known.lying)
    with pytest.raises(TowpathError) as refused:
        await decided(played, coded(), kept={"a": "good"})
    assert [(e.code, e.field) for e in refused.value.detail.errors] == [(ErrorCode.SITE_DOWN, "jobs[0].site")]
    unchanged = await decided(
        Down(known.entries, newest=known.newest, lying={"x.whl": "bad"}), coded("x.whl")
    )
    assert unchanged.changes_nothing


async def test_apply_when_other_code_lies_at_the_path_by_now_then_deploys_what_was_decided_on() -> None:
    played = Played(newest=None, lying={"job.whl": "bad"})
    await played.carry_out(
        pipeline(coded()), (planned("a", Action.ADD), ChangeState.WAITING), artefacts={"a": "good"}
    )
    (operation,) = played.planned
    assert operation.entry_after.artefact == "good"


async def test_patch_when_it_does_not_speak_of_the_code_then_the_job_keeps_it() -> None:
    assert not names_code({"trigger_s": 2})
    assert not names_code({"operator": {"parameters": {"limit": 3}}})
    assert names_code({"operator": {"artefact": "job.whl"}})
    spec = coded(trigger_s=7).job_spec()
    for played in (applied(coded(), "good", job_whl="bad"), applied(coded(), "good")):
        operation = await plan_update(UpdateJob(spec=spec, keep_code=True), played.situation)
        assert operation.entry_after.artefact == "good"


def installed(entry_point: str, **changes: Any) -> PipelineJob:
    """A job whose code the environment of its site has."""
    operator = {"kind": "python", "entry": entry_point}
    return PipelineJob.model_validate(job("a").model_dump() | {"operator": operator} | changes)


async def test_code_when_only_the_site_has_it_then_is_tried_there_before_anything_is_touched() -> None:
    played = Played(uncallable={"nosuch:run"})
    digests, (error,) = await tried_code(pipeline(installed("nosuch:run")), played.situation, {}, {})
    assert (digests, error.field) == ({}, "jobs[0].operator.entry")
    assert await tried_code(pipeline(installed("there:run")), played.situation, {}, {}) == ({}, [])


async def test_code_when_it_cannot_be_tried_beside_the_coordinator_then_the_site_gets_its_digest() -> None:
    played = Played(lying={"job.whl": "good"}, can_try=False)
    assert await tried_code(pipeline(coded()), played.situation, {}, {}) == ({"a": "good"}, [])
    assert [c.artefact for c in played.requested if isinstance(c, TryCode)] == ["good"]


async def test_code_when_the_job_runs_with_it_already_or_its_site_is_silent_then_nothing_is_said() -> None:
    there = installed("there:run")
    played = Played({"a": entry(there)}, unreachable=True)
    assert await tried_code(pipeline(there), played.situation, played.entries, {}) == ({}, [])
    assert played.requested == []
    assert await tried_code(pipeline(installed("new:run")), played.situation, {}, {}) == ({}, [])
