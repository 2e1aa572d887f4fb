"""Pipelines: jobs that are described together, and commands that make a mesh be as the description says."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field, StringConstraints, model_validator

from towpath.contracts.commands import StrategyName
from towpath.contracts.errors import ErrorDetail
from towpath.contracts.job import EXAMPLE_SPEC, JobSpec
from towpath.contracts.message import AskedBy, Identifier, JobName, Model, SiteName

_AT = "2026-01-01T00:00:00Z"

PipelineName = JobName
"""Pipelines are named like jobs."""


WebAddress = Annotated[str, StringConstraints(pattern=r"^https?://[^\s/?#]+[^\s]*$", max_length=2000)]
"""Address of an HTTP service."""


class Placement(Model):
    """Where a job may run. What is left out allows everything."""

    allowed: list[SiteName] | None = None
    """Only at one of these sites."""
    forbidden: list[SiteName] = []
    """At none of these sites."""
    beside: list[JobName] = []
    """At the site of each of these jobs of the pipeline."""
    apart_from: list[JobName] = []
    """At a site of none of these jobs of the pipeline."""


class Demand(Model):
    """Needs of a job at its site. A site that says what it has is never promised more than that."""

    cores: float = Field(default=0.0, ge=0)
    memory_mb: int = Field(default=0, ge=0)


class PipelineJob(JobSpec):
    """A job of a pipeline."""

    strategy: StrategyName = StrategyName.AUTO
    """Strategy for changing site, when a later description names another one."""
    resources: Demand = Demand()
    placement: Placement = Placement()
    webhook: WebAddress | None = None
    """Each result is POSTed to this address, too: in order, and again until it is taken."""

    def job_spec(self) -> JobSpec:
        """Return the job without the pipeline's own concerns.

        A container that says no limits gets what the job needs of its site.
        """
        concerns = {*PipelineJob.model_fields} - {*JobSpec.model_fields}
        left = JobSpec.model_validate(self.model_dump(exclude=concerns))
        if left.container is None:
            return left
        cpus = left.container.cpus or self.resources.cores or None
        memory_mb = left.container.memory_mb or self.resources.memory_mb or None
        limited = left.container.model_copy(update={"cpus": cpus, "memory_mb": memory_mb})
        return left.model_copy(update={"container": limited})


class PolicyName(StrEnum):
    """Policy that finds the sites of new jobs."""

    BASELINE = "baseline"
    """Round robin, to compare with."""
    PERFORMANCE = "performance"
    """Least latency."""
    QUALITY = "quality"
    """Latency against the share of data that can be checked."""
    ENERGY = "energy"
    """Least power."""


class PipelineSpec(Model):
    """A pipeline as a user describes it: its jobs, connected by the topics they write and read."""

    name: PipelineName
    jobs: list[PipelineJob]
    policy: PolicyName = PolicyName.PERFORMANCE
    """Finds the sites of new jobs where these are `auto`. A job that runs stays where it is."""

    @model_validator(mode="after")
    def _names_differ(self) -> PipelineSpec:
        seen: set[str] = set()
        for job in self.jobs:
            if job.name in seen:
                raise ValueError(f"two jobs are called {job.name!r}")
            seen.add(job.name)
        return self


EXAMPLE_PIPELINE: dict[str, Any] = {"name": "delays", "jobs": [EXAMPLE_SPEC]}


class Action(StrEnum):
    """Step of an apply on a job. A job may need several, in this order."""

    KEEP = "keep"
    """Nothing: the same query goes on."""
    ADD = "add"
    CHANGE = "change"
    """Other parameters, from the serial number where the change meets the job."""
    REDIRECT = "redirect"
    """Other topics: everything before that serial number went to, or came from, the old ones."""
    MOVE = "move"
    """Another site, by the job's strategy."""
    REMOVE = "remove"


class FieldDifference(Model):
    """A field of a job's description that an apply changes."""

    field: str
    """Its path, for example `operator.where` or `inputs[1].topic`."""
    old: Any = None
    """Null also where the field is new."""
    new: Any = None
    """Null also where the field is gone."""


class PlannedChange(Model):
    """Plan of an apply for one job."""

    job: JobName
    actions: list[Action] = Field(min_length=1)
    reason: str
    """For people: why, and the first fields that differ, cut where their values are long."""
    fields: list[FieldDifference] = []
    """All fields that differ from what runs, of a job that is changed, redirected or moved."""
    after: list[JobName] = []
    """Jobs whose change comes first."""
    source: SiteName | None = None
    target: SiteName | None = None
    strategy: StrategyName | None = None
    """Of a move; never `auto`."""
    predicted_s: float = 0.0
    """Expected duration, seconds."""
    predicted_bytes: int = 0
    """State expected to cross between sites, bytes."""


class PipelinePlan(Model):
    """The difference between a description and what runs, in an order in which it can be carried out."""

    pipeline: PipelineName
    version: int
    """The version the description would become; the current one when nothing differs."""
    changes: list[PlannedChange]
    """One for each job, also for those that stay as they are."""
    predicted_s: float
    """Expected duration of all changes, seconds, as many at a time as asked for."""
    predicted_bytes: int


class ApplyState(StrEnum):
    """State of an apply."""

    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    """Some jobs are as described and some are not; the view says which, and what ends that."""


class ChangeState(StrEnum):
    """State of the change of one job."""

    WAITING = "waiting"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    SKIPPED = "skipped"
    """Not begun, because a change it comes after has failed."""


class ChangeView(Model):
    """The change of one job, as it stands."""

    change: PlannedChange
    state: ChangeState
    operations: list[Identifier] = []
    """Operations that carry it out, in order; `towpath operation ID` shows their steps."""
    done: list[Action] = []
    """Actions that were carried out. A change that failed may have done the first of two."""
    error: ErrorDetail | None = None
    took_s: float | None = None


class ApplyView(Model):
    """One apply of a pipeline, as it stands."""

    apply: Identifier
    pipeline: PipelineName
    version: int
    """The version it leads to."""
    state: ApplyState
    begun_at: datetime
    ended_at: datetime | None = None
    changes: list[ChangeView]
    note: str = ""
    asked_by: AskedBy | None = None
    """Who asked for it."""


class PipelineVersion(Model):
    """A description that was applied once."""

    version: int
    at: datetime
    asked_by: AskedBy | None = None
    """Who applied it."""
    spec: PipelineSpec
    artefacts: dict[JobName, str] = {}
    """Job → digest of the user code that lay at its path then. It is kept as long as the version."""


class PipelineView(Model):
    """A pipeline: what it should be, and how far it is."""

    pipeline: PipelineName
    version: int
    """The version that is desired."""
    spec: PipelineSpec
    apply: ApplyView
    """The newest apply."""
    job_versions: dict[JobName, int] = {}
    """Job → version of the description that it is at as a whole; see `ChangeView.done` for what it has of the
    desired one."""
