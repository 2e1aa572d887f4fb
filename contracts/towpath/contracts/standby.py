"""Standbys and failover: a job goes on at another site when its own is lost."""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Any

from pydantic import Field

from towpath.contracts.commands import OperationAnswer
from towpath.contracts.job import Assignment, ResolvedOutput
from towpath.contracts.message import ROOT, Command, Identifier, JobName, Model, SiteName, is_unused
from towpath.contracts.migration import EXAMPLE_ASSIGNMENT, Resumed, SiteCommand
from towpath.contracts.reply import Done

_COORDINATOR = f"{ROOT}.command.coordinator"
_SITE = f"{ROOT}.command.{{site}}"

_PREFIX = "standby-"


def standby_operation(job: JobName, epoch: int) -> Identifier:
    """Return the name under which a job's state travels to its standby, while its owner has this epoch."""
    return f"{_PREFIX}{hashlib.sha256(job.encode()).hexdigest()[:16]}-{epoch}"


class StandbyCopy(Model):
    """The copy of a job's state that its standby has."""

    epoch: int
    generation: int
    """Epoch and generation of its owner. No other may go on with it: it may be the state of an earlier job of
    that name."""
    digest: str
    serials: dict[str, int]
    """Input → last serial number that the state covers."""
    taken_at: datetime
    """When its owner was asked for it, by the coordinator's clock."""


class StandbyKept(Model):
    """The part of a job that its standby has."""

    have: dict[str, str] = {}
    """Checkpoint files that it has: path → digest."""
    transfer: str = ""
    """The standby's name of the transfer, see `Launched`."""
    state: StandbyCopy | None = None
    """Null: none has arrived from the present owner yet."""
    mirrored: dict[str, int] = {}
    """Input → last serial number that is stored at the standby's site, or where it is read from."""
    has_output: bool = False
    """It has a copy of the job's output that can be promoted."""


class KeepStandby(SiteCommand[StandbyKept]):
    """Standby: mirror the job's inputs, expect its state, and take over the state that has arrived."""

    subject = f"{_SITE}.keep-standby"
    answer = StandbyKept
    example = {
        "id": "f1",
        "site": "cloud",
        "operation": "standby-9c1e-3",
        "assignment": {**EXAMPLE_ASSIGNMENT, "desired": "standby"},
    }

    assignment: Assignment
    """As its owner has it, with the owner's epoch."""
    after_serials: dict[str, int] = {}
    """Input → what the owner has processed so far: older events need not be mirrored for the first copy."""
    arrived: StandbyCopy | None = None
    """State that has just been sent."""
    needed: bool = False
    """Refused if there is no state of this owner here."""
    copies_output: bool = Field(default=False, exclude_if=is_unused)
    """Copy the job's output as well: it is at the owner's site, and would be lost with it."""


class TakeOver(SiteCommand[Resumed]):
    """Standby: run the job from the copy that is here, as its owner. Refused if there is none."""

    subject = f"{_SITE}.take-over"
    answer = Resumed
    example = {"id": "f2", "site": "cloud", "operation": "o1", "assignment": EXAMPLE_ASSIGNMENT}

    assignment: Assignment


class PromoteOutput(SiteCommand[Done]):
    """Standby: promote the copy of a lost site's output. Refused if there is none.

    The output accepts no owner yet.
    """

    subject = f"{_SITE}.promote-output"
    answer = Done
    example = {
        "id": "f6",
        "site": "cloud",
        "operation": "o1",
        "job": "hourly-jfk",
        "epoch": 3,
        "output": {**EXAMPLE_ASSIGNMENT["output"], "site": "cloud", "first_site": "jfk"},
        "readers": ["lga"],
    }

    job: JobName
    epoch: int = Field(ge=0)
    """Of the lost owner."""
    output: ResolvedOutput
    """As it is once promoted."""
    readers: list[SiteName] = []
    """Sites with mirrors of it. One may have more than the standby."""


class HoldMirrors(SiteCommand[Done]):
    """Site of a reader: for a minute, take nothing more of a stream whose copy is about to be promoted.

    What the site of its origin still publishes, should it live, would not be in the promoted copy.
    """

    subject = f"{_SITE}.hold-mirrors"
    answer = Done
    example = {
        "id": "f7",
        "site": "lga",
        "operation": "o1",
        "home_site": "jfk",
        "streams": ["OUT_hourly-jfk", "REJECTED_hourly-jfk"],
    }

    home_site: SiteName
    """The site by which readers know the streams."""
    streams: list[str]


class StandbyView(Model):
    """A job's standby, as the coordinator saw it last."""

    job: JobName
    site: SiteName
    """Where the job runs."""
    standby: SiteName
    every_s: float
    behind_s: float | None = None
    """Age of the state's copy, seconds. Null: there is none."""
    behind_events: int | None = None
    """Events that the owner has processed since, as far as it has said: they are processed again. Null: there
    is no copy, or the owner has said nothing."""
    lost_events: int | None = None
    """Events that the owner has processed, and of which the standby has no copy: they come back with the
    owner's disk, or not at all. Events that it had stored and not processed may be missing as well."""
    unheard_s: float | None = None
    """Seconds since a site that is down was heard. Both numbers are of what it said last."""
    note: str = ""
    """Why the copy is not renewed."""


class StandbyList(Model):
    """The standbys of all jobs that have one."""

    standbys: list[StandbyView]


class ListStandbys(Command[StandbyList]):
    """The distance between each job and its standby."""

    subject = f"{_COORDINATOR}.list-standbys"
    answer = StandbyList
    example = {"id": "f3"}


class FailOverJob(Command[OperationAnswer]):
    """Let a job go on at its standby, because its site is lost.

    Its output takes results of the standby only, from then on. If the output was at the lost site, the
    standby promotes its copy, under the same topic, and jobs that read it follow. Refused while the site
    answers: `MigrateJob` moves the job then, without loss.
    """

    subject = f"{_COORDINATOR}.fail-over"
    answer = OperationAnswer
    example = {"id": "f4", "job": "hourly-jfk"}

    job: JobName
    to: SiteName | None = None
    """Null: the standby. Another site has no copy, and is refused."""
    wait: bool = True


class ForecastFailover(Command[StandbyView]):
    """The losses that a failover would bring. Raises what `FailOverJob` would raise."""

    subject = f"{_COORDINATOR}.forecast-failover"
    answer = StandbyView
    example = {"id": "f5", "job": "hourly-jfk"}

    job: JobName
    to: SiteName | None = None


STANDBY_COMMANDS: tuple[type[Command[Any]], ...] = (ListStandbys, ForecastFailover, FailOverJob)
"""Served by the coordinator."""

SITE_STANDBY_COMMANDS: tuple[type[Command[Any]], ...] = (KeepStandby, TakeOver, HoldMirrors, PromoteOutput)
