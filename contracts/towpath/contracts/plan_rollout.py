"""Versions of deployment plans, and the state of each device while a version is rolled out."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from towpath.contracts.message import AskedBy, Identifier, Model
from towpath.contracts.plan import (
    ApplicationName,
    DeployableOperation,
    DeviceName,
    OperationId,
    PlanName,
    Rollout,
)


class DeviceState(StrEnum):
    """State of a device with respect to the newest version of a plan."""

    PENDING = "pending"
    """It has not begun: its wave has not, or others must come first."""
    QUEUED_OFFLINE = "queued-offline"
    """It does not answer. It catches up when it comes."""
    DEFERRED = "deferred"
    """It asked to be asked later, or works on a step for longer than `step_limit_s`.

    Waves go on without it. It catches up when it is ready.
    """
    INSTALLING = "installing"
    """It has begun, and is not done."""
    RUNNING = "running"
    """It has all that the version says, and nothing else."""
    FAILED = "failed"
    """It refused a step of this version. It keeps what it had."""
    REMOVED = "removed"
    """Nothing of the plan is left on it, as the version says."""


class RolloutState(StrEnum):
    """State of a version."""

    RUNNING = "running"
    COMPLETED = "completed"
    """Each device is done or has failed, and the stop condition was not met."""
    STOPPED = "stopped"
    """Too much failed. Nothing more is begun."""
    SUPERSEDED = "superseded"
    """A newer version was applied before this one had ended."""


class VersionKind(StrEnum):
    """Origin of a version."""

    APPLY = "apply"
    ROLLBACK = "rollback"
    """An earlier version again, on someone's request."""
    AUTOMATIC_ROLLBACK = "automatic-rollback"
    """An earlier version again, because a roll-out stopped."""
    UNINSTALL = "uninstall"


class PlanVersion(Model):
    """Version of a plan: what each device must have. It never changes."""

    plan: PlanName
    version: int
    kind: VersionKind = VersionKind.APPLY
    again: int | None = None
    """The earlier version that a rollback repeats. None: it goes back to nothing."""
    command: Identifier
    """The command that made it."""
    asked_by: AskedBy | None = None
    """Who asked for it. None: the plan went back by itself."""
    at: datetime
    operations: list[DeployableOperation]
    rollout: Rollout
    waves: list[list[DeviceName]]
    """Devices that begin with each wave: all that the plan concerns."""

    @property
    def stops(self) -> bool:
        """True if failures stop it. What goes back, or takes away, goes on to the end."""
        return self.kind in (VersionKind.APPLY, VersionKind.ROLLBACK)


class DeviceView(Model):
    """State of a device."""

    device: DeviceName
    state: DeviceState
    wave: int
    """Number of its wave, from 1."""
    version: int | None = None
    """The version that it has completely, if it is the newest."""
    wanted: dict[ApplicationName, OperationId] = {}
    """Application that the newest version brings there → its operation."""
    applications: dict[ApplicationName, OperationId] = {}
    """Application that is installed → its operation."""
    since: datetime | None = None
    """When it was deferred, if it is."""
    note: str = ""
    """For people: the failure, or the reason for waiting."""


class RolloutView(Model):
    """Newest version of a plan and its progress."""

    plan: PlanName
    version: int
    kind: VersionKind
    again: int | None = None
    state: RolloutState
    wave: int
    """Number of the newest wave that has begun, from 1."""
    waves: int
    counts: dict[DeviceState, int]
    devices: list[DeviceView]
    note: str = ""


class PlanHistoryEntry(Model):
    """A version of a plan and its outcome."""

    version: int
    kind: VersionKind
    again: int | None = None
    at: datetime
    asked_by: AskedBy | None = None
    """Who asked for it. None: the plan went back by itself."""
    state: RolloutState
    operations: list[OperationId]
    devices: int
