"""The autopilot's service over a stand-in for the mesh: decisions, people's say, and its memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import ValidationError
from test_mesh_view import job

from running.waiting import eventually
from towpath.autopilot import pilot
from towpath.autopilot.commands import AutopilotCommands
from towpath.autopilot.looking_back import LATENCY
from towpath.autopilot.memory import Memory
from towpath.autopilot.pilot import Pilot
from towpath.autopilot.settings import AutopilotSettings
from towpath.bus import Bus
from towpath.bus.announcements import Announcements
from towpath.contracts.autopilot import (
    AnnounceWindow,
    ApproveDecision,
    AutopilotMode,
    AutopilotSpec,
    Decision,
    DecisionChanged,
    DecisionState,
    RefuseDecision,
    ShowAutopilot,
    WindowChanged,
    WithdrawWindow,
)
from towpath.contracts.commands import (
    JobList,
    ListJobs,
    ListOperations,
    ListSites,
    MigrateJob,
    MigrationFigures,
    OperationAnswer,
    OperationKind,
    OperationList,
    OperationState,
    OperationView,
    ShowOperation,
    SiteList,
)
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import Event, now
from towpath.contracts.metrics import QueryMetrics, Series, SeriesList
from towpath.contracts.pipeline_commands import ListPipelines, PipelineList
from towpath.contracts.site import SiteSpec, SiteState, SiteStatus
from towpath.contracts.storage import QueryValues
from towpath.mesh.home import Home

SITES = [SiteSpec(name=name) for name in ("jfk", "cloud")]


class Mesh:
    """A job of jfk's events that runs at the cloud, and the events that services publish."""

    def __init__(self) -> None:
        self.site = "cloud"
        self.published: list[Event] = []
        self.migrations: list[MigrateJob] = []
        self.outcome = OperationState.COMPLETED
        self.unforeseen: Exception | None = None
        self.absurd: Exception | None = None
        """Error of an autopilot that reckons with what was measured."""
        self.refuses_latency: TowpathError | None = None
        self.takes_events = asyncio.Event()
        self.takes_events.set()

    async def publish(self, event: Event) -> None:
        await self.takes_events.wait()
        self.published.append(event)

    async def request(self, command: Any, **_: Any) -> Any:
        match command:
            case ListJobs():
                return JobList(jobs=[job("clean", site=self.site)])
            case ListPipelines():
                return PipelineList(pipelines=[])
            case ListOperations():
                return OperationList(operations=[])
            case ListSites():
                body = {**SiteStatus.example, "state": SiteState.UP}
                return SiteList(sites=[SiteStatus.model_validate({**body, "site": s.name}) for s in SITES])
            case QueryMetrics():
                return self._measured(command)
            case QueryValues():
                raise TowpathError(ErrorCode.NOT_ALLOWED, "this mesh stores no values")
            case MigrateJob():
                self.migrations.append(command)
                if self.unforeseen:
                    raise self.unforeseen
                self.site = command.to
                return OperationAnswer(
                    operation="m1", job=command.job, kind=OperationKind.MIGRATE, state=self.outcome
                )
            case ShowOperation():
                return OperationView(
                    operation="m1",
                    kind=OperationKind.MIGRATE,
                    job="clean",
                    state=self.outcome,
                    begun_at=now(),
                    figures=MigrationFigures(total_s=2.0, downtime_s=0.5),
                )
        raise AssertionError(command)

    def _measured(self, command: QueryMetrics) -> SeriesList:
        if self.absurd is not None:
            raise self.absurd
        if command.metrics == [LATENCY] and self.refuses_latency is not None:
            raise self.refuses_latency
        at = now().timestamp()
        values = {
            ("jfk", "link:cloud", "link.round_trip"): 0.02,
            (self.site, "job:clean", "job.event_rate"): 9,
            (self.site, "job:clean", LATENCY): 30.0,
        }
        return SeriesList(
            series=[
                Series(site=site, entity=entity, metric=metric, unit="1", points=[(at, value)])
                for (site, entity, metric), value in values.items()
                if metric in command.metrics
            ]
        )


class Trial:
    """An autopilot that looks ten times a second."""

    def __init__(self, mesh: Mesh, mode: AutopilotMode, memory: Memory | None = None) -> None:
        spec = AutopilotSpec(mode=mode, interval_s=1, rest_s=0, settled_s=0).model_copy(
            update={"interval_s": 0.1}
        )
        settings = AutopilotSettings(Home(Path("unused")), "", "", "", spec)
        object.__setattr__(settings, "sites", lambda: SITES)
        self.mesh = mesh
        self.memory = memory or Memory(cast(Announcements, mesh))
        self.pilot = Pilot(cast(Bus, mesh), settings, self.memory)
        self.commands = AutopilotCommands(settings, self.memory, self.pilot)

    @asynccontextmanager
    async def flying(self) -> AsyncIterator[None]:
        """Let it look within the block."""
        task = asyncio.create_task(self.pilot.fly())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def tunnel(self, in_s: float = 0.0) -> str:
        """Announce that the cloud will have no link for an hour."""
        begins = now() + timedelta(seconds=in_s)
        command = AnnounceWindow(site="cloud", begins=begins, ends=begins + timedelta(hours=1))
        return (await self.commands.announce(command)).window

    async def looks(self, count: int) -> None:
        """Wait for so many looks that begin from now on."""
        for _ in range(count):
            self.pilot.looked = None
            await eventually(lambda: self.pilot.looked or self.pilot.trouble)

    async def newest(self) -> Decision | None:
        decisions = (await self.commands.show(ShowAutopilot(limit=1))).decisions
        return decisions[0] if decisions else None

    async def until(self, state: DecisionState) -> Decision:
        """Wait until the newest decision is in this state."""

        async def found() -> Decision | None:
            decision = await self.newest()
            return decision if decision is not None and decision.state is state else None

        return await eventually(found)


def told(mesh: Mesh) -> list[DecisionState]:
    return [event.now.state for event in mesh.published if isinstance(event, DecisionChanged)]


async def test_autopilot_when_it_may_act_then_moves_and_tells_each_state() -> None:
    trial = Trial(Mesh(), AutopilotMode.ACT)
    async with trial.flying():
        await trial.tunnel()
        done = await trial.until(DecisionState.DONE)

    assert [(move.job, move.origin, move.target) for move in done.moves] == [("clean", "cloud", "jfk")]
    assert done.outcome is not None
    assert (done.outcome.moved_s, done.outcome.downtime_s) == (2.0, 0.5)
    assert "cloud will have no link from now on" in done.reason
    assert [command.id for command in trial.mesh.migrations] == [f"{done.decision}-1"]
    assert told(trial.mesh) == [DecisionState.MOVING, DecisionState.DONE]


async def test_decision_when_its_horizon_has_passed_then_has_what_was_measured() -> None:
    trial = Trial(Mesh(), AutopilotMode.ACT)
    async with trial.flying():
        window = await trial.tunnel()
        done = await trial.until(DecisionState.DONE)
        await trial.commands.withdraw(WithdrawWindow(window=window))
        assert done.outcome is not None
        long_ago = done.outcome.model_copy(update={"ended": now() - timedelta(hours=1)})
        await trial.memory.change(done.model_copy(update={"outcome": long_ago}))

        async def is_reviewed() -> bool:
            outcome = trial.memory.decision(done.decision).outcome
            return outcome is not None and (outcome.late_s, outcome.measured_s) == (10.0, 10.0)

        await eventually(is_reviewed)


async def test_autopilot_when_it_must_ask_then_moves_after_people_approve() -> None:
    trial = Trial(Mesh(), AutopilotMode.PROPOSE)
    async with trial.flying():
        await trial.tunnel()
        proposed = await trial.until(DecisionState.PROPOSED)
        assert trial.mesh.migrations == []
        await trial.commands.approve(ApproveDecision(decision=proposed.decision, asked_by="ada"))
        done = await trial.until(DecisionState.DONE)

    assert trial.mesh.site == "jfk"
    assert [done.asked_by, *(move.asked_by for move in trial.mesh.migrations)] == ["ada", "ada"]


async def test_autopilot_when_people_refuse_then_does_not_propose_it_again() -> None:
    trial = Trial(Mesh(), AutopilotMode.PROPOSE)
    async with trial.flying():
        await trial.tunnel()
        proposed = await trial.until(DecisionState.PROPOSED)
        await trial.commands.refuse(RefuseDecision(decision=proposed.decision))
        held = await trial.until(DecisionState.HELD)

    assert held.rule == "people refused these moves lately"
    with pytest.raises(TowpathError) as refused:
        await trial.commands.approve(ApproveDecision(decision=proposed.decision))
    assert refused.value.detail.code is ErrorCode.NOT_ALLOWED


async def test_autopilot_when_a_window_is_far_then_plans_and_drops_it_when_the_window_is_withdrawn() -> None:
    trial = Trial(Mesh(), AutopilotMode.ACT)
    async with trial.flying():
        window = await trial.tunnel(in_s=500)
        planned = await trial.until(DecisionState.PLANNED)
        await trial.commands.withdraw(WithdrawWindow(window=window))
        await trial.until(DecisionState.DROPPED)

    assert planned.due is not None
    assert planned.due > now() + timedelta(seconds=400)
    assert trial.mesh.migrations == []


async def test_autopilot_when_a_move_fails_then_the_decision_says_why() -> None:
    trial = Trial(Mesh(), AutopilotMode.ACT)
    trial.mesh.outcome = OperationState.ROLLED_BACK
    async with trial.flying():
        await trial.tunnel()
        failed = await trial.until(DecisionState.FAILED)

    assert failed.error is not None
    assert "rolled_back" in failed.error


async def test_autopilot_when_a_move_ends_with_an_unforeseen_error_then_makes_it_again_later() -> None:
    trial = Trial(Mesh(), AutopilotMode.ACT)
    trial.mesh.unforeseen = KeyError("state")
    async with trial.flying():
        await trial.tunnel()
        failed = await trial.until(DecisionState.FAILED)
        trial.mesh.unforeseen = None
        await trial.looks(3)
        moves = len(trial.mesh.migrations)
        trial.memory.keep(failed, now() - timedelta(hours=1))
        done = await trial.until(DecisionState.DONE)

    assert (failed.error, moves) == ("'state'", 1)
    assert done.decision != failed.decision


async def test_autopilot_when_the_hub_takes_no_events_for_longer_than_a_look_then_moves_after_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pilot, "ASK_S", 0.05)
    trial = Trial(Mesh(), AutopilotMode.ACT)
    await trial.tunnel()
    trial.mesh.takes_events.clear()
    async with trial.flying():
        await trial.until(DecisionState.MOVING)
        await trial.looks(2)
        before = len(trial.mesh.migrations)
        trial.mesh.takes_events.set()
        await trial.until(DecisionState.DONE)

    assert before == 0
    assert told(trial.mesh) == [DecisionState.MOVING, DecisionState.DONE]


async def test_autopilot_when_what_sites_tell_makes_no_sense_then_says_so_and_looks_again() -> None:
    trial = Trial(Mesh(), AutopilotMode.ACT)
    trial.mesh.absurd = OverflowError("intermediate overflow in fsum")
    async with trial.flying():
        await trial.tunnel()
        await eventually(lambda: trial.pilot.trouble == "intermediate overflow in fsum")
        trial.mesh.absurd = None
        await trial.until(DecisionState.DONE)


@pytest.mark.parametrize(
    ("jobs", "refusal", "reviewed"),
    [
        (120, None, (30.0, 30.0)),
        (1, TowpathError(ErrorCode.INVALID, "more points than limit", field="limit"), (0.0, 0.0)),
        (1, TowpathError(ErrorCode.UNREACHABLE, "no one answers"), (None, 0.0)),
    ],
    ids=["many jobs", "refused", "not answered"],
)
async def test_decision_when_a_look_back_at_it_is_hard_then_the_autopilot_looks_ahead_all_the_same(
    jobs: int, refusal: TowpathError | None, reviewed: tuple[float | None, float | None]
) -> None:
    trial = Trial(Mesh(), AutopilotMode.ACT)
    trial.mesh.refuses_latency = refusal
    moves = [{"job": f"job-{n}", "origin": "jfk", "target": "cloud"} for n in range(jobs)]
    ended = {"ended": now() - timedelta(hours=1), "moved_s": 1.0, "downtime_s": 0.0}
    example = DecisionChanged.example["now"]
    done = Decision.model_validate({**example, "state": "done", "moves": moves, "outcome": ended})
    await trial.memory.change(done)

    async with trial.flying():
        await trial.looks(2)

    outcome = trial.memory.decision(done.decision).outcome
    assert outcome is not None
    assert (outcome.late_s, outcome.measured_s) == reviewed


async def test_autopilot_when_killed_while_jobs_move_then_the_next_one_sends_the_same_moves() -> None:
    mesh = Mesh()
    first = Trial(mesh, AutopilotMode.ACT)
    async with first.flying():
        await first.tunnel()
        done = await first.until(DecisionState.DONE)
    memory = Memory(cast(Announcements, mesh))
    for event in mesh.published[:-1]:
        await taken(memory, event)
    mesh.site = "cloud"

    second = Trial(mesh, AutopilotMode.ACT, memory)
    async with second.flying():
        again = await second.until(DecisionState.DONE)

    assert again.decision == done.decision
    assert {command.id for command in mesh.migrations} == {f"{done.decision}-1"}
    assert [window.site for window in memory.windows()] == ["cloud"]


async def taken(memory: Memory, event: Event) -> None:
    """Let a memory read an event back, as it does when it starts."""
    if isinstance(event, DecisionChanged | WindowChanged):
        memory.take(type(event), event.model_dump(mode="json"))


async def test_window_when_it_is_over_or_of_an_unknown_site_then_is_refused() -> None:
    commands = Trial(Mesh(), AutopilotMode.ACT).commands
    past = now() - timedelta(hours=1)
    for site, field in (("mars", "site"), ("jfk", "ends")):
        with pytest.raises(TowpathError) as refused:
            await commands.announce(AnnounceWindow(site=site, begins=past, ends=past + timedelta(minutes=1)))
        assert refused.value.detail.field == field


@pytest.mark.parametrize(("cause", "factor"), [("price", 1.0), ("link", 2.0), ("price", -1.0)])
def test_window_when_its_factor_does_not_suit_its_cause_then_is_refused(cause: str, factor: float) -> None:
    begins = now()
    times = {"begins": begins, "ends": begins + timedelta(minutes=1)}
    with pytest.raises(ValidationError):
        AnnounceWindow.model_validate({"site": "jfk", "cause": cause, "factor": factor, **times})


def test_memory_when_a_move_failed_late_then_its_places_are_known_as_failed_from_that_moment() -> None:
    memory = Memory(cast(Announcements, Mesh()))
    begun = Decision.model_validate({**DecisionChanged.example["now"], "due": now() - timedelta(hours=1)})

    memory.keep(begun.model_copy(update={"state": DecisionState.FAILED}))

    assert memory.failed(600) == {(move.job, move.target) for move in begun.moves}
    memory.keep(begun.model_copy(update={"state": DecisionState.FAILED}), now() - timedelta(hours=1))
    assert memory.failed(600) == frozenset()


async def test_autopilot_when_a_move_of_a_decision_failed_then_jobs_that_moved_before_may_stay() -> None:
    trial = Trial(Mesh(), AutopilotMode.ACT)
    moves = [{"job": "clean", "origin": "jfk", "target": "cloud"}]
    failed = {**DecisionChanged.example["now"], "state": "failed", "moves": moves, "outcome": None}
    trial.memory.keep(Decision.model_validate(failed))

    async with trial.flying():
        await trial.looks(2)

    assert trial.pilot.trouble is None
