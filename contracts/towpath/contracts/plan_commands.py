"""Commands that bring devices to what a deployment plan says, and events of doing so."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from towpath.contracts.device_catalogue import EXAMPLE_CATALOGUE, DeviceCatalogue
from towpath.contracts.message import ROOT, Command, Event, Model
from towpath.contracts.plan import (
    EXAMPLE_PLAN,
    DeploymentPlan,
    OperationId,
    PlanName,
    Scalar,
    Text,
)
from towpath.contracts.plan_rollout import (
    DeviceState,
    PlanHistoryEntry,
    RolloutState,
    RolloutView,
    VersionKind,
)

_COORDINATOR = f"{ROOT}.command.coordinator"


class ApplyPlan(Command[RolloutView]):
    """Bring devices to what the plan says, wave by wave, as a new version of the plan.

    Refused with all errors at once while nothing has been sent. The answer comes when the version is durably
    accepted; events and `ShowPlan` tell the rest. Devices that are offline catch up when they come.
    """

    subject = f"{_COORDINATOR}.apply-plan"
    answer = RolloutView
    example = {"id": "d1", "plan": EXAMPLE_PLAN, "catalogue": EXAMPLE_CATALOGUE}

    plan: DeploymentPlan
    catalogue: DeviceCatalogue


class UpdatePlan(Command[RolloutView]):
    """Change arguments of one operation, as a new version. The computation is not stopped."""

    subject = f"{_COORDINATOR}.update-plan"
    answer = RolloutView
    example = {
        "id": "d2",
        "plan": "temperatures",
        "operation": "average",
        "arguments": {"publish.rate": 10},
    }

    plan: PlanName
    operation: OperationId
    arguments: dict[Text, Scalar] = Field(min_length=1)
    """The arguments that change."""


class UninstallPlan(Command[RolloutView]):
    """Remove all applications of the plan from all its devices, readers before what they read from."""

    subject = f"{_COORDINATOR}.uninstall-plan"
    answer = RolloutView
    example = {"id": "d3", "plan": "temperatures"}

    plan: PlanName


class RollbackPlan(Command[RolloutView]):
    """Bring devices back to an earlier version, as a new version."""

    subject = f"{_COORDINATOR}.rollback-plan"
    answer = RolloutView
    example = {"id": "d4", "plan": "temperatures", "version": 1}

    plan: PlanName
    version: int | None = None
    """The newest earlier version that was completed, unless given."""


class ShowPlan(Command[RolloutView]):
    """Return the newest version of a plan with the state of each device."""

    subject = f"{_COORDINATOR}.show-plan"
    answer = RolloutView
    example = {"id": "d5", "plan": "temperatures"}

    plan: PlanName


class PlanSummary(Model):
    """Plan in a list."""

    plan: PlanName
    version: int
    state: RolloutState
    counts: dict[DeviceState, int]


class PlanList(Model):
    """All plans, by name."""

    plans: list[PlanSummary]


class ListPlans(Command[PlanList]):
    """Return all plans."""

    subject = f"{_COORDINATOR}.list-plans"
    answer = PlanList
    example = {"id": "d6"}


class PlanHistory(Model):
    """Versions of a plan that are kept, the newest first."""

    versions: list[PlanHistoryEntry]


class ShowPlanHistory(Command[PlanHistory]):
    """Return the versions of a plan and their outcomes."""

    subject = f"{_COORDINATOR}.show-plan-history"
    answer = PlanHistory
    example = {"id": "d7", "plan": "temperatures"}

    plan: PlanName


class RolloutChanged(Event):
    """A version of a plan has begun, has begun its next wave, or has ended."""

    subject = f"{ROOT}.event.plan.{{plan}}.changed"
    example = {
        "at": "2026-01-01T00:00:00Z",
        "plan": "temperatures",
        "version": 2,
        "kind": "apply",
        "state": "running",
        "wave": 1,
        "waves": 3,
        "counts": {"running": 190, "pending": 10},
    }

    plan: PlanName
    version: int
    kind: VersionKind
    state: RolloutState
    wave: int
    """Number of the newest wave that has begun, from 1."""
    waves: int
    counts: dict[DeviceState, int]
    """Devices in each state."""
    note: str = ""


PLAN_COMMANDS: tuple[type[Command[Any]], ...] = (
    ApplyPlan,
    UpdatePlan,
    UninstallPlan,
    RollbackPlan,
    ShowPlan,
    ListPlans,
    ShowPlanHistory,
)

PLAN_EVENTS: tuple[type[Event], ...] = (RolloutChanged,)
