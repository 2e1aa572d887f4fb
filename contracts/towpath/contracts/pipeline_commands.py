"""Commands that make a mesh be as the description of a pipeline says, and events of applying it."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from towpath.contracts.errors import ErrorDetail
from towpath.contracts.message import ROOT, Command, Event, Identifier, JobName, Model
from towpath.contracts.pipeline import (
    EXAMPLE_PIPELINE,
    Action,
    ApplyState,
    ApplyView,
    ChangeState,
    PipelineName,
    PipelinePlan,
    PipelineSpec,
    PipelineVersion,
    PipelineView,
)

_COORDINATOR = f"{ROOT}.command.coordinator"
_EVENT = f"{ROOT}.event.pipeline.{{pipeline}}"
_AT = "2026-01-01T00:00:00Z"


class ApplyPipeline(Command[ApplyView]):
    """Make the pipeline be as described: do what the difference needs, and nothing else.

    Refused with all errors at once while nothing has been touched. Applied again, it changes nothing.
    """

    subject = f"{_COORDINATOR}.apply-pipeline"
    answer = ApplyView
    example = {"id": "p1", "spec": EXAMPLE_PIPELINE}

    spec: PipelineSpec
    now: bool = False
    """Remove jobs at once, instead of letting them finish what their inputs hold."""
    drop_state: list[JobName] = []
    """Jobs that may begin with empty state, where theirs does not survive the change."""
    at_once: int = Field(default=4, ge=1, le=64)
    """So many jobs may change at a time, where their order allows it."""
    expected_apply: Identifier | None = None
    """Refused unless this is the pipeline's newest apply, so that no change in between is overwritten."""
    wait: bool = True


class PlanPipeline(Command[PipelinePlan]):
    """Say what `ApplyPipeline` would do. Refused whenever that would be refused."""

    subject = f"{_COORDINATOR}.plan-pipeline"
    answer = PipelinePlan
    example = {"id": "p2", "spec": EXAMPLE_PIPELINE}

    spec: PipelineSpec
    drop_state: list[JobName] = []
    at_once: int = Field(default=4, ge=1, le=64)


class DeletePipeline(Command[ApplyView]):
    """Remove all jobs of a pipeline, those that write first, and forget it with its history."""

    subject = f"{_COORDINATOR}.delete-pipeline"
    answer = ApplyView
    example = {"id": "p3", "pipeline": "delays"}

    pipeline: PipelineName
    now: bool = False
    purge: bool = False
    """Also delete the results."""
    at_once: int = Field(default=4, ge=1, le=64)
    wait: bool = True


class RollbackPipeline(Command[ApplyView]):
    """Apply an earlier version again, with the user code that it had, as a new version."""

    subject = f"{_COORDINATOR}.rollback-pipeline"
    answer = ApplyView
    example = {"id": "p4", "pipeline": "delays", "version": 1}

    pipeline: PipelineName
    version: int | None = None
    """The newest but the present one whose apply completed, unless given."""
    now: bool = False
    drop_state: list[JobName] = []
    at_once: int = Field(default=4, ge=1, le=64)
    wait: bool = True


class RetryPipeline(Command[ApplyView]):
    """Go on with an apply that failed, towards the same version, with the same user code."""

    subject = f"{_COORDINATOR}.retry-pipeline"
    answer = ApplyView
    example = {"id": "p5", "pipeline": "delays"}

    pipeline: PipelineName
    at_once: int = Field(default=4, ge=1, le=64)
    wait: bool = True


class ShowPipeline(Command[PipelineView]):
    """One pipeline."""

    subject = f"{_COORDINATOR}.show-pipeline"
    answer = PipelineView
    example = {"id": "p6", "pipeline": "delays"}

    pipeline: PipelineName


class PipelineList(Model):
    """All pipelines, by name."""

    pipelines: list[PipelineView]


class ListPipelines(Command[PipelineList]):
    """All pipelines."""

    subject = f"{_COORDINATOR}.list-pipelines"
    answer = PipelineList
    example = {"id": "p7"}


class PipelineHistory(Model):
    """Versions of a pipeline that are kept, newest first: as many as fit into one answer."""

    versions: list[PipelineVersion]
    older: int | None = None
    """The newest of the versions that did not fit: ask again with `before` one above."""


class ShowPipelineHistory(Command[PipelineHistory]):
    """The descriptions a pipeline has had."""

    subject = f"{_COORDINATOR}.show-pipeline-history"
    answer = PipelineHistory
    example = {"id": "p8", "pipeline": "delays"}

    pipeline: PipelineName
    version: int | None = None
    """This one alone."""
    before: int | None = None
    """Only older ones than this."""


class ApplyBegun(Event):
    """An apply was durably accepted."""

    subject = f"{_EVENT}.begun"
    example = {"at": _AT, "pipeline": "delays", "apply": "a1", "version": 2, "jobs": ["hourly-jfk"]}

    pipeline: PipelineName
    apply: Identifier
    version: int
    jobs: list[JobName]
    """Those that will change."""


class JobApplied(Event):
    """The change of one job of a pipeline began or ended."""

    subject = f"{_EVENT}.job"
    example = {
        "at": _AT,
        "pipeline": "delays",
        "apply": "a1",
        "job": "hourly-jfk",
        "actions": ["move"],
        "state": "completed",
    }

    pipeline: PipelineName
    apply: Identifier
    job: JobName
    actions: list[Action]
    state: ChangeState
    done: list[Action] = []
    """Actions that were carried out."""
    error: ErrorDetail | None = None


class ApplyEnded(Event):
    """An apply has ended: `completed` or `failed`."""

    subject = f"{_EVENT}.ended"
    example = {"at": _AT, "pipeline": "delays", "apply": "a1", "version": 2, "state": "completed"}

    pipeline: PipelineName
    apply: Identifier
    version: int
    state: ApplyState
    note: str = ""


class ResultUndelivered(Event):
    """A result was not taken by the webhook of its job in any attempt. The next results follow."""

    subject = f"{ROOT}.event.webhook.{{job}}.undelivered"
    example = {"at": _AT, "job": "delays", "serial": 7, "attempts": 12, "error": "503 Service Unavailable"}

    job: JobName
    serial: int
    """Its own, in the output stream, which keeps it."""
    attempts: int
    error: str
    """Outcome of the last attempt."""


PIPELINE_COMMANDS: tuple[type[Command[Any]], ...] = (
    ApplyPipeline,
    PlanPipeline,
    DeletePipeline,
    RollbackPipeline,
    RetryPipeline,
    ShowPipeline,
    ListPipelines,
    ShowPipelineHistory,
)


PIPELINE_EVENTS: tuple[type[Event], ...] = (ApplyBegun, JobApplied, ApplyEnded, ResultUndelivered)
