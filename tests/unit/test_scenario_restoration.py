"""A run's changes are undone. It never deletes or permanently changes what was there before."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from towpath.contracts.commands import (
    DeployJob,
    JobList,
    JobView,
    MigrateJob,
    OperationAnswer,
    RemoveJob,
    StrategyName,
    UpdateJob,
)
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import JobSpec
from towpath.contracts.message import Command
from towpath.contracts.pipeline import ApplyState, ApplyView, PipelineSpec, PipelineView
from towpath.contracts.pipeline_commands import ApplyPipeline, DeletePipeline, PipelineList, RollbackPipeline
from towpath.lab.harness.journal import Entry, Journal
from towpath.lab.scenarios import restoration
from towpath.lab.scenarios.restoration import Restoration

COUNTED = {
    "kind": "window",
    "fields": {"at": "timestamp"},
    "event_time": "at",
    "watermark_s": 5,
    "size_s": 1,
    "aggregates": {"events": {"function": "count"}},
}


def spec(name: str, **changes: Any) -> JobSpec:
    content: dict[str, Any] = {
        "name": name,
        "site": "jfk",
        "inputs": [{"site": "jfk", "topic": "site/flights"}],
        "output": {"site": "jfk", "topic": f"out/{name}"},
        "operator": {"kind": "forward"},
    }
    return JobSpec.model_validate(content | changes)


def counting(name: str, **changes: Any) -> JobSpec:
    return spec(name, operator=COUNTED, **changes)


def reading(name: str, other: str) -> JobSpec:
    return spec(name, inputs=[{"site": "jfk", "topic": f"out/{other}"}])


def pipeline(*jobs: JobSpec) -> PipelineSpec:
    return PipelineSpec.model_validate({"name": "delays", "jobs": [job.model_dump() for job in jobs]})


class FakeCoordinator:
    """Carries commands out at once, each one once."""

    def __init__(self, *specs: JobSpec) -> None:
        self.jobs = {one.name: self._view(one, one.site) for one in specs}
        self.history: list[PipelineSpec] = []
        self.heard: list[str] = []
        self.done: set[str] = set()
        self.hangs: set[type[Command[Any]]] = set()
        """Kinds of commands that are carried out, and whose first answer never comes."""
        self.fails: set[str] = set()
        """Jobs with which nothing works."""
        self.fails_once: dict[str, ErrorCode] = {}
        self.sent: list[Command[Any]] = []
        """All that change something, refused ones too."""
        self.state = ApplyState.COMPLETED

    async def request(self, command: Any, *, deadline_s: float, attempt_s: float | None = None) -> Any:
        kind = type(command)
        if kind.__name__.startswith("List"):
            return self._listed(kind.__name__)
        self.sent.append(command)
        repeated = command.id in self.done
        answer = OperationAnswer.model_validate(
            {"operation": command.id, "job": "j", "kind": "deploy", "state": "completed"}
        )
        if not repeated:
            self.heard.append(command.verb())
            answer = self._carry_out(command) or answer
            self.done.add(command.id)
        if kind in self.hangs and not repeated:
            await asyncio.Event().wait()
        return answer

    def _listed(self, kind: str) -> Any:
        if kind == "ListJobs":
            return JobList(jobs=list(self.jobs.values()))
        return PipelineList(pipelines=[self._pipeline()] if self.history else [])

    def _carry_out(self, command: Any) -> ApplyView | None:
        match command:
            case DeployJob():
                self.jobs[command.spec.name] = self._view(command.spec, command.spec.site)
            case UpdateJob():
                self._check(command.spec.name)
                known = self.jobs[command.spec.name]
                self.jobs[command.spec.name] = known.model_copy(update={"spec": command.spec})
            case MigrateJob():
                self._check(command.job)
                self.jobs[command.job] = self.jobs[command.job].model_copy(update={"site": command.to})
            case RemoveJob():
                self._check(command.job)
                self._check_unread(command.job)
                del self.jobs[command.job]
            case ApplyPipeline():
                return self._apply(command.spec)
            case RollbackPipeline():
                return self._apply(self.history[(command.version or 0) - 1])
            case DeletePipeline():
                self._apply(PipelineSpec(name=command.pipeline, jobs=[]))
                view = self._pipeline().apply
                self.history.clear()
                return view
            case _:
                raise AssertionError(command)
        return None

    def _apply(self, wanted: PipelineSpec) -> ApplyView:
        self.history.append(wanted)
        self.jobs = {name: view for name, view in self.jobs.items() if view.pipeline is None}
        for job in wanted.jobs:
            view = self._view(job.job_spec(), job.site)
            self.jobs[job.name] = view.model_copy(update={"pipeline": wanted.name})
        return self._pipeline().apply

    def _pipeline(self) -> PipelineView:
        version = len(self.history)
        apply = {"apply": "a", "pipeline": "delays", "version": version, "state": self.state, "changes": []}
        return PipelineView.model_validate(
            {
                "pipeline": "delays",
                "version": version,
                "spec": self.history[-1],
                "apply": apply | {"begun_at": "2026-01-01T00:00:00Z"},
            }
        )

    def _check(self, job: str) -> None:
        if job in self.fails_once:
            raise TowpathError(self.fails_once.pop(job), f"{job} does not work yet")
        if job in self.fails:
            raise TowpathError(ErrorCode.FAILED, f"{job} does not work")

    def _check_unread(self, job: str) -> None:
        for view in self.jobs.values():
            if any(entry.topic == f"out/{job}" for entry in view.spec.inputs):
                raise TowpathError(ErrorCode.NOT_ALLOWED, f"{view.spec.name} read(s) what this job wrote")

    def _view(self, one: JobSpec, site: str) -> JobView:
        output = {
            "site": "jfk",
            "stream": f"OUT_{one.name}",
            "topic": one.output.topic,
            "rejected_topic": "r",
        }
        content = {"spec": one, "site": site, "epoch": 1, "state": None, "operation": None, "status": None}
        return JobView.model_validate(content | {"output": output})


async def looked(coordinator: FakeCoordinator, journal: Journal | None = None) -> Restoration:
    restored = Restoration(coordinator, journal or Journal(None))  # type: ignore[arg-type]
    await restored.look()
    return restored


async def refusal(coordinator: FakeCoordinator, change: Command[Any]) -> TowpathError:
    restored = await looked(coordinator)
    with pytest.raises(TowpathError) as refused:
        await restored.send(change)
    assert coordinator.heard == [], "nothing was sent"
    return refused.value


async def test_jobs_that_the_run_brought_when_put_back_then_go_readers_first() -> None:
    coordinator = FakeCoordinator(spec("theirs"))
    run = await looked(coordinator)
    for one in (spec("first"), reading("second", "first"), reading("third", "second")):
        await run.send(DeployJob(spec=one))
    assert await run.put_back() == []
    assert list(coordinator.jobs) == ["theirs"]


async def test_job_that_was_there_when_changed_and_moved_then_is_as_it_was_where_it_was() -> None:
    theirs = counting("theirs")
    coordinator = FakeCoordinator(theirs)
    run = await looked(coordinator)
    await run.send(UpdateJob(spec=theirs.model_copy(update={"trigger_s": 7.0})))
    await run.send(MigrateJob(job="theirs", to="cloud"))
    assert await run.put_back() == []
    assert (coordinator.jobs["theirs"].spec, coordinator.jobs["theirs"].site) == (theirs, "jfk")
    assert "remove" not in coordinator.heard


async def test_job_with_user_code_when_put_back_then_keeps_its_code_whatever_lies_at_its_path() -> None:
    theirs = spec("theirs", operator={"kind": "python", "entry": "job:run", "artefact": "job.whl"})
    coordinator = FakeCoordinator(theirs)
    run = await looked(coordinator)
    await run.send(UpdateJob(spec=theirs.model_copy(update={"trigger_s": 7.0}), keep_code=True))
    assert await run.put_back() == []
    assert [change.keep_code for change in coordinator.sent if isinstance(change, UpdateJob)] == [True, True]


@pytest.mark.parametrize(
    ("code", "is_same"),
    [(ErrorCode.DEADLINE, True), (ErrorCode.FAILED, False)],
    ids=["no answer: it may be under way", "it failed: its end is known"],
)
async def test_way_back_when_tried_again_then_is_another_command_only_if_the_first_one_has_failed(
    code: ErrorCode, is_same: bool
) -> None:
    coordinator = FakeCoordinator(spec("theirs"), reading("other", "theirs"))
    run = await looked(coordinator)
    for name in ("theirs", "other"):
        await run.send(MigrateJob(job=name, to="cloud"))
    coordinator.fails_once = {"theirs": code}
    assert await run.put_back() == []
    assert {view.site for view in coordinator.jobs.values()} == {"jfk"}
    moves = [move for move in coordinator.sent if isinstance(move, MigrateJob) and move.to == "jfk"]
    first, again = (move.id for move in moves if move.job == "theirs")
    assert (first == again) is is_same


async def test_job_that_was_there_when_not_touched_then_is_left_alone() -> None:
    coordinator = FakeCoordinator(spec("theirs"))
    run = await looked(coordinator)
    await run.send(DeployJob(spec=spec("mine")))
    assert await run.put_back() == []
    assert coordinator.heard == ["deploy", "remove"]


async def test_pipeline_that_was_there_when_applied_then_is_rolled_back_and_not_deleted() -> None:
    coordinator = FakeCoordinator()
    was = pipeline(spec("a"), spec("b"))
    coordinator._apply(was)
    run = await looked(coordinator)
    changed = pipeline(spec("a", trigger_s=5.0), spec("b"), spec("c"))
    await run.send(ApplyPipeline(spec=changed))
    await run.send(MigrateJob(job="b", to="cloud"))
    assert await run.put_back() == []
    assert coordinator.heard == ["apply-pipeline", "migrate", "rollback-pipeline"]
    assert [job.trigger_s for job in coordinator.history[-1].jobs] == [1.0, 1.0]
    assert {view.site for view in coordinator.jobs.values()} == {"jfk"}


async def test_job_moved_by_hand_before_when_its_pipeline_was_applied_then_is_where_it_was() -> None:
    coordinator = FakeCoordinator()
    coordinator._apply(pipeline(spec("a"), spec("b")))
    coordinator.jobs["b"] = coordinator.jobs["b"].model_copy(update={"site": "cloud"})
    run = await looked(coordinator)
    await run.send(ApplyPipeline(spec=pipeline(spec("a", trigger_s=5.0), spec("b"))))
    assert await run.put_back() == []
    assert coordinator.jobs["b"].site == "cloud"


async def test_pipeline_that_the_run_brought_when_put_back_then_is_deleted_with_its_jobs() -> None:
    coordinator = FakeCoordinator()
    run = await looked(coordinator)
    await run.send(ApplyPipeline(spec=pipeline(spec("a"))))
    assert await run.put_back() == []
    assert (coordinator.jobs, coordinator.history) == ({}, [])


@pytest.mark.parametrize("change", [DeployJob(spec=spec("mine")), ApplyPipeline(spec=pipeline(spec("mine")))])
async def test_change_when_the_run_ends_before_its_answer_then_is_put_back_as_well(
    change: Command[Any],
) -> None:
    coordinator = FakeCoordinator()
    coordinator.hangs = {type(change)}
    run = await looked(coordinator)
    waiting = asyncio.create_task(run.send(change))
    while not coordinator.heard:
        await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert coordinator.jobs
    assert await run.put_back() == []
    assert coordinator.jobs == {}


async def test_change_when_nothing_has_come_of_it_yet_then_is_awaited_before_it_is_undone() -> None:
    """The run ended while its command was on its way: to look once would be too early."""
    coordinator = FakeCoordinator()
    run = await looked(coordinator)
    change = DeployJob(spec=spec("mine"))
    run._outstanding[change.id] = change
    run._jobs["mine"] = None
    assert await run.put_back() == []
    assert (coordinator.heard, coordinator.jobs) == (["deploy", "remove"], {})


async def test_operation_when_still_under_way_then_its_job_is_put_back_behind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(restoration, "LOOK_EVERY_S", 0.001)
    coordinator = FakeCoordinator(spec("theirs"))
    run = await looked(coordinator)
    await run.send(MigrateJob(job="theirs", to="cloud", wait=False))
    moving = coordinator.jobs["theirs"]
    coordinator.jobs["theirs"] = moving.model_copy(update={"operation": "m1"})
    coordinator.fails.add("theirs")
    putting = asyncio.create_task(run.put_back())
    for _ in range(20):
        await asyncio.sleep(0.001)
    assert not putting.done()
    coordinator.fails.clear()
    coordinator.jobs["theirs"] = moving
    assert await putting == []
    assert coordinator.jobs["theirs"].site == "jfk"


async def test_one_that_cannot_be_put_back_then_is_told_and_all_others_are() -> None:
    coordinator = FakeCoordinator(spec("theirs"))
    run = await looked(coordinator)
    await run.send(MigrateJob(job="theirs", to="cloud"))
    for name in ("mine", "stuck"):
        await run.send(DeployJob(spec=spec(name)))
    coordinator.fails.add("stuck")
    [problem] = await run.put_back()
    assert "stuck does not work" in problem
    assert {name: view.site for name, view in coordinator.jobs.items()} == {"theirs": "jfk", "stuck": "jfk"}


async def test_journal_when_something_changes_then_says_before_what_it_was() -> None:
    journal = Journal(None)
    run = await looked(FakeCoordinator(spec("theirs")), journal)
    await run.send(MigrateJob(job="theirs", to="cloud"))
    await run.send(MigrateJob(job="theirs", to="lga"))
    await run.send(DeployJob(spec=spec("mine")))
    theirs, mine = journal.of(Entry.CHANGED)
    assert (theirs["job"], theirs["was"]["site"], theirs["was"]["spec"]["name"]) == (
        "theirs",
        "jfk",
        "theirs",
    )
    assert (mine["job"], mine["was"]) == ("mine", None)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (DeployJob(spec=spec("theirs")), "name"),
        (RemoveJob(job="theirs"), "job"),
        (UpdateJob(spec=counting("theirs"), drop_state=True), "drop_state"),
        (UpdateJob(spec=spec("theirs")), "theirs.operator"),
        (UpdateJob(spec=counting("theirs", output={"topic": "out/new"})), "theirs.output"),
        (UpdateJob(spec=counting("theirs", inputs=[{"site": "jfk", "topic": "site/x"}])), "theirs.inputs"),
        (MigrateJob(job="theirs", to="cloud", strategy=StrategyName.RESTART), "strategy"),
    ],
)
async def test_change_of_a_job_that_was_there_when_it_could_not_be_put_back_then_is_refused(
    change: Command[Any], field: str
) -> None:
    error = await refusal(FakeCoordinator(counting("theirs")), change)
    assert error.detail.field == field
    assert error.detail.allowed


@pytest.mark.parametrize(
    ("jobs", "field"),
    [
        ([spec("a")], "apply.jobs without"),
        ([spec("a"), reading("b", "a")], "b.inputs"),
        ([spec("a", output={"site": "jfk", "topic": "out/x"}), spec("b")], "a.output"),
    ],
)
async def test_change_of_a_pipeline_that_was_there_when_it_could_not_be_put_back_then_is_refused(
    jobs: list[JobSpec], field: str
) -> None:
    coordinator = FakeCoordinator()
    coordinator._apply(pipeline(spec("a"), spec("b")))
    assert (await refusal(coordinator, ApplyPipeline(spec=pipeline(*jobs)))).detail.field == field


async def test_pipeline_that_was_there_when_its_last_apply_failed_then_is_not_touched() -> None:
    coordinator = FakeCoordinator()
    coordinator._apply(pipeline(spec("a")))
    coordinator.state = ApplyState.FAILED
    error = await refusal(coordinator, ApplyPipeline(spec=pipeline(spec("a", trigger_s=3.0))))
    assert error.detail.field == "apply.name"


async def test_output_site_when_left_out_then_is_the_one_it_was() -> None:
    coordinator = FakeCoordinator(spec("theirs", output={"site": "cloud", "topic": "out/theirs"}))
    run = await looked(coordinator)
    await run.send(UpdateJob(spec=spec("theirs", output={"topic": "out/theirs"}, trigger_s=4.0)))
    assert coordinator.heard == ["update"]
