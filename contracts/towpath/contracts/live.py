"""Messages to the live page: the state of the mesh, then its changes; and the newest results of a job."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from towpath.contracts.autopilot import AutopilotMode, Decision, SiteWindow
from towpath.contracts.commands import LiveJob, OperationView
from towpath.contracts.fault_commands import RuleView
from towpath.contracts.job import JobStatus
from towpath.contracts.message import ROOT, Command, Identifier, JobName, Model, SiteName
from towpath.contracts.site import ProcessStatus, SiteState
from towpath.contracts.standby import StandbyView

MAX_RESULTS = 200

MAX_RESULT_BYTES = 16 * 1024
"""Of one result that is shown whole; of a larger one only its size is told."""


class LiveSite(Model):
    """A site, without what changes with each heartbeat."""

    state: SiteState
    nats_url: str
    mqtt_host: str
    mqtt_port: int
    processes: list[ProcessStatus] = []
    error: str | None = None


class LiveAutopilot(Model):
    """Settings of the autopilot, and its last look."""

    mode: AutopilotMode
    policy: str
    latency_s: float
    """Goal of each job: seconds from the newest event in a result to the result."""
    horizon_s: float
    """Seconds that it looks ahead."""
    looked: datetime | None = None
    """Time of its last look that succeeded."""
    trouble: str | None = None
    """Reason why the last look failed."""


class LiveChange(Model):
    """New and different parts, by key; null for those that are gone. All others are as they were.

    Server-sent events of `/live`: first one `snapshot` with everything, then a `change` about each second in
    which something did change, and a `happened` for each event of the mesh.
    """

    at: datetime
    """When it was looked at."""
    sites: dict[SiteName, LiveSite | None] = {}
    jobs: dict[JobName, LiveJob | None] = {}
    statuses: dict[JobName, JobStatus | None] = {}
    """Job → how it goes, as its site last reported."""
    standbys: dict[JobName, StandbyView | None] = {}
    """Job → how far its standby is behind. Jobs without one are left out."""
    operations: dict[Identifier, OperationView | None] = {}
    """The latest operations, without their journals."""
    rules: dict[str, RuleView | None] = {}
    """Fault rules that are loaded."""
    values: dict[str, tuple[float, float] | None] = {}
    """`site/entity/metric` → Unix seconds and value of the newest sample."""
    autopilot: dict[str, LiveAutopilot | None] = {}
    """`hub` → the autopilot that runs there, or is off."""
    windows: dict[Identifier, SiteWindow | None] = {}
    """Windows that have not ended."""
    decisions: dict[Identifier, Decision | None] = {}
    """The newest decisions of the autopilot."""
    unanswered: dict[str, str | None] = {}
    """Service that does not answer at the moment → why. What it told before stays."""


class LiveEvent(Model):
    """An event of the mesh, as it happened."""

    serial: int
    """Its serial number, which `/events` takes as `after`."""
    subject: str
    body: dict[str, Any]


class KeptResult(Model):
    """A result as a job's output stream keeps it."""

    serial: int
    """Its own, in the output stream."""
    bytes: int
    body: dict[str, Any] | None
    """The published object; null where it is too large to be shown, or no JSON object."""


class ResultList(Model):
    """The newest results of a job, the newest first."""

    job: JobName
    site: SiteName
    """Where the output stream is."""
    stream: str
    last: int
    """The newest serial number; 0 when there is no result yet."""
    results: list[KeptResult]


class ReadResults(Command[ResultList]):
    """The newest results of a job, from its output stream, wherever that is."""

    subject = f"{ROOT}.command.collector.read-results"
    answer = ResultList
    example = {"id": "q5", "job": "hourly-jfk", "limit": 20}

    job: JobName
    limit: int = Field(default=20, ge=1, le=MAX_RESULTS)


RESULT_COMMANDS: tuple[type[Command[Any]], ...] = (ReadResults,)
"""Served by the collector."""
