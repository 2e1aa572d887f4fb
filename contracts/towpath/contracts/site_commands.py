"""Commands to the agent of a site that any operation may need: about its jobs, outputs, code and state.

The commands of a migration alone are in `towpath.contracts.migration`.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from towpath.contracts.job import Assignment, JobStatus, ResolvedOutput
from towpath.contracts.message import ROOT, JobName, Model
from towpath.contracts.migration import (
    EXAMPLE_ASSIGNMENT,
    AmendedResult,
    AssignRole,
    DropShadow,
    LaunchRetrieve,
    ObserveProgress,
    OpenShadow,
    Paused,
    PauseTransfer,
    ResetRole,
    ResumeJob,
    SetEpoch,
    ShipCheckpoint,
    SiteCommand,
)
from towpath.contracts.reply import Done

_SITE = f"{ROOT}.command.{{site}}"


class ReportProgress(SiteCommand[JobStatus]):
    """Return the status of a job here, now: fresher than the last heartbeat."""

    subject = f"{_SITE}.report-progress"
    answer = JobStatus
    example = {"id": "s15", "site": "cloud", "operation": "m1", "job": "hourly-jfk"}

    job: JobName


class ReportAssignment(SiteCommand[Assignment]):
    """Return a job as the site has it, with what the site itself has adjusted."""

    subject = f"{_SITE}.report-assignment"
    answer = Assignment
    example = {"id": "s21", "site": "jfk", "operation": "o1", "job": "hourly-jfk"}

    job: JobName


class Recomputed(Model):
    """The results of a range of events, as one window."""

    results: list[AmendedResult]


class RecomputeWindow(SiteCommand[Recomputed]):
    """Target: compute the job over `after` < serial number ≤ `through` as one processing-time window."""

    subject = f"{_SITE}.recompute-window"
    answer = Recomputed
    example = {
        "id": "s16",
        "site": "cloud",
        "operation": "m1",
        "job": "counts",
        "after": 1200,
        "through": 1213,
    }

    job: JobName
    after: int = Field(ge=0)
    through: int = Field(ge=0)


class TryCode(SiteCommand[Done]):
    """Can this user code be called here? Nothing is changed, and no job need be known."""

    subject = f"{_SITE}.try-code"
    answer = Done
    example = {"id": "s20", "site": "jfk", "operation": "p1", "entry": "remarkable_delays:run"}

    entry: str
    """`module:function`."""
    artefact: str | None = None
    """Digest of code that the hub keeps; null for code that the site's environment has."""


class StateSize(Model):
    """Size of a job's checkpoint."""

    files: int
    state_bytes: int


class MeasureState(SiteCommand[StateSize]):
    """Source: how much a migration with state would have to carry."""

    subject = f"{_SITE}.measure-state"
    answer = StateSize
    example = {"id": "s17", "site": "jfk", "operation": "f1", "job": "hourly-jfk"}

    job: JobName


class StartJob(SiteCommand[Done]):
    """Start a job, or bring a running one to this assignment."""

    subject = f"{_SITE}.start-job"
    answer = Done
    example = {"id": "s8", "site": "jfk", "operation": "d1", "assignment": EXAMPLE_ASSIGNMENT}

    assignment: Assignment


class StopJob(SiteCommand[Paused]):
    """Stop a job at a micro-batch boundary and hold it; `forget` deletes it with its checkpoint."""

    subject = f"{_SITE}.stop-job"
    answer = Paused
    example = {"id": "s9", "site": "jfk", "operation": "r1", "job": "hourly-jfk", "forget": False}

    job: JobName
    forget: bool = False
    drain: bool = False
    """First process everything that the inputs hold when the command comes. Refused, and the job runs on,
    when that does not succeed within `drain_s`."""
    drain_inputs: list[str] = []
    """The same for some of the inputs: the job will not read them again."""
    drain_s: float = Field(default=60.0, gt=0)
    epoch: int | None = None
    """Highest epoch of the operation. Refused at a site that has the job under a later one: it was given the
    job again since. Null: whatever the epoch."""
    whole: bool = False
    """Refused when a micro-batch was begun and could not be committed: part of its results may be published,
    and must not be published again elsewhere."""


class PrepareOutput(SiteCommand[Done]):
    """Output site: this output stream exists. One that is made now accepts no results yet.

    So that jobs can be started before those whose results they read.
    """

    subject = f"{_SITE}.prepare-output"
    answer = Done
    example = {
        "id": "s19",
        "site": "jfk",
        "operation": "a1",
        "job": "hourly-jfk",
        "output": EXAMPLE_ASSIGNMENT["output"],
    }

    job: JobName
    output: ResolvedOutput


class CloseOutput(SiteCommand[Done]):
    """Output site: this output stream accepts no results any more. Its content stays.

    A job whose topic changes publishes into another stream; readers of the old one read it to its end.
    """

    subject = f"{_SITE}.close-output"
    answer = Done
    example = {
        "id": "s18",
        "site": "jfk",
        "operation": "u1",
        "job": "hourly-jfk",
        "epoch": 2,
        "output": EXAMPLE_ASSIGNMENT["output"],
    }

    job: JobName
    epoch: int = Field(ge=1)
    """Of the owner who is shut out. Refused when the stream accepts a later one."""
    output: ResolvedOutput


class DropOutput(SiteCommand[Done]):
    """Output site: delete output streams of a job, with what is in them."""

    subject = f"{_SITE}.drop-output"
    answer = Done
    example = {
        "id": "s10",
        "site": "jfk",
        "operation": "r1",
        "job": "hourly-jfk",
        "streams": ["OUT_hourly-jfk"],
    }

    job: JobName
    streams: list[str]
    """Names of the output streams."""


class CheckSpec(SiteCommand[Done]):
    """Let the engine analyse a job without starting it: expressions, user code, schema."""

    subject = f"{_SITE}.check-spec"
    answer = Done
    example = {"id": "s11", "site": "jfk", "operation": "d1", "assignment": EXAMPLE_ASSIGNMENT}

    assignment: Assignment


SITE_COMMANDS: tuple[type[SiteCommand[Any]], ...] = (
    AssignRole,
    LaunchRetrieve,
    PauseTransfer,
    SetEpoch,
    PrepareOutput,
    CloseOutput,
    ResumeJob,
    ObserveProgress,
    ResetRole,
    StartJob,
    StopJob,
    DropOutput,
    CheckSpec,
    ShipCheckpoint,
    OpenShadow,
    DropShadow,
    ReportProgress,
    ReportAssignment,
    RecomputeWindow,
    MeasureState,
    TryCode,
)
