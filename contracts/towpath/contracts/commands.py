"""Commands for the coordinator: what users, the command line and other programs ask for."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

from pydantic import AwareDatetime, Field

from towpath.contracts.errors import TowpathError
from towpath.contracts.job import EXAMPLE_SPEC, JobSpec, JobState, JobStatus, ResolvedInput, ResolvedOutput
from towpath.contracts.message import ROOT, AskedBy, Command, Identifier, JobName, Model, SiteName
from towpath.contracts.site import SiteStatus

_COORDINATOR = f"{ROOT}.command.coordinator"


class StrategyName(StrEnum):
    """A strategy: the way a job changes site."""

    RESTART = "restart"
    """Stop, start elsewhere where the source stopped; state is thrown away."""
    GENERAL = "general"
    """Pause, carry the state, resume."""
    PARALLEL = "parallel"
    """Both run until a monitor finds their results consistent: for processing-time windows."""
    HANDOVER = "handover"
    """Carry the state while the job runs; change owner when the target has caught up."""
    TWIN = "twin"
    """Both publish, and the first of two equal results counts, until someone ends it."""
    AUTO = "auto"
    """Whichever suits the job; the operation's record says which, and why."""


class ConsistencyCheck(StrEnum):
    """When the results of two operators count as consistent."""

    IDENTITY = "identity"
    """Results of one identity are equal, and the target has caught up (`handover`)."""
    SERIALS = "serials"
    """As soon as the target's window reaches beyond the source's last one; the window that straddles
    the cut is recomputed (`parallel`)."""
    RESULTS = "results"
    """When two neighbouring results end at most S events apart (thesis, Algorithms 6.1 to 6.4)."""


class OperationState(StrEnum):
    """State of a deploy, update, remove or migrate."""

    RUNNING = "running"
    ROLLING_BACK = "rolling_back"
    COMPLETED = "completed"
    ROLLED_BACK = "rolled_back"
    NEEDS_OPERATOR = "needs_operator"
    """Neither forward nor back is possible now; the note says what to do."""


class OperationKind(StrEnum):
    """Kinds of operations on a job."""

    DEPLOY = "deploy"
    UPDATE = "update"
    REMOVE = "remove"
    MIGRATE = "migrate"
    FAIL_OVER = "fail-over"


class OperationAnswer(Model):
    """The operation that carries out a command, and how it ended or stands."""

    operation: Identifier
    """Follow it by events `towpath.v1.event.operation.<operation>.>` or with `show-operation`."""
    job: JobName
    kind: OperationKind
    state: OperationState
    note: str = ""


class DeployJob(Command[OperationAnswer]):
    """Start a new job."""

    subject = f"{_COORDINATOR}.deploy"
    answer = OperationAnswer
    example = {"id": "c1", "spec": EXAMPLE_SPEC}

    spec: JobSpec
    wait: bool = True
    """Answer when it is done; false: when it is durably accepted."""


class UpdateJob(Command[OperationAnswer]):
    """Change a running job. It goes on at the serial number where it stood.

    Stateless operators and settings change freely. A stateful operator whose computation changes
    starts with empty state, and needs `drop_state`.
    """

    subject = f"{_COORDINATOR}.update"
    answer = OperationAnswer
    example = {"id": "c2", "spec": {**EXAMPLE_SPEC, "trigger_s": 2.0}}

    spec: JobSpec
    drop_state: bool = False
    keep_code: bool = False
    """Go on with the user code that the job has, whatever lies at its path now."""
    force: bool = False
    """Let the results go elsewhere also while the site that has them is down. What an unfinished micro-batch
    had published there comes again in the new output, under the same ids."""
    wait: bool = True


class ResumeFrom(Command[OperationAnswer]):
    """Let a job go on at other events of its input. It keeps its state, and the events between do not count.

    It brings back a job whose events expired before it read them (`EventsLost`), or whose stream began again
    or lost its end (`EventsRenumbered`). A running job may pass over a backlog. It cannot go back, because
    its state would count events twice.
    """

    subject = f"{_COORDINATOR}.resume"
    answer = OperationAnswer
    example = {"id": "c3", "job": "hourly-jfk", "start": "earliest"}

    job: JobName
    start: Literal["earliest", "now"] | int | AwareDatetime
    """The oldest event that is kept, the next one that comes, after a serial number, or those stored since a
    time."""
    inputs: list[str] = []
    """Names of the inputs (`site/topic`) that go on there; may be left out if the job has one."""
    wait: bool = True


class RemoveJob(Command[OperationAnswer]):
    """Stop a job and forget it. Its output stream stays until `purge`."""

    subject = f"{_COORDINATOR}.remove"
    answer = OperationAnswer
    example = {"id": "c3", "job": "hourly-jfk"}

    job: JobName
    purge: bool = False
    """Also delete the output stream with what is in it."""
    drain: bool = False
    """First process everything that the inputs hold when the command comes."""
    force: bool = False
    """Also while its site is out of reach. If the site comes back, it forgets the job then."""
    wait: bool = True


DEFAULT_FACTOR = 10
"""The synchronisation factor S of a `parallel` migration that names none, in events."""


class MigrateJob(Command[OperationAnswer]):
    """Move a running job to another site."""

    subject = f"{_COORDINATOR}.migrate"
    answer = OperationAnswer
    example = {"id": "c4", "job": "hourly-jfk", "to": "cloud", "strategy": "general"}

    job: JobName
    to: SiteName
    strategy: StrategyName = StrategyName.AUTO
    check: ConsistencyCheck = ConsistencyCheck.SERIALS
    """Only for `parallel`: `serials` or `results`."""
    factor: int | None = Field(default=None, ge=0)
    """Only for `parallel` with the check `results`: synchronisation factor S, in events; null is 10."""
    at_most_s: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Seconds that the migration may take, such as a contact lasts. Refused if its forecast says longer: then
    nothing has begun, and the job runs on. A migration that has begun is not ended by it."""
    hold_s: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Only for `twin`: seconds for which both publish, before the target owns the job alone. Null: until
    someone ends it by `FinishMigration`, or by `AbortMigration`, which leaves the job where it was."""
    wait: bool = True
    """Answer at the end; for `twin`, as soon as both publish. False: when it is durably accepted."""


class MigrationForecast(Model):
    """Steps and expected cost of a migration."""

    job: JobName
    source: SiteName
    target: SiteName
    strategy: StrategyName
    """Never `auto`: what it came to."""
    reason: str
    """Why this strategy."""
    total_s: float
    """Expected duration, seconds."""
    state_bytes: int
    """Bytes of state expected to cross."""
    basis: str
    """Source of the expectation: earlier migrations, or the measured speed of a plain machine."""


class ForecastMigration(Command[MigrationForecast]):
    """Say what a migration would do, without doing it. Refused whenever the migration would be refused."""

    subject = f"{_COORDINATOR}.forecast-migration"
    answer = MigrationForecast
    example = {"id": "c9", "job": "hourly-jfk", "to": "cloud", "strategy": "auto"}

    job: JobName
    to: SiteName
    strategy: StrategyName = StrategyName.AUTO
    check: ConsistencyCheck = ConsistencyCheck.SERIALS
    """See `MigrateJob`."""
    factor: int | None = Field(default=None, ge=0)
    """See `MigrateJob`."""
    at_most_s: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """See `MigrateJob`."""


class AbortMigration(Command[OperationAnswer]):
    """Roll a migration back that is under way. Refused once only going forward is safe."""

    subject = f"{_COORDINATOR}.abort-migration"
    answer = OperationAnswer
    example = {"id": "c10", "operation": "5f0c9a7be210"}

    operation: Identifier
    wait: bool = True


class FinishMigration(Command[OperationAnswer]):
    """End the time in which two sites publish (strategy `twin`): the target owns the job from now on.

    One that has yet to come so far does not stop there. A repetition has no further effect.
    """

    subject = f"{_COORDINATOR}.finish-migration"
    answer = OperationAnswer
    example = {"id": "c12", "operation": "5f0c9a7be210"}

    operation: Identifier
    wait: bool = True


class LiveJob(Model):
    """A job, without how it goes at the moment."""

    spec: JobSpec
    site: SiteName
    """Where it runs now."""
    epoch: int
    state: JobState | None
    """As its site last reported; null when the site has not."""
    operation: Identifier | None
    """The operation under way, if any."""
    inputs: list[ResolvedInput] = []
    """The streams it reads."""
    output: ResolvedOutput
    """The stream it writes."""
    pipeline: JobName | None = None
    """The pipeline it belongs to."""


class JobView(LiveJob):
    """A job as the coordinator knows it."""

    status: JobStatus | None


class JobList(Model):
    """All jobs, by name."""

    jobs: list[JobView]

    def named(self, name: str, *, field: str = "job") -> JobView:
        """Return a job. Raises `TowpathError` (unknown job) about the request's `field`."""
        for job in self.jobs:
            if job.spec.name == name:
                return job
        raise TowpathError.unknown("job", name, [job.spec.name for job in self.jobs], field=field)


class ListJobs(Command[JobList]):
    """All jobs and how they go."""

    subject = f"{_COORDINATOR}.list-jobs"
    answer = JobList
    example = {"id": "c5"}


class SiteList(Model):
    """All sites, by name."""

    sites: list[SiteStatus]


class ListSites(Command[SiteList]):
    """All sites and how they are."""

    subject = f"{_COORDINATOR}.list-sites"
    answer = SiteList
    example = {"id": "c6"}


class JournalEntry(Model):
    """One line of an operation's journal."""

    step: str
    phase: str
    """`begun`, `confirmed`, `failed`, `compensating` or `compensated`."""
    at: datetime
    detail: dict[str, Any] = {}
    """The confirmation, or the error."""


class MigrationFigures(Model):
    """Cost of a migration."""

    total_s: float
    downtime_s: float | None = None
    """From the last input the source processed to the first the target processed, less the
    trigger interval; null when no input came in between."""
    state_bytes: int = 0
    """Bytes of state that crossed."""
    round_bytes: list[int] = []
    """The same by rounds, for `handover`: the whole checkpoint first, then what had changed."""
    compared: int | None = None
    """Results that source and target both published, and that the monitor found equal."""
    offset: int | None = None
    """For `parallel`: how many events the source was ahead when the results became consistent."""


class OperationView(Model):
    """An operation with its journal."""

    operation: Identifier
    kind: OperationKind
    job: JobName
    state: OperationState
    strategy: StrategyName | None = None
    source: SiteName | None = None
    target: SiteName | None = None
    begun_at: datetime
    ended_at: datetime | None = None
    note: str = ""
    asked_by: AskedBy | None = None
    """Who asked for it."""
    forecast: MigrationForecast | None = None
    """Forecast of a migration, made when it was accepted."""
    figures: MigrationFigures | None = None
    journal: list[JournalEntry] = []


class ShowOperation(Command[OperationView]):
    """One operation, step by step."""

    subject = f"{_COORDINATOR}.show-operation"
    answer = OperationView
    example = {"id": "c7", "operation": "5f0c9a7be210"}

    operation: Identifier


class OperationList(Model):
    """Operations, newest first, without their journals."""

    operations: list[OperationView]


class ListOperations(Command[OperationList]):
    """The latest operations, newest first."""

    subject = f"{_COORDINATOR}.list-operations"
    answer = OperationList
    example = {"id": "c8", "kind": "migrate"}

    kind: OperationKind | None = None
    limit: int = Field(default=50, ge=1, le=1000)


COORDINATOR_COMMANDS: tuple[type[Command[Any]], ...] = (
    DeployJob,
    UpdateJob,
    ResumeFrom,
    RemoveJob,
    MigrateJob,
    ListJobs,
    ListSites,
    ShowOperation,
    ListOperations,
    ForecastMigration,
    AbortMigration,
    FinishMigration,
)
