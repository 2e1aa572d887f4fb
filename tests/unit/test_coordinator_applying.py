"""One apply under way, between a registry and operations that are played."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from towpath.contracts.commands import DeployJob, OperationAnswer, OperationKind, OperationState
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import Command, Event
from towpath.contracts.migration import DropOutput, PrepareOutput
from towpath.contracts.pipeline import Action, ChangeState, PipelineJob, PipelineSpec, PlannedChange
from towpath.coordinator import apply_run
from towpath.coordinator.apply_run import ApplyRun
from towpath.coordinator.pipeline_plans import decide
from towpath.coordinator.pipeline_record import ApplyRecord, ChangeRecord, PipelineRecord
from towpath.coordinator.plans import complete, new_entry, plan_deploy
from towpath.coordinator.topics import resolve_inputs
from towpath.coordinator.world import Outlook, World
from towpath.protocols.record import FormerJob, JobEntry, OperationRecord


def job(name: str, reads: str = "site/raw", writes: str | None = None) -> PipelineJob:
    return PipelineJob.model_validate(
        {
            "name": name,
            "site": "jfk",
            "inputs": [{"site": "jfk", "topic": reads}],
            "output": {"topic": writes or f"out/{name}"},
            "operator": {"kind": "forward"},
        }
    )


def entry(
    wanted: PipelineJob, jobs: Mapping[str, JobEntry] | None = None, pipeline: str | None = "delays"
) -> JobEntry:
    """A job that was deployed when there were these `jobs`."""
    spec = complete(wanted.job_spec())
    return new_entry(spec, None, resolve_inputs(spec, jobs or {}), pipeline)


def apply_record(spec: PipelineSpec, *, purge: bool = False, order: Sequence[str] = ()) -> ApplyRecord:
    begun_at = datetime(2026, 1, 1, tzinfo=UTC)
    return ApplyRecord(
        id="a1", command="c1", version=1, spec=spec, purge=purge, order=[*order], begun_at=begun_at
    )


@dataclass
class Played:
    """The registry, the sites, the bus and the operations of a coordinator."""

    entries: dict[str, JobEntry] = field(default_factory=dict)
    left: dict[str, FormerJob] = field(default_factory=dict)
    accepted: set[str] = field(default_factory=set)
    """Commands that became operations."""
    failures: list[TowpathError] = field(default_factory=list)
    """What the next attempts to carry a command out meet."""
    unreachable: bool = False
    planned: list[OperationRecord] = field(default_factory=list)
    requested: list[Command[Any]] = field(default_factory=list)

    names: tuple[str, ...] = ()

    async def latest(self, limit: int) -> list[OperationRecord]:
        return []

    async def pipelines(self) -> dict[str, PipelineRecord]:
        return {"delays": PipelineRecord(name="delays", version=1, apply="a1")}

    async def record(self, apply: str) -> ApplyRecord:
        return apply_record(pipeline())

    async def jobs(self) -> dict[str, JobEntry]:
        return self.entries

    async def former(self, name: str) -> FormerJob | None:
        return self.left.get(name)

    async def locks(self) -> dict[str, str]:
        return {}

    async def operation_of(self, command: str) -> str | None:
        return command if command in self.accepted else None

    async def check_up(self, site: str, field: str) -> None: ...

    def check_known(self, site: str, field: str) -> None: ...

    async def stored(self, spec: Any) -> None: ...

    async def save_change(self, apply: str, change: ChangeRecord) -> None: ...

    async def publish(self, event: Event) -> None: ...

    async def request(self, command: Command[Any], *, deadline_s: float, attempt_s: float) -> None:
        self.requested.append(command)
        if self.unreachable:
            raise TowpathError(ErrorCode.UNREACHABLE, "nobody answers")

    async def accept(
        self, command: Command[Any], job: str, plan: Callable[[], Awaitable[OperationRecord]], *, wait: bool
    ) -> OperationAnswer:
        if self.failures:
            raise self.failures.pop(0)
        self.planned.append(await plan())
        return OperationAnswer(
            operation="o1", job=job, kind=OperationKind.UPDATE, state=OperationState.COMPLETED
        )

    @property
    def world(self) -> World:
        played = cast("Any", self)
        return World(played, played, played, played)

    async def carry_out(
        self, spec: PipelineSpec, *changes: tuple[PlannedChange, ChangeState], purge: bool = False
    ) -> dict[str, ChangeState]:
        """Run an apply that may have been begun before; how its changes end."""
        record = apply_record(spec, purge=purge, order=[change.job for change, _ in changes])
        begun = {change.job: ChangeRecord(change=change, state=state) for change, state in changes}
        played = cast("Any", self)
        run = ApplyRun(record, begun, self.world, played, played, self.publish)
        await run.run()
        return {name: change.state for name, change in run.changes.items()}


def pipeline(*jobs: PipelineJob) -> PipelineSpec:
    return PipelineSpec(name="delays", jobs=list(jobs))


def planned(name: str, *actions: Action) -> PlannedChange:
    return PlannedChange(job=name, actions=list(actions), reason="because")


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
    monkeypatch.setattr(apply_run, "PATIENCE_S", 0.0)
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
    alone = await plan_deploy(command, Played().world)
    assert not alone.output_existed
    within = await plan_deploy(command, Played().world, Outlook("delays"))
    assert within.output_existed


async def test_deploy_in_a_pipeline_when_another_has_the_very_job_then_is_refused() -> None:
    wanted = job("a")
    command = DeployJob(spec=wanted.job_spec())
    with pytest.raises(TowpathError) as refused:
        await plan_deploy(command, Played({"a": entry(wanted, pipeline="other")}).world, Outlook("delays"))
    assert refused.value.detail.code is ErrorCode.NAME_IN_USE


async def test_decision_when_made_while_an_apply_is_under_way_then_says_so() -> None:
    played = Played()
    decision = await decide(pipeline(), played.world, cast("Any", played), drop_state=[])
    assert decision.under_way == "a1"
