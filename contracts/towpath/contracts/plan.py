"""Deployment plans: operations, the devices they run on, and the steps in which devices get them.

The model is that of Mohamed, "Migrating stream operators" (thesis, Newcastle 2020), section 3.4: an
operation *runs on* a node, *executes* a task, *reads from* predecessors and *writes to* successors.
"""

from __future__ import annotations

from enum import StrEnum
from itertools import pairwise
from typing import Annotated, Any, Self

from pydantic import Field, StringConstraints, field_validator, model_validator

from towpath.contracts.message import NAME_PATTERN, Model
from towpath.contracts.quantity import Bytes, Gigahertz, Share

PlanName = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]

DEVICE_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
"""Names of devices, operations and applications: they become parts of topics."""

DeviceName = Annotated[str, StringConstraints(pattern=DEVICE_PATTERN)]
OperationId = Annotated[str, StringConstraints(pattern=DEVICE_PATTERN)]
ApplicationName = Annotated[str, StringConstraints(pattern=DEVICE_PATTERN)]
Text = Annotated[str, StringConstraints(min_length=1, max_length=200)]

Scalar = bool | int | float | str
"""Value of an argument."""


class TaskKind(StrEnum):
    """Task of an operation."""

    INSTALL = "install"
    """Devices fetch the package, configure the application and start it."""
    CONFIGURE = "configure"
    """Devices change the arguments of the application, which goes on computing."""
    UNINSTALL = "uninstall"
    """Devices stop the application and delete its package."""
    INGESTION = "ingestion"
    """The operation stands for a message server. With a package devices install it; without, it is there."""


class Place(Model):
    """Place of a device or of a kind of node."""

    site: Text | None = None
    """Name of the place: a site, or a word such as `cloud`."""
    latitude: float | None = Field(default=None, ge=-90, le=90)
    """Degrees north."""
    longitude: float | None = Field(default=None, ge=-180, le=180)
    """Degrees east."""


class Package(Model):
    """Package that devices fetch. What a plan leaves out, the catalogue adds."""

    name: Text
    """Name of the file, such as `average.dp`."""
    version: Text | None = None
    url: Text | None = None
    """Address from which devices fetch it."""
    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")] | None = None
    signature: Text | None = None


class NodeMetadata(Model):
    """Kind of device that an operation is made for."""

    id: Text | None = None
    """Label of the template. It names no device."""
    type: Text | None = None
    """Type that the devices must have, such as `gateway`."""
    model: Text | None = None
    """Model that the devices must have."""
    place: Place | None = None
    other: dict[str, str] = {}
    """Further facts, such as a protocol."""


class Resources(Model):
    """Resources: those that an operation needs, or those that a device has."""

    cpus: float | None = Field(default=None, gt=0)
    """Number of CPUs, or the part of one."""
    clock: Gigahertz | None = None
    """Clock rate in GHz."""
    memory: Bytes | None = None
    """Memory in bytes."""


class NodeTemplate(Model):
    """Node that an operation runs on. All devices that the operation is placed on must fit."""

    metadata: NodeMetadata = NodeMetadata()
    software: list[Text] = []
    """Software that must be there, each with its least version: `Java 11`, `Docker`."""
    resources: Resources = Resources()


class Task(Model):
    """Task that an operation executes."""

    kind: TaskKind = TaskKind.INSTALL
    package: Package | None = None
    arguments: dict[Text, Scalar] = {}

    @model_validator(mode="after")
    def _has_what_it_needs(self) -> Self:
        if self.kind is TaskKind.INSTALL and self.package is None:
            raise ValueError("an installation needs a `package`")
        if self.kind is TaskKind.UNINSTALL and self.arguments:
            raise ValueError("an uninstallation takes no `arguments`")
        return self


class Placement(Model):
    """Devices that an operation runs on: those that fit a name, and that have all labels."""

    devices: list[Text] = []
    """Names, or patterns with `*`, `?` and `[…]`. Any name, unless given."""
    labels: dict[Text, str] = {}
    """Label → value."""

    @model_validator(mode="after")
    def _selects(self) -> Self:
        if not self.devices and not self.labels:
            raise ValueError("a placement needs `devices` or `labels`")
        return self


class Operation(Model):
    """Operator, or a message server between operators."""

    id: OperationId
    application: ApplicationName | None = None
    """Name of the application on a device; the operation's id unless given."""
    runs_on: NodeTemplate = NodeTemplate()
    executes: Task
    reads_from: list[Text] = []
    """Predecessors: operations, or names of `outside`. Several are merged."""
    writes_to: list[Text] = []
    """Successors: operations, or names of `outside`. Each gets all results."""
    placement: Placement

    @property
    def app(self) -> str:
        """The name of the application on a device."""
        return self.application or self.id


class StopCondition(Model):
    """Failures that stop a roll-out: it stops above either bound."""

    share: Share = 0.1
    """Share of the devices in all waves that have begun."""
    number: int | None = Field(default=None, ge=0)
    """Number of devices."""


class Rollout(Model):
    """Way in which devices get a new version: wave by wave, as long as it goes well."""

    waves: list[Share] = Field(default=[0.05, 0.25, 1.0], min_length=1, max_length=50)
    """Share of the devices that have begun with each wave. The last wave is all of them."""
    success: Share = 0.9
    """Share of a wave's reachable devices that must be done before the next wave begins."""
    stop: StopCondition = StopCondition()
    roll_back: bool = True
    """Return to the version before, when the roll-out stops."""
    at_once: int = Field(default=32, ge=1, le=1000)
    """Devices that are asked at a time."""
    timeout_s: float = Field(default=30.0, gt=0, le=3600)
    """Seconds to wait for a device's answer."""
    ask_again_s: float = Field(default=30.0, gt=0, le=86_400)
    """Seconds until a device that is offline or deferred is asked again."""
    step_limit_s: float = Field(default=600.0, gt=0, le=86_400)
    """Seconds that a device may work on one step. Then it is deferred: waves go on without it.

    The device's answers are looked at, so it may be `timeout_s` later.
    """

    @field_validator("waves", mode="after")
    @classmethod
    def _grow(cls, waves: list[float]) -> list[float]:
        if any(later <= earlier for earlier, later in pairwise(waves)) or waves[0] <= 0:
            raise ValueError("each wave must be larger than the one before, and the first larger than 0")
        if waves[-1] != 1:
            raise ValueError("the last wave must be all devices: 100 %")
        return waves


class DeploymentPlan(Model):
    """Operations, where they run, and how devices get them."""

    plan: PlanName
    """Name of the plan: applying one of the same name changes what runs."""
    operations: list[Operation]
    outside: list[Text] = []
    """Names that operations read from or write to, and that the plan does not make: sensors, a database."""
    rollout: Rollout = Rollout()


class PlanWarning(Model):
    """Place in a plan that does not say what it means, and how it was read."""

    field: str
    """Path in the document."""
    message: str
    value: Any = None
    """The value given there."""
    read_as: Any = None
    """The value it was taken for."""

    def one_line(self) -> str:
        """Return everything on one line."""
        given = "" if self.value is None else f"; given: {self.value!r}"
        read = "" if self.read_as is None else f"; read as: {self.read_as!r}"
        return f"{self.field}: {self.message}{given}{read}"


EXAMPLE_PLAN: dict[str, Any] = {
    "plan": "temperatures",
    "outside": ["sensors"],
    "operations": [
        {
            "id": "average",
            "runs_on": {"software": ["Java 11"], "resources": {"memory": 256_000_000}},
            "executes": {
                "kind": "install",
                "package": {"name": "average.dp"},
                "arguments": {"publish.rate": 5},
            },
            "reads_from": ["sensors"],
            "placement": {"devices": ["pi-*"]},
        }
    ],
}


class DeployableOperation(Model):
    """Operation with all that its devices need: the thesis's deployable object (section 3.5)."""

    operation: OperationId
    application: ApplicationName
    kind: TaskKind
    order: int
    """Order number, from 1: operations of one number may begin together."""
    after: list[OperationId] = []
    """Operations that must run before."""
    package: Package | None = None
    """Package with its address. None: nothing is installed."""
    arguments: dict[Text, Scalar] = {}
    devices: list[DeviceName]


class PlanCheck(Model):
    """Outcome of checking a plan: what each device would get, and in which order."""

    plan: PlanName
    operations: list[DeployableOperation]
    """By order number."""
    warnings: list[PlanWarning] = []
