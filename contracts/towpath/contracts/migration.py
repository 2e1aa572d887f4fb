"""The migration protocol: what the coordinator tells the agents of source, target and output site.

`contracts/PROTOCOL.md` says in which order, and what each party must do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, Generic, Self

from pydantic import Field, model_validator

from towpath.contracts.job import EXAMPLE_SPEC, Assignment, JobContainer, JobStatus, ResolvedOutput
from towpath.contracts.message import ROOT, Answer, Command, Identifier, JobName, Model, SiteName
from towpath.contracts.reply import Done

_SITE = f"{ROOT}.command.{{site}}"

RECONCILIATION = "fix-"
"""Operations of this prefix are corrections by the coordinator: no migration, no roles."""

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


class StepCommand(Command[Answer], Generic[Answer]):
    """A command that the coordinator sends as a step of an operation."""

    is_step = True
    operation: Identifier
    """The operation this is a step of. Repeats carry the same one."""

    @property
    def addressee(self) -> str:
        """Who carries it out, as people call it."""
        return self.to_subject().split(".")[-2]


class SiteCommand(StepCommand[Answer], Generic[Answer]):
    """A command to the agent of one site."""

    site: SiteName
    """The site addressed."""


class Role(StrEnum):
    """Role of a site in a migration."""

    SOURCE = "source"
    TARGET = "target"


class AssignRole(SiteCommand[Done]):
    """Take a role in a migration. Refused if the agent cannot fulfil it: engine down, job not here, …"""

    subject = f"{_SITE}.assign-role"
    answer = Done
    example = {"id": "s1", "site": "jfk", "operation": "m1", "job": "hourly-jfk", "role": "source"}

    job: JobName
    role: Role
    container: JobContainer | None = None
    """Of a target: the engine that the job asks for. Its image is there before the role is taken."""
    adjustments: int | None = None
    """Of a source: the adjustments by the site itself that the operation knows of. Refused where there
    are more, because the target would not have them. Null: however many."""


class Launched(Model):
    """The target stands ready: inputs mirrored, code loaded, nothing consumed."""

    have: dict[str, str] = {}
    """Checkpoint files the target already has: path → digest."""
    transfer: str = ""
    """The target's name of the transfer. Only those who know it can read or write the state on its way."""


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
    """Files that the target has already: not sent again."""
    transfer: str = ""
    """The target's name of the transfer, see `Launched`."""
    transfer_state: bool = True
    """False for `restart`: stop only."""


class Shipped(Model):
    """The newest committed checkpoint has arrived at the target while the job ran on."""

    serials: dict[str, int]
    """Input → last serial number the checkpoint covers."""
    batch: int | None
    """Its micro-batch; null when the job has not committed one yet."""
    digest: str
    """Digest over the complete list of files, for the target to compare."""
    files: int = 0
    """Files sent, over all rounds."""
    state_bytes: int = 0
    """Bytes sent, over all rounds."""
    round_bytes: list[int] = []
    """Bytes of each round: the first is the whole checkpoint, the others what had changed."""


class ShipCheckpoint(SiteCommand[Shipped]):
    """Source: send the newest committed checkpoint while the job runs; then, again and again, what
    changed meanwhile, until that is little."""

    subject = f"{_SITE}.ship-checkpoint"
    answer = Shipped
    example = {"id": "s12", "site": "jfk", "operation": "m1", "job": "hourly-jfk", "have": {}}

    job: JobName
    have: dict[str, str] = {}
    """Files that the target has already: not sent again."""
    transfer: str = ""
    """The target's name of the transfer, see `Launched`."""
    enough_bytes: int = Field(default=2_000_000, ge=0)
    """A round that sent no more than this was the last."""
    rounds: int = Field(default=5, ge=1)
    """At most so many rounds: a job may change its state faster than the state travels."""


class ShadowOpened(Model):
    """Results of the epochs asked for are kept aside from now on."""

    output_serial: int
    """Last serial number in the output stream when the shadow was opened."""


class OpenShadow(SiteCommand[ShadowOpened]):
    """Output site: keep the results of these epochs aside, in the job's shadow stream.

    With `interim`, the output stream accepts that epoch from now on: the results of its present owner go
    to the shadow too, and reach subscribers through the monitor, which publishes under `interim`.
    """

    subject = f"{_SITE}.open-shadow"
    answer = ShadowOpened
    example = {
        "id": "s13",
        "site": "jfk",
        "operation": "m1",
        "job": "hourly-jfk",
        "epochs": [4],
        "owners": {"4": "cloud"},
        "interim": None,
        "output": EXAMPLE_ASSIGNMENT["output"],
    }

    job: JobName
    epochs: list[int] = Field(min_length=1)
    """Epochs whose results the shadow keeps."""
    owners: dict[int, SiteName]
    """Each of `epochs` → the site that publishes under it, and no other may."""
    interim: int | None = None
    """Epoch under which the monitor publishes meanwhile: its owner is `hub`."""
    output: ResolvedOutput

    @model_validator(mode="after")
    def _names_all_owners(self) -> Self:
        _check_owners(self.owners, self.epochs)
        return self


def _check_owners(owners: Mapping[int, str], epochs: Iterable[int]) -> None:
    """Raise `ValueError` unless `owners` names the owner of each epoch, and of no other."""
    if set(owners) != set(epochs):
        raise ValueError(f"owners names those of epochs {sorted(owners)}, and must of {sorted(set(epochs))}")


class DropShadow(SiteCommand[Done]):
    """Output site: delete the shadow stream with what is in it. Succeeds if there is none."""

    subject = f"{_SITE}.drop-shadow"
    answer = Done
    example = {"id": "s14", "site": "jfk", "operation": "m1", "job": "hourly-jfk"}

    job: JobName


class AmendedResult(Model):
    """A result that the monitor had recomputed: it covers what neither operator's window covers alone."""

    identity: str
    """Message id, without the stream's prefix."""
    body: str
    """The result's JSON."""


class Settlement(Model):
    """Results that the output takes in from the shadow stream before its new owner goes on."""

    epoch: int
    """Results of this epoch are taken from the shadow, in the order they have there."""
    after_position: int = 0
    """Only those behind this position of the shadow stream."""
    amended: list[AmendedResult] = []
    """Stored before them."""
    interim: int
    """Epoch under which they are stored: above the old owner's, below the new owner's. Its owner is the
    output's site."""


class SetEpoch(SiteCommand[Done]):
    """Output site: the output stream accepts this epoch and no other, but for `beside`. Epochs only grow.

    With a settlement, what waits in the shadow stream is stored first, and the shadow is deleted.
    """

    subject = f"{_SITE}.set-epoch"
    answer = Done
    example = {
        "id": "s4",
        "site": "jfk",
        "operation": "m1",
        "job": "hourly-jfk",
        "epoch": 2,
        "owners": {"2": "cloud"},
        "output": EXAMPLE_ASSIGNMENT["output"],
    }

    job: JobName
    epoch: int = Field(ge=1)
    owners: dict[int, SiteName]
    """`epoch`, and `beside` if given → the site that publishes under it, and no other may."""
    output: ResolvedOutput
    """The stream is made if it does not exist."""
    beside: int | None = Field(default=None, ge=1)
    """An older epoch that it goes on accepting: two sites publish, and of equal results the first counts."""
    settlement: Settlement | None = None
    resumes: int | None = Field(default=None, ge=0)
    """The epoch under which the run that goes on published last, if others had the output since: their change
    of hands was undone. What is stored from later epochs it may publish again, however long ago that was."""

    @model_validator(mode="after")
    def _names_all_owners(self) -> Self:
        _check_owners(self.owners, [self.epoch] if self.beside is None else [self.beside, self.epoch])
        return self


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


class Held(Model):
    """The coordinator has waited, and someone may have asked it to go on."""

    held_s: float
    """Seconds of the wait."""


class ResetRole(SiteCommand[Done]):
    """End the migration here: the target becomes an ordinary owner, the source forgets the job."""

    subject = f"{_SITE}.reset"
    answer = Done
    example = {"id": "s7", "site": "jfk", "operation": "m1", "job": "hourly-jfk", "keep_job": False}

    job: JobName
    keep_job: bool
    """True if the site owns the job from now on."""
    epoch: int | None = None
    """Highest epoch of the operation: a site that has the job under a later one was given it again since,
    and leaves it as it is. Null: whatever the epoch."""
