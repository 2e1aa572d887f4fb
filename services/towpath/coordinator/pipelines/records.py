"""Durable records of pipelines: the desired version, and the progress of its apply."""

from __future__ import annotations

from datetime import datetime

from towpath.contracts.errors import ErrorDetail
from towpath.contracts.message import AskedBy, Identifier, JobName, Model
from towpath.contracts.pipeline import (
    Action,
    ApplyState,
    ApplyView,
    ChangeState,
    ChangeView,
    PipelineName,
    PipelineSpec,
    PlannedChange,
)


class PipelineRecord(Model):
    """A pipeline in the registry."""

    name: PipelineName
    version: int
    """The desired version."""
    apply: Identifier
    """The newest apply."""
    job_versions: dict[JobName, int] = {}
    """Job → its version."""
    completed: list[int] = []
    """Kept versions whose apply has completed."""

    @property
    def goes_back_to(self) -> int | None:
        """The newest version, except the desired one, whose apply has completed."""
        return max((version for version in self.completed if version != self.version), default=None)


class ApplyRecord(Model):
    """An apply: the decisions made when it was accepted, and its end."""

    id: Identifier
    command: Identifier
    asked_by: AskedBy | None = None
    """Who asked for it, and so for each of its operations."""
    version: int
    spec: PipelineSpec
    """The description of the pipeline; without jobs when it is deleted."""
    artefacts: dict[JobName, str] = {}
    """Job → digest of its user code, as it was when the apply was accepted."""
    delete: bool = False
    purge: bool = False
    now: bool = False
    at_once: int = 4
    drop_state: list[JobName] = []
    order: list[JobName]
    """Jobs in the order in which the plan shows them."""
    state: ApplyState = ApplyState.RUNNING
    begun_at: datetime
    ended_at: datetime | None = None
    note: str = ""
    traceparent: str | None = None
    """W3C form of the span that asked for it."""

    @property
    def pipeline(self) -> str:
        """Its name."""
        return self.spec.name


class ChangeRecord(Model):
    """The change of one job."""

    change: PlannedChange
    state: ChangeState = ChangeState.WAITING
    operations: list[Identifier] = []
    done: list[Action] = []
    error: ErrorDetail | None = None
    begun_at: datetime | None = None
    ended_at: datetime | None = None

    @property
    def keeps(self) -> bool:
        """True if there is nothing to do."""
        return self.change.actions == [Action.KEEP]

    def view(self) -> ChangeView:
        """Return the change as users see it."""
        took_s = (self.ended_at - self.begun_at).total_seconds() if self.begun_at and self.ended_at else None
        return ChangeView(
            change=self.change,
            state=self.state,
            operations=self.operations,
            done=self.done,
            error=self.error,
            took_s=took_s,
        )


def apply_view(record: ApplyRecord, changes: dict[str, ChangeRecord]) -> ApplyView:
    """Return an apply as users see it."""
    return ApplyView(
        apply=record.id,
        pipeline=record.pipeline,
        version=record.version,
        state=record.state,
        begun_at=record.begun_at,
        ended_at=record.ended_at,
        changes=[changes[job].view() for job in record.order],
        note=record.note,
        asked_by=record.asked_by,
    )
