"""Fault rules: event – condition – action, loaded into a running mesh and out of it again.

A rule says at which *event* something is to be looked at, under which *condition* something is done, and
which *actions* that is (the shape is Byteman's). Rules live no longer than their lease: a process that
carries one out forgets it when no one renews it.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, StringConstraints, Tag

from towpath.contracts.message import NAME_PATTERN, JobName, Model, Scope, SiteName
from towpath.contracts.metrics import Metric

RuleName = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]


class DataPoint(StrEnum):
    """A named point of the data path: where events, results, chunks and messages pass."""

    SOURCE_READ = "source.read"
    """Each event as a task reads it from its stream, in a Python worker of Spark."""
    OPERATOR_BATCH = "operator.batch"
    """Each bundle of events on its way into a job's operator, in a Python worker of Spark."""
    OPERATOR_EVENT = "operator.event"
    """Each event on its way into a job's operator, in a Python worker of Spark."""
    SINK_PUBLISH = "sink.publish"
    """Each result on its way into the output stream, in the engine."""
    ENGINE_PROGRESS = "engine.progress"
    """Each report of Spark on a micro-batch, as JSON, in the engine. What is made of it changes nothing."""
    CHECKPOINT_SHIP = "checkpoint.ship"
    """Each chunk of a checkpoint that leaves a site, in its agent."""
    AGENT_COMMAND = "agent.command"
    """Each command that an agent has received, before it is carried out."""
    BUS_SEND = "bus.send"
    """Each command, answer and event that a service sends; not measurements and spans."""
    BUS_RECEIVE = "bus.receive"
    """Each command, answer and event that a service receives as it is sent; not what it reads from a stream
    where events are kept."""


class AtPoint(Model):
    """Something passes a named point of the data path."""

    point: DataPoint


class TargetKind(StrEnum):
    """Kinds of targets outside of code."""

    PROCESS = "process"
    """A process of the mesh by its name, such as `jfk-engine`, `jfk-nats`, `coordinator`."""
    LINK = "link"
    """The emulated link between a site and the hub, by the site's name."""
    MACHINE = "machine"
    """CPU, memory and power of where a scope's processes run, by the scope: `hub` or a site."""
    DISK = "disk"
    """The files that a process writes, by the process's name."""
    CLOCK = "clock"
    """The clock of a Python process of the mesh, by the process's name."""
    CONTAINER = "container"
    """A container by its name."""


class OnTarget(Model):
    """No event: the condition is looked at again and again, about four times a second."""

    target: TargetKind
    name: str = Field(min_length=1, max_length=200)
    """Which one; see `TargetKind`."""


def _kind_of_event(given: Any) -> str | None:
    kinds = ("point", "target")
    if isinstance(given, dict):
        return next((kind for kind in kinds if kind in given), None)
    return next((kind for kind in kinds if hasattr(given, kind)), None)


RuleEvent = Annotated[
    Annotated[AtPoint, Tag("point")] | Annotated[OnTarget, Tag("target")],
    Discriminator(
        _kind_of_event,
        custom_error_type="no_event",
        custom_error_message="needs one of: point, target",
    ),
]


class Where(Model):
    """In which processes an event counts; what is null does not matter."""

    site: SiteName | None = None
    """Processes of this scope: a site, or `hub`."""
    process: str | None = None
    """The process of this name: `jfk-engine` stands for the engine and its Python workers."""
    job: JobName | None = None
    """Events that pass a data point on behalf of this job."""
    worker: str | None = None
    """On a cluster: Python workers of this Spark executor (its number)."""


class RuleAction(Model):
    """The name of a fault and its parameters."""

    fault: str = Field(pattern=r"^[a-z][a-z0-9_]{0,31}$")
    parameters: dict[str, Any] = {}


class Rule(Model):
    """One fault or instrumentation rule."""

    name: RuleName
    description: str = ""
    event: RuleEvent
    where: Where = Where()
    every: int | None = Field(default=None, ge=1)
    """The rule considers each Nth occurrence only, in each process; null: all."""
    probability: float | None = Field(default=None, ge=0, le=1, allow_inf_nan=False)
    """It considers each of those with this probability; `seed` decides. Null: all."""
    condition: str = Field(default="true", max_length=2_000)
    """An expression in CEL, computed for those that are left; see the reference of conditions."""
    once: bool = False
    """It acts once at most, in each process."""
    actions: list[RuleAction] = Field(min_length=1, max_length=8)
    """Done one after the other."""
    for_s: float | None = Field(default=None, gt=0, le=7 * 24 * 3600, allow_inf_nan=False)
    """The rule unloads itself after so many seconds; null: when it is told to."""
    seed: int = 0
    """Of everything random in the rule: the same seed, the same choices in each process."""


class LoadedRule(Model):
    """A rule as those hold it who carry it out."""

    rule: Rule
    version: int
    """Counts how often a rule of this name was loaded, from 1."""
    loaded_at: datetime


class RuleSet(Model):
    """All rules of one scope: a file that its processes read, rewritten with each renewal."""

    scope: Scope
    revision: int
    """Changes when the rules do; a renewal keeps it."""
    expires_at: float
    """After this moment no rule of the file counts, Unix seconds by the clock of the machine it lies on."""
    rules: list[LoadedRule] = []
    shared: dict[str, float] = {}
    """Functions of the whole mesh for conditions, such as `cpu_percent(jfk)`."""


class RuleCount(Model):
    """Counts of one version of a rule, in one process or in all: how often it was looked at, and acted."""

    rule: RuleName
    version: int
    looked: int = 0
    acted: int = 0
    errors: int = 0
    """Failures of a condition or an action: nothing was done then."""
    last_error: str | None = None


class RuleReport(Model):
    """A line that a process which carries rules out appends to its report file."""

    kind: Literal["count", "metric"]
    count: RuleCount | None = None
    """So far, in this process."""
    metric: Metric | None = None
