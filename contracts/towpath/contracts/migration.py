"""The migration protocol: what the coordinator tells the agents of source, target and output site.

`contracts/PROTOCOL.md` says in which order, and what each party must do.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any, Generic

from pydantic import Field

from towpath.contracts.commands import EXAMPLE_SPEC
from towpath.contracts.job import Assignment, JobStatus, ResolvedOutput
from towpath.contracts.message import ROOT, Answer, Command, Identifier, JobName, Model, SiteName
from towpath.contracts.reply import Done

_SITE = f"{ROOT}.command.{{site}}"

EXAMPLE_ASSIGNMENT: dict[str, Any] = {
    "spec": EXAMPLE_SPEC,
    "epoch": 2,
    "inputs": [
        {
            "name": "jfk/departures/clean",
            "site": "jfk",
            "stream": "OUT_clean-jfk",
            "subject": None,
            "from_device": False,
        }
    ],
    "output": {
        "site": "jfk",
        "stream": "OUT_hourly-jfk",
        "topic": "departures/hourly",
        "rejected_topic": "departures/hourly/rejected",
    },
}


class SiteCommand(Command[Answer], Generic[Answer]):
    """A command to the agent of one site."""

    site: SiteName
    """The site addressed."""
    operation: Identifier
    """The operation this is a step of. Repeats carry the same one."""


class Role(StrEnum):
    """What a site is in a migration."""

    SOURCE = "source"
    TARGET = "target"


class AssignRole(SiteCommand[Done]):
    """Take a role in a migration. Refused if the agent cannot fulfil it: engine down, job not here, …"""

    subject = f"{_SITE}.assign-role"
    answer = Done
    example = {"id": "s1", "site": "jfk", "operation": "m1", "job": "hourly-jfk", "role": "source"}

    job: JobName
    role: Role


class Launched(Model):
    """The target stands ready: inputs mirrored, code loaded, nothing consumed."""

    have: dict[str, str] = {}
    """Checkpoint files the target already has: path → digest."""


class LaunchRetrieve(SiteCommand[Launched]):
    """Target: start the job in migration mode. It consumes nothing and watches the state store."""

    subject = f"{_SITE}.launch-retrieve"
    answer = Launched
    example = {"id": "s2", "site": "cloud", "operation": "m1", "assignment": EXAMPLE_ASSIGNMENT}

    assignment: Assignment
    """Held; its epoch is the next one."""
    after_serials: dict[str, int] = {}
    """Input → what the source has processed so far: older events need not be mirrored."""


class Paused(Model):
    """The source has stopped at a committed micro-batch and its state lies in the state store."""

    serials: dict[str, int]
    """Input → last serial number processed. The target goes on with the next."""
    batch: int | None
    """The committed micro-batch; null when the job never committed one."""
    last_processed_at: datetime | None
    """When the newest micro-batch with events was committed."""
    files: int = 0
    state_bytes: int = 0
    digest: str = ""
    """Digest over the complete list of files, for the target to compare."""


class PauseTransfer(SiteCommand[Paused]):
    """Source: stop at a micro-batch boundary, send the checkpoint, keep it."""

    subject = f"{_SITE}.pause-transfer"
    answer = Paused
    example = {"id": "s3", "site": "jfk", "operation": "m1", "job": "hourly-jfk", "have": {}}

    job: JobName
    have: dict[str, str] = {}
    """What the target has already: not sent again."""
    transfer_state: bool = True
    """False for `restart`: stop only."""


class SetEpoch(SiteCommand[Done]):
    """Output site: the output stream accepts this epoch and no other. Epochs only grow."""

    subject = f"{_SITE}.set-epoch"
    answer = Done
    example = {
        "id": "s4",
        "site": "jfk",
        "operation": "m1",
        "job": "hourly-jfk",
        "epoch": 2,
        "output": EXAMPLE_ASSIGNMENT["output"],
    }

    job: JobName
    epoch: int = Field(ge=1)
    output: ResolvedOutput
    """The stream is made if it does not exist."""


class Resumed(Model):
    """The job runs here."""

    serials: dict[str, int] = {}
    """Input → last serial number that was processed before."""
    restored_bytes: int = 0


class ResumeJob(SiteCommand[Resumed]):
    """Start consuming. Target: after the state is complete. Source: to undo a pause."""

    subject = f"{_SITE}.resume"
    answer = Resumed
    example = {
        "id": "s5",
        "site": "cloud",
        "operation": "m1",
        "job": "hourly-jfk",
        "epoch": 2,
        "digest": "9c1e",
        "after_serials": None,
    }

    job: JobName
    epoch: int = Field(ge=1)
    digest: str | None = None
    """Digest of the state that must have arrived; null: resume with what is here."""
    after_serials: dict[str, int] | None = None
    """Without state: input → serial number to go on after."""


class ObserveProgress(SiteCommand[JobStatus]):
    """Answer when the job has committed its first micro-batch with events since it resumed."""

    subject = f"{_SITE}.observe-progress"
    answer = JobStatus
    example = {"id": "s6", "site": "cloud", "operation": "m1", "job": "hourly-jfk"}

    job: JobName


class ResetRole(SiteCommand[Done]):
    """End the migration here: the target becomes an ordinary owner, the source forgets the job."""

    subject = f"{_SITE}.reset"
    answer = Done
    example = {"id": "s7", "site": "jfk", "operation": "m1", "job": "hourly-jfk", "keep_job": False}

    job: JobName
    keep_job: bool
    """Whether the site owns the job from now on."""


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


class DropOutput(SiteCommand[Done]):
    """Output site: delete the output stream of a removed job."""

    subject = f"{_SITE}.drop-output"
    answer = Done
    example = {"id": "s10", "site": "jfk", "operation": "r1", "job": "hourly-jfk"}

    job: JobName


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
    ResumeJob,
    ObserveProgress,
    ResetRole,
    StartJob,
    StopJob,
    DropOutput,
    CheckSpec,
)
