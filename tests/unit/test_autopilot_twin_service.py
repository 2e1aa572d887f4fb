"""The autopilot gives a slow job a twin, and ends it: over a stand-in for the mesh."""

from __future__ import annotations

from typing import Any, cast

import pytest
from test_autopilot_service import Mesh, Trial, taken, told
from test_mesh_view import job

from running.waiting import eventually
from towpath.autopilot.memory import Memory
from towpath.bus.announcements import Announcements
from towpath.contracts.autopilot import ApproveDecision, AutopilotMode, DecisionState, RefuseDecision
from towpath.contracts.commands import (
    AbortMigration,
    FinishMigration,
    JobList,
    ListJobs,
    MigrateJob,
    OperationAnswer,
    OperationKind,
    OperationState,
    OperationView,
    ShowOperation,
    StrategyName,
)
from towpath.contracts.job import QualityOfService
from towpath.contracts.message import now
from towpath.contracts.metrics import QueryMetrics, Series, SeriesList

RATE = 100.0
WELL, BETTER, SLOW = 0.0, 250.0, 1000.0
"""Backlogs: of none, of a run that is above the goal and yet faster than the other, and of ten seconds."""


class TwinMesh(Mesh):
    """A job at the cloud with the goal of two seconds. A move of it is a twin that runs until it is ended."""

    def __init__(self) -> None:
        super().__init__()
        self.backlogs = {"cloud": SLOW, "jfk": WELL}
        self.state: OperationState | None = None
        """Of the twin."""

    async def request(self, command: Any, **options: Any) -> Any:
        match command:
            case ListJobs():
                view = job("clean", site=self.site)
                qos = QualityOfService(latency_p99_s=2.0, replicas="auto")
                spec = view.spec.model_copy(update={"qos": qos, "trigger_s": 0.5})
                runs = "m1" if self.state is OperationState.RUNNING else None
                return JobList(jobs=[view.model_copy(update={"spec": spec, "operation": runs})])
            case MigrateJob():
                self.migrations.append(command)
                self.state = self.state or OperationState.RUNNING
                return self.answer()
            case AbortMigration():
                self.state = OperationState.ROLLED_BACK
                return self.answer()
            case FinishMigration():
                self.state, self.site = OperationState.COMPLETED, "jfk"
                return self.answer()
            case ShowOperation():
                return OperationView(
                    operation="m1",
                    kind=OperationKind.MIGRATE,
                    job="clean",
                    state=self.state or OperationState.RUNNING,
                    source="cloud",
                    target="jfk",
                    begun_at=now(),
                )
        return await super().request(command, **options)

    def answer(self) -> OperationAnswer:
        assert self.state is not None
        return OperationAnswer(operation="m1", job="clean", kind=OperationKind.MIGRATE, state=self.state)

    def _measured(self, command: QueryMetrics) -> SeriesList:
        sites = ["cloud", "jfk"] if self.state is OperationState.RUNNING else [self.site]
        values = {
            **{(site, "job.backlog"): self.backlogs[site] for site in sites},
            **{(site, "job.event_rate"): RATE for site in sites},
            **{(site, "job.latency.processing.p95"): 0.2 for site in sites},
        }
        found = super()._measured(command)
        at = now().timestamp()
        for (site, metric), value in values.items():
            if metric in command.metrics:
                found.series.append(
                    Series(
                        site=site,
                        entity="job:clean",
                        metric=metric,
                        unit="1",
                        points=[(at - 5.0, value), (at, value)],
                    )
                )
        return found


async def test_job_when_it_breaks_its_goal_then_gets_a_twin_and_tells_why() -> None:
    trial = Trial(TwinMesh(), AutopilotMode.ACT)
    async with trial.flying():
        twin = await trial.until(DecisionState.TWIN)

    assert twin.is_twin
    assert "take 10.0 s; they may take 2.0 s" in twin.reason
    [command] = trial.mesh.migrations
    assert (command.id, command.to, command.strategy) == (f"{twin.decision}-1", "jfk", StrategyName.TWIN)


@pytest.mark.parametrize(("well", "stays"), [("cloud", "cloud"), ("jfk", "jfk")])
async def test_twin_when_it_is_known_who_is_faster_then_that_run_goes_on_alone(well: str, stays: str) -> None:
    mesh = TwinMesh()
    mesh.backlogs["jfk"] = BETTER
    trial = Trial(mesh, AutopilotMode.ACT)
    async with trial.flying():
        await trial.until(DecisionState.TWIN)
        mesh.backlogs[well] = WELL
        done = await trial.until(DecisionState.DONE)

    assert done.outcome is not None
    assert done.outcome.stays == stays == mesh.site
    assert told(mesh) == [DecisionState.TWIN, DecisionState.DONE]


async def test_twin_when_people_end_it_then_the_decision_says_who_goes_on() -> None:
    mesh = TwinMesh()
    mesh.backlogs["jfk"] = BETTER
    trial = Trial(mesh, AutopilotMode.ACT)
    async with trial.flying():
        await trial.until(DecisionState.TWIN)
        mesh.state, mesh.backlogs["cloud"] = OperationState.ROLLED_BACK, WELL
        done = await trial.until(DecisionState.DONE)

    assert done.outcome is not None
    assert done.outcome.stays == "cloud"


async def test_autopilot_when_it_must_ask_then_begins_the_twin_after_people_approve() -> None:
    mesh = TwinMesh()
    trial = Trial(mesh, AutopilotMode.PROPOSE)
    async with trial.flying():
        proposed = await trial.until(DecisionState.PROPOSED)
        assert mesh.migrations == []
        mesh.backlogs["jfk"] = BETTER
        await trial.commands.approve(ApproveDecision(decision=proposed.decision))
        await trial.until(DecisionState.TWIN)
        await eventually(lambda: asked_for_one(mesh))


async def asked_for_one(mesh: TwinMesh) -> bool:
    return len(mesh.migrations) == 1


async def test_autopilot_when_the_job_is_well_again_then_drops_its_proposal() -> None:
    mesh = TwinMesh()
    trial = Trial(mesh, AutopilotMode.PROPOSE)
    async with trial.flying():
        await trial.until(DecisionState.PROPOSED)
        mesh.backlogs["cloud"] = WELL
        await trial.until(DecisionState.DROPPED)


async def test_autopilot_when_people_refuse_a_twin_then_does_not_propose_it_again() -> None:
    mesh = TwinMesh()
    trial = Trial(mesh, AutopilotMode.PROPOSE)
    async with trial.flying():
        proposed = await trial.until(DecisionState.PROPOSED)
        await trial.commands.refuse(RefuseDecision(decision=proposed.decision))
        looked = trial.pilot.looked

        async def looked_on() -> bool:
            return trial.pilot.looked != looked

        for _ in range(4):
            looked = trial.pilot.looked
            await eventually(looked_on)

    assert told(mesh) == [DecisionState.PROPOSED, DecisionState.REFUSED]


async def test_autopilot_when_killed_while_a_twin_runs_then_the_next_one_goes_on_with_it() -> None:
    mesh = TwinMesh()
    mesh.backlogs["jfk"] = BETTER
    first = Trial(mesh, AutopilotMode.ACT)
    async with first.flying():
        twin = await first.until(DecisionState.TWIN)
        await eventually(lambda: asked_for_one(mesh))
    memory = Memory(cast(Announcements, mesh))
    for event in mesh.published:
        await taken(memory, event)

    second = Trial(mesh, AutopilotMode.ACT, memory)
    async with second.flying():
        mesh.backlogs["cloud"] = WELL
        done = await second.until(DecisionState.DONE)

    assert done.decision == twin.decision
    assert {command.id for command in mesh.migrations} == {f"{twin.decision}-1"}
