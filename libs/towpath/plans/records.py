"""Durable records of a plan: its progress, and what each device is known to have."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Self

from towpath.contracts.message import Identifier, Model, SiteName
from towpath.contracts.plan import ApplicationName, DeviceName, OperationId, Package, PlanName, Scalar, Text
from towpath.contracts.plan_rollout import PlanVersion, RolloutState


class StepTask(StrEnum):
    """Task of one request to a device."""

    UNINSTALL = "uninstall"
    """Stop and delete."""
    INSTALL = "install"
    """Fetch, configure and start. It replaces another package of the application."""
    CONFIGURE = "configure"
    """Change the arguments while it runs."""


class Step(Model):
    """One request to a device."""

    request_id: Identifier
    version: int
    """The version that wanted it."""
    operation: OperationId
    application: ApplicationName
    order: int
    task: StepTask
    package: Package
    arguments: dict[Text, Scalar] = {}


class Installed(Model):
    """Application on a device, as the device's answers say."""

    operation: OperationId
    order: int
    package: Package
    arguments: dict[Text, Scalar] = {}


class DeviceFailure(Model):
    """Refusal of a step."""

    version: int
    operation: OperationId
    task: StepTask
    code: int
    message: str


class DeviceRecord(Model):
    """Reported state of a device for one plan."""

    device: DeviceName
    site: SiteName
    """The site whose broker it is connected to."""
    applications: dict[ApplicationName, Installed] = {}
    pending: Step | None = None
    """A step that was sent, or is about to be, and whose outcome is not known. It comes before all others."""
    failure: DeviceFailure | None = None
    offline: bool = False
    not_now: bool = False
    """It asked to be asked later."""
    accepted_at: datetime | None = None
    """When it was asked for the pending step, which it works on. None while it is away."""
    deferred_since: datetime | None = None
    """Since then, waves go on without it: it asked to be asked later, or works on a step for too long."""
    revision: int = 0
    """Number of times it was written: a controller that was replaced cannot write it."""

    @property
    def is_away(self) -> bool:
        """True if others do not wait for it."""
        return self.offline or self.deferred_since is not None

    def changed(self, **values: object) -> Self:
        """Return the record with other values, to be written next."""
        return self.model_copy(update={**values, "revision": self.revision + 1})


VERSIONS_KEPT = 50
"""Earlier versions that are kept, the newest; and the newest completed one, to which a roll-back leads."""


class PlanRecord(Model):
    """Progress of a plan's newest version, and the outcomes of earlier ones."""

    plan: PlanName
    version: int
    state: RolloutState = RolloutState.RUNNING
    wave: int = 0
    """Position of the newest wave that has begun."""
    brought_forward: list[DeviceName] = []
    """Devices of later waves that have begun in place of devices that were all away."""
    note: str = ""
    outcomes: dict[int, RolloutState] = {}
    """Earlier version that is kept → its outcome."""
    commands: dict[Identifier, int] = {}
    """Command → the version it became; the newest."""
    revision: int = 0

    def changed(self, **values: object) -> Self:
        """Return the record with other values, to be written next."""
        return self.model_copy(update={**values, "revision": self.revision + 1})

    def succeeded_by(self, version: PlanVersion, *, ended: RolloutState | None, note: str) -> Self:
        """Return the record of a new version. The one before has `ended`, else as it had, or superseded."""
        outcomes = dict(self.outcomes)
        if self.version:
            running = self.state is RolloutState.RUNNING
            outcomes[self.version] = ended or (RolloutState.SUPERSEDED if running else self.state)
        completed = [v for v, outcome in outcomes.items() if outcome is RolloutState.COMPLETED]
        kept = {*sorted(outcomes)[-VERSIONS_KEPT:], *completed[-1:]}
        commands = [(c, v) for c, v in self.commands.items() if v in kept]
        return self.changed(
            version=version.version,
            state=RolloutState.RUNNING,
            wave=0,
            brought_forward=[],
            note=note,
            outcomes={v: outcome for v, outcome in outcomes.items() if v in kept},
            commands=dict([*commands, (version.command, version.version)]),
        )

    @property
    def goes_back_to(self) -> int | None:
        """The newest earlier version that was completed."""
        done = (v for v, outcome in self.outcomes.items() if outcome is RolloutState.COMPLETED)
        return max(done, default=None)
