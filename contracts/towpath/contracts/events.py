"""Events: what the mesh says of itself. All are kept in the hub's EVENTS stream."""

from __future__ import annotations

from typing import Any

from towpath.contracts.commands import MigrationFigures, OperationKind, OperationState, StrategyName
from towpath.contracts.errors import ErrorDetail
from towpath.contracts.job import EXAMPLE_SPEC, JobSpec, JobState, ResolvedInput, ResolvedOutput
from towpath.contracts.message import ROOT, AskedBy, Event, Identifier, JobName, SiteName
from towpath.contracts.migration import EXAMPLE_ASSIGNMENT
from towpath.contracts.site import SiteState, StorageState

_EVENT = f"{ROOT}.event"
EVENTS_STREAM = "EVENTS"
EVENTS_WILDCARD = f"{_EVENT}.>"
_AT = "2026-01-01T00:00:00Z"


class CommandRefused(Event):
    """A command was refused, and nothing was changed. Sent also when no one waits for a reply."""

    subject = f"{_EVENT}.command.{{command}}.refused"
    example = {
        "at": _AT,
        "command": "c1",
        "request": "migrate",
        "error": {"code": "unknown_site", "message": "no such site", "field": "to", "value": "mars"},
    }

    command: Identifier
    """The command's `id`, or `unreadable`."""
    request: str
    """The request: the last part of the command's subject."""
    asked_by: AskedBy | None = None
    """As the command says."""
    error: ErrorDetail


class OperationBegun(Event):
    """A deploy, update, remove or migrate was durably accepted."""

    subject = f"{_EVENT}.operation.{{operation}}.begun"
    example = {
        "at": _AT,
        "operation": "m1",
        "command": "c4",
        "kind": "migrate",
        "job": "hourly-jfk",
        "source": "jfk",
        "target": "cloud",
        "strategy": "general",
        "inputs": EXAMPLE_ASSIGNMENT["inputs"],
        "output": EXAMPLE_ASSIGNMENT["output"],
        "asked_by": "ada",
    }

    operation: Identifier
    command: Identifier
    asked_by: AskedBy | None = None
    """As the command says."""
    kind: OperationKind
    job: JobName
    source: SiteName | None = None
    target: SiteName | None = None
    strategy: StrategyName | None = None
    inputs: list[ResolvedInput] = []
    """The streams the job reads: after the operation, or before its removal. What is told of jobs that are
    gone stands in events alone."""
    output: ResolvedOutput | None = None
    """The stream it writes, in the same way."""


class StepDone(Event):
    """A step of an operation was confirmed, failed, or was undone."""

    subject = f"{_EVENT}.operation.{{operation}}.step"
    example = {
        "at": _AT,
        "operation": "m1",
        "job": "hourly-jfk",
        "step": "pause-transfer",
        "phase": "confirmed",
        "detail": {"state_bytes": 123},
    }

    operation: Identifier
    job: JobName
    step: str
    phase: str
    detail: dict[str, Any] = {}


class OperationEnded(Event):
    """An operation has ended: `completed`, `rolled_back` or `needs_operator`."""

    subject = f"{_EVENT}.operation.{{operation}}.ended"
    example = {
        "at": _AT,
        "operation": "m1",
        "kind": "migrate",
        "job": "hourly-jfk",
        "state": "completed",
        "figures": {"total_s": 2.5, "downtime_s": 0.9, "state_bytes": 123456},
        "asked_by": "ada",
    }

    operation: Identifier
    asked_by: AskedBy | None = None
    """As the command that began it says."""
    kind: OperationKind
    job: JobName
    state: OperationState
    note: str = ""
    figures: MigrationFigures | None = None


class SiteChanged(Event):
    """A site came up or went down."""

    subject = f"{_EVENT}.site.{{site}}.changed"
    example = {"at": _AT, "site": "jfk", "state": "down", "note": "no heartbeat for 5 s"}

    site: SiteName
    state: SiteState
    note: str = ""


class JobChanged(Event):
    """The state of a job at a site changed."""

    subject = f"{_EVENT}.job.{{job}}.changed"
    example = {"at": _AT, "job": "hourly-jfk", "site": "jfk", "epoch": 1, "state": "running"}

    job: JobName
    site: SiteName
    epoch: int
    state: JobState
    error: str | None = None


class EventsNotKept(Event):
    """Events that devices published are not kept.

    They came with QoS 0, or the site could not store them, and has not acknowledged them.
    """

    subject = f"{_EVENT}.site.{{site}}.not-kept"
    example = {"at": _AT, "site": "jfk", "events": 12}

    site: SiteName
    events: int
    """Events since the last such event."""


class StorageChanged(Event):
    """The disk of a site is fuller, or emptier, than a limit."""

    subject = f"{_EVENT}.site.{{site}}.storage"
    example = {"at": _AT, "site": "jfk", "state": "filling", "free_bytes": 6 * 10**9}

    site: SiteName
    state: StorageState
    free_bytes: int


class RetentionNear(Event):
    """A stream will soon drop events that a job has still to read. The job would stop, with `EventsLost`.

    Told again when the job has caught up and falls behind once more.
    """

    subject = f"{_EVENT}.job.{{job}}.retention"
    example = {
        "at": _AT,
        "job": "hourly-jfk",
        "site": "jfk",
        "input": "jfk/departures/clean",
        "left_s": 540.0,
    }

    job: JobName
    site: SiteName
    """Where the job runs."""
    input: str
    left_s: float
    """Seconds until then, if everything goes on as it does."""


class AdjustmentLost(Event):
    """A site has dropped what its operator adjusted there: the job was changed at the hub meanwhile.

    The hub's change counts. To have the lost one as well, send `lost` to the hub.
    """

    subject = f"{_EVENT}.job.{{job}}.adjustment-lost"
    example = {"at": _AT, "job": "hourly-jfk", "site": "jfk", "epoch": 3, "lost": EXAMPLE_SPEC}

    job: JobName
    site: SiteName
    epoch: int
    """The epoch of the change that replaced it."""
    lost: JobSpec
    """The job as it was adjusted at the site."""


class RegistryBehind(Event):
    """A site has a job under a later epoch than the registry knows: the registry came from an old copy.

    The coordinator touches nothing of the job, and refuses operations on it, until `RebuildRegistry` has
    adopted it, or a newer registry is restored.
    """

    subject = f"{_EVENT}.registry.{{job}}.behind"
    example = {"at": _AT, "job": "hourly-jfk", "site": "cloud", "epoch": 7, "known": 3}

    job: JobName
    site: SiteName
    """The site that has the job."""
    epoch: int
    """The epoch under which it has the job."""
    known: int | None = None
    """The highest epoch that the registry knows. None if it never heard of the job."""


class SecurityRefused(Event):
    """Someone tried what they have no right to, and was refused.

    For example, a message came under a subject that is not its own, or a request had a token that is not
    valid. A flood of such attempts makes one event for the first, and one for many later ones.

    Of its MQTT side, a site's own server tells `login`, `publish` and `subscription`, and also `client-id`,
    which it cannot refuse: a device with another user took over a session, because it has its client id.
    """

    subject = f"{_EVENT}.security.refused"
    example = {
        "at": _AT,
        "by": "coordinator",
        "kind": "SiteStatus",
        "came_under": "towpath.v1.heartbeat.lga",
        "belongs_to": "towpath.v1.heartbeat.jfk",
    }

    by: str
    """Name of the connection, the server or the gate that refused it."""
    kind: str
    """The kind of message that its receiver reads there, or what was tried."""
    came_under: str
    """The subject that the servers gave it: what its sender had the right to. Or the subject refused."""
    belongs_to: str | None = None
    """The subject that its body asks for. None if the message is of another kind than its receiver reads."""
    who: str = ""
    """The site, user or address that tried; empty if that cannot be known."""
    why: str = ""
    """The reason, in words."""
    times: int = 1
    """Attempts refused since the last such event."""


EVENTS: tuple[type[Event], ...] = (
    CommandRefused,
    OperationBegun,
    StepDone,
    OperationEnded,
    SiteChanged,
    JobChanged,
    EventsNotKept,
    RetentionNear,
    StorageChanged,
    AdjustmentLost,
    RegistryBehind,
    SecurityRefused,
)
