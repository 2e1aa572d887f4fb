"""One apply under way, between a registry and operations that are played."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, cast

import pytest
from coordinator_trial import WAITING, Played, apply_record, entry, job, pipeline, planned

from towpath.contracts.commands import DeployJob, MigrateJob
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.pipeline import Action, ApplyState, ChangeState, PipelineJob
from towpath.contracts.pipeline_commands import ApplyPipeline
from towpath.contracts.site_commands import DropOutput, PrepareOutput
from towpath.coordinator.jobs.plans import plan_deploy
from towpath.coordinator.pipelines import apply_run
from towpath.coordinator.pipelines.commands import PipelineCommands
from towpath.coordinator.pipelines.decisions import decide
from towpath.coordinator.situation import Upcoming
from towpath.protocols.record import FormerJob


async def test_apply_when_continued_while_a_writer_is_being_deployed_then_its_reader_is_changed() -> None:
    first, second, reader = job("first", writes="t"), job("second", writes="t"), job("reader", "t")
    played = Played({"first": entry(first)})
    played.entries["reader"] = entry(reader, played.entries)
    played.entries["second"] = entry(second).model_copy(update={"running": False})
    ended = await played.carry_out(
        pipeline(first, second, reader), (planned("reader", Action.REDIRECT), ChangeState.WAITING)
    )
    assert ended == {"reader": ChangeState.COMPLETED}
    (operation,) = played.planned
    assert [i.stream for i in operation.entry_after.inputs] == ["OUT_first", "OUT_second"]


async def test_reader_when_its_topic_goes_on_in_another_stream_then_reads_that_from_its_beginning() -> None:
    reader = job("reader", "t").model_dump() | {"inputs": [{"site": "jfk", "topic": "t", "start": 5_000}]}
    writer, wanted = job("writer", writes="t"), PipelineJob.model_validate(reader)
    played = Played({"writer": entry(writer)})
    played.entries["reader"] = entry(wanted, played.entries)
    turned = played.entries["writer"].output.model_copy(update={"stream": "OUT_writer_1"})
    played.entries["writer"] = played.entries["writer"].model_copy(update={"output": turned})
    await played.carry_out(
        pipeline(writer, wanted), (planned("reader", Action.REDIRECT), ChangeState.WAITING)
    )
    (operation,) = played.planned
    assert [(i.stream, i.after_serial) for i in operation.entry_before.inputs] == [("OUT_writer", 5_000)]
    assert [(i.stream, i.after_serial) for i in operation.entry_after.inputs] == [("OUT_writer_1", None)]


async def test_apply_when_another_coordinator_runs_its_operation_then_follows_it_to_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(apply_run, "AGAIN_S", 0.01)
    monkeypatch.setattr(apply_run, "TRY_FOR_S", 0.0)
    elsewhere = TowpathError(ErrorCode.UNREACHABLE, "operation o1 is run by another coordinator")
    played = Played(accepted={"a1-0-0"}, failures=[elsewhere] * 3)
    ended = await played.carry_out(pipeline(job("a")), (planned("a", Action.ADD), ChangeState.WAITING))
    assert ended == {"a": ChangeState.COMPLETED}
    refused = Played(failures=[elsewhere] * 3)
    ended = await refused.carry_out(pipeline(job("a")), (planned("a", Action.ADD), ChangeState.WAITING))
    assert ended == {"a": ChangeState.FAILED}, "what was never accepted is given up"


async def test_apply_when_continued_while_a_site_is_out_of_reach_then_what_was_begun_goes_on() -> None:
    played = Played(unreachable=True)
    ended = await played.carry_out(
        pipeline(job("a"), job("b")),
        (planned("a", Action.ADD), ChangeState.RUNNING),
        (planned("b", Action.ADD), ChangeState.WAITING),
    )
    assert ended == {"a": ChangeState.COMPLETED, "b": ChangeState.FAILED}
    assert [c.job for c in played.requested if isinstance(c, PrepareOutput)] == ["b"]


async def test_output_site_when_it_does_not_answer_then_fails_those_that_need_it_and_no_others() -> None:
    far, reader, other = job("far", writes="t"), job("reader", "t"), job("other")
    played = Played(unreachable_for={"far"})
    ended = await played.carry_out(
        pipeline(far, reader, other), *((planned(n, Action.ADD), WAITING) for n in ("far", "reader", "other"))
    )
    assert ended == {"far": ChangeState.FAILED, "reader": ChangeState.SKIPPED, "other": ChangeState.COMPLETED}
    assert "far" in str(played.ended["reader"].error)


async def test_change_when_the_move_after_it_fails_then_says_what_was_done() -> None:
    before = entry(job("a"))
    wanted = PipelineJob.model_validate(job("a").model_dump() | {"site": "lga", "trigger_s": 7})
    played = Played({"a": before}, refuses={MigrateJob})
    ended = await played.carry_out(pipeline(wanted), (planned("a", Action.CHANGE, Action.MOVE), WAITING))
    assert ended == {"a": ChangeState.FAILED}
    assert played.ended["a"].view().done == [Action.CHANGE]


async def test_removal_when_somebody_else_removed_the_job_then_it_is_gone_as_described() -> None:
    ended = await Played().carry_out(pipeline(), (planned("a", Action.REMOVE), ChangeState.WAITING))
    assert ended == {"a": ChangeState.COMPLETED}


async def test_purge_when_a_job_elsewhere_reads_the_results_then_they_stay() -> None:
    gone, read = job("gone"), job("read")
    played = Played({"gone": entry(gone), "read": entry(read)})
    outsider = entry(job("outsider", "out/read"), played.entries, pipeline=None)
    played.left = {name: FormerJob(epoch=1, output=e.output) for name, e in played.entries.items()}
    played.entries = {"outsider": outsider}
    removed = [(planned(name, Action.REMOVE), ChangeState.COMPLETED) for name in ("gone", "read")]
    await played.carry_out(pipeline(), *removed, purge=True)
    assert [c.streams for c in played.requested if isinstance(c, DropOutput)] == [["OUT_gone"]]


async def test_deploy_in_a_pipeline_when_undone_then_keeps_the_output_that_others_read() -> None:
    command = DeployJob(spec=job("a").job_spec())
    alone = await plan_deploy(command, Played().situation)
    assert not alone.output_existed
    within = await plan_deploy(command, Played().situation, Upcoming("delays"))
    assert within.output_existed


async def test_deploy_in_a_pipeline_when_another_has_the_very_job_then_is_refused() -> None:
    wanted = job("a")
    command = DeployJob(spec=wanted.job_spec())
    with pytest.raises(TowpathError) as refused:
        await plan_deploy(
            command, Played({"a": entry(wanted, pipeline="other")}).situation, Upcoming("delays")
        )
    assert refused.value.detail.code is ErrorCode.NAME_IN_USE


async def test_decision_when_made_while_an_apply_is_under_way_then_says_so() -> None:
    played = Played()
    decision = await decide(pipeline(), played.situation, cast("Any", played), drop_state=[])
    assert decision.under_way == "a1"


@pytest.mark.parametrize(("expected", "is_refused"), [(None, False), ("a1", False), ("a0", True)])
async def test_apply_when_made_for_another_one_than_the_newest_then_is_refused_and_does_not_begin(
    expected: str | None, is_refused: bool
) -> None:
    played = Played(newest=apply_record(pipeline()).model_copy(update={"state": ApplyState.COMPLETED}))
    commands = PipelineCommands(played.situation, cast("Any", played), cast("Any", played))
    command = ApplyPipeline(spec=pipeline(job("a")), expected_apply=expected)

    with pytest.raises(TowpathError, match="changed meanwhile") if is_refused else nullcontext():
        await commands.apply(command)

    assert len(played.begun) == (0 if is_refused else 1)
