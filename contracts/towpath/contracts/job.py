"""Jobs: what a user asks for (`JobSpec`), what an agent is told (`Assignment`), how it goes (`JobStatus`)."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, NamedTuple, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from towpath.contracts.data_plane import (
    BROADCAST_PREFIX,
    DEVICE_PREFIX,
    mirror_stream,
    rejected_topic,
)
from towpath.contracts.event_formats import EventFormat
from towpath.contracts.message import MAX_TOPIC, Identifier, JobName, Model, SiteName, Topic, is_unused
from towpath.contracts.operators import FieldName, Operator, StepModel

MAX_REPEATS_WITHIN = 200_000
"""A query keeps so many identities in 26 MB, and reads them in a second when it starts."""


class Thinning(Model):
    """Permission to read a part of the events: where a job needs no more of them, or cannot keep up.

    Each event that is read has the weight 1 / share.
    """

    strata: dict[FieldName, FieldName] = {}
    """Field of events → field of the key of the job's window that has its value behind `=`. Each combination
    of values has a share of its own, which the window's `precision` demands."""
    salience: int | None = Field(default=None, ge=0, le=100)
    """A job that falls behind reads less, the sooner the smaller this is; null: never less."""


class Input(Model):
    """Where a job reads: a topic at a site."""

    site: SiteName
    """In a pipeline also `auto`: where its one job that writes the topic has its output."""
    topic: Topic
    """A device topic (`site/…`) or the output topic of a job."""
    start: Literal["earliest", "latest"] | int = "earliest"
    """Where a new job begins: with what is still kept, with what comes, or after a serial number."""
    identity: list[FieldName] = []
    """Fields that together identify an event of a device. One that has the same values there as one of the
    `repeats_within` events before it is passed over. Values count as they are written. An event that lacks
    one of the fields repeats nothing. Where the device names its event (user property `event-id` of MQTT 5,
    through a Mosquitto), this name and the topic identify it instead. An update may change this while the
    job runs."""
    repeats_within: int = Field(default=20_000, ge=1, le=MAX_REPEATS_WITHIN)
    """Distance over which a repeat is known: in serial numbers, which all devices of the site share, and as
    far as the site keeps events."""

    on_loss: Literal["stop", "report"] = "stop"
    """Where events were gone before the job read them, because the stream has a limit: stop with an error, or
    pass over them and name them as one rejected event. An update may change this while the job runs."""
    format: EventFormat | None = None
    """Form in which devices write the events; null: one JSON object each. An update may change this while the
    job runs."""
    sample: float | None = Field(default=None, gt=0, lt=1)
    """Share of the events that is read, chosen by their serial numbers. An update may change this while the
    job runs."""
    thinning: Thinning | None = None
    """Shares that follow from what is read; null: all events count. An update may change this while the job
    runs."""

    @field_validator("identity")
    @classmethod
    def _of_devices(cls, identity: list[str], others: ValidationInfo) -> list[str]:
        if identity and _reads_results(others):
            raise ValueError(f"only events of devices repeat: topics under {DEVICE_PREFIX}")
        return identity

    @field_validator("format")
    @classmethod
    def _written_by_devices(cls, form: EventFormat | None, others: ValidationInfo) -> EventFormat | None:
        if form is not None and _reads_results(others):
            raise ValueError(f"results of jobs have one form: give a format to topics under {DEVICE_PREFIX}")
        return form

    @property
    def name(self) -> str:
        """Name of the input in results and status: `site/topic`."""
        return f"{self.site}/{self.topic}"

    @property
    def from_device(self) -> bool:
        """True if devices, not jobs, publish here."""
        return self.topic.startswith(DEVICE_PREFIX)


def _reads_results(fields: ValidationInfo) -> bool:
    """Tell if an input's topic, if it is valid, is that of a job and not of devices."""
    return not fields.data.get("topic", DEVICE_PREFIX).startswith(DEVICE_PREFIX)


class Output(Model):
    """Where a job publishes. The output stays at its site when the job moves."""

    site: SiteName | None = None
    """The job's first site, unless given."""
    topic: Topic
    dead_letter: Topic | None = None
    """Topic of rejected events; `<topic>/rejected` unless given."""

    @field_validator("topic", "dead_letter")
    @classmethod
    def _not_a_device_topic(cls, topic: str | None) -> str | None:
        if topic is not None and topic.startswith(DEVICE_PREFIX):
            raise ValueError(f"topics under {DEVICE_PREFIX} belong to devices")
        if topic is not None and topic.startswith(BROADCAST_PREFIX):
            raise ValueError(f"topics under {BROADCAST_PREFIX} belong to broadcasts")
        return topic

    @model_validator(mode="after")
    def _rejected_events_have_a_topic(self) -> Output:
        if len(self.rejected_topic) > MAX_TOPIC:
            raise ValueError(f"the topic of rejected events has more than {MAX_TOPIC} characters")
        return self

    @property
    def rejected_topic(self) -> str:
        """Where rejected events go."""
        return self.dead_letter or rejected_topic(self.topic)


class ContainerLimits(Model):
    """Limits of a container; null: as much as its machine has."""

    cpus: float | None = Field(default=None, ge=0.01, le=1024)
    """Processors, also parts of one."""
    memory_mb: int | None = Field(default=None, ge=6)
    """Of 1,048,576 bytes, without swap. A container that needs more is killed, and restarted."""


class JobContainer(ContainerLimits):
    """An engine for one job alone. At a site whose parts are processes it is one, too, without limits."""

    image: str | None = Field(default=None, min_length=1)
    """With Towpath of the mesh's version and what the job's code needs; null: the site's own. Only a site
    that runs containers takes a job that names one."""


class QualityOfService(Model):
    """The goal of a job, and what may be done to reach it."""

    latency_p99_s: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Goal for 99 of 100 results: seconds from the newest event in a result to the result."""
    replicas: Literal["auto", "none"] = "none"
    """auto: the autopilot gives it a second run elsewhere while it breaks its goal or is a straggler."""
    straggler: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """A straggler is slower than the median of jobs with the same operator by more than this share of it."""

    @model_validator(mode="after")
    def _replicas_have_a_reason(self) -> QualityOfService:
        if self.replicas == "auto" and self.latency_p99_s is None and self.straggler is None:
            raise ValueError("replicas need a goal (latency_p99_s), or a share above others (straggler)")
        return self


class Standby(Model):
    """Where the job goes on if its site is lost: that site has copies of its inputs and of its state."""

    site: SiteName
    every_s: float = Field(default=10.0, ge=1, le=3600)
    """Seconds between two copies of the state. Only what changed is sent. After a failover, the events since
    the last copy are processed again."""


class JobSpec(Model):
    """A job as a user describes it."""

    name: JobName
    site: SiteName
    """Where it runs first. `auto`: where Towpath finds the best place; an update leaves it where it is."""
    inputs: list[Input] = Field(min_length=1)
    output: Output
    operator: Operator
    trigger_s: float = Field(default=1.0, ge=0, le=3600)
    """Least seconds from the start of a micro-batch to that of the next, which waits for events after that.
    The first ones of a run follow each other sooner. 0: at once."""
    max_events_per_batch: int | None = Field(default=None, gt=0)
    """Upper bound of a micro-batch, over all inputs; spreads a backlog over several."""
    container: JobContainer | None = None
    """An engine of its own, which starts and ends with it; null: it shares the site's with other jobs."""
    qos: QualityOfService | None = None
    """Its quality of service. An update may change this while the job runs."""
    standby: Standby | None = None
    """Null: if its site is lost, the job is, too. An update may change this while the job runs."""

    @model_validator(mode="after")
    def _inputs_differ(self) -> JobSpec:
        names = [i.name for i in self.inputs]
        if len(set(names)) < len(names):
            raise ValueError("two inputs are the same")
        return self

    @field_validator("operator")
    @classmethod
    def _only_steps_have_names(cls, operator: Operator) -> Operator:
        if isinstance(operator, StepModel) and operator.name is not None:
            raise ValueError("only the steps of a chain have names; the job has one")
        return operator

    @property
    def output_site(self) -> str:
        """Where the output stream lives."""
        return self.output.site or self.site


EXAMPLE_SPEC: dict[str, Any] = {
    "name": "hourly-jfk",
    "site": "jfk",
    "inputs": [{"site": "jfk", "topic": "departures/clean"}],
    "output": {"topic": "departures/hourly"},
    "operator": {
        "kind": "window",
        "fields": {"carrier": "string", "delay": "double", "departed_at": "timestamp"},
        "event_time": "departed_at",
        "watermark_s": 86400,
        "size_s": 3600,
        "key": ["carrier"],
        "aggregates": {
            "departures": {"function": "count"},
            "mean_delay": {"function": "avg", "field": "delay"},
            "p95_delay": {"function": "percentile", "field": "delay", "q": 0.95},
        },
    },
}


class ResolvedInput(Model):
    """An input after the coordinator looked it up: which stream at which site."""

    name: str
    """`site/topic`, as in `Input.name`."""
    site: SiteName
    stream: str
    """Name of the stream at the origin."""
    subject: str | None
    """Only messages on this subject count; all of the stream when null."""
    from_device: bool
    """Form of the events: bare JSON objects, or results of a job in their envelope."""
    after_serial: int | None = Field(default=None, ge=0)
    """Read from the next serial number; null: the oldest that is kept."""
    current_site: SiteName | None = Field(default=None, exclude_if=is_unused)
    """Where the stream is now, if its `site` was lost: under the same name, with the same serial numbers."""
    numbering: int = Field(default=0, ge=0)
    """Times that the job was told to go on in a stream that gives its serial numbers to other events,
    because it began again or lost its end. Ids of results must differ from those of the earlier events."""
    identity: list[FieldName] = []
    """As in `Input`: an event that repeats another one is passed over."""
    repeats_within: int = Field(default=0, ge=0, le=MAX_REPEATS_WITHIN)
    """As in `Input`; 0 without an identity."""
    on_loss: Literal["stop", "report"] = "stop"
    format: EventFormat | None = None
    sample: float | None = None
    thinning: Thinning | None = None
    """All four as in `Input`."""

    @property
    def place(self) -> tuple[str, str, str | None]:
        """Identity of an input, whatever its name: site, stream, subject."""
        return self.site, self.stream, self.subject

    @property
    def origin(self) -> SiteName:
        """The site that has the stream now, and that feeds its mirrors."""
        return self.current_site or self.site

    def local_stream(self, here: str) -> str:
        """Return the stream at the site `here` that has the events: the stream itself, or a mirror of it."""
        return self.stream if here == self.origin else mirror_stream(self.site, self.stream)


class ResolvedOutput(Model):
    """An output after the coordinator looked it up. Another topic or site is another stream."""

    site: SiteName
    stream: str
    topic: Topic
    rejected_topic: Topic
    first_site: SiteName | None = Field(default=None, exclude_if=is_unused)
    """Where the stream began, if it is not there any more: its readers know it by this site."""

    @property
    def home_site(self) -> SiteName:
        """The site by which readers know the stream."""
        return self.first_site or self.site

    def at(self, site: SiteName) -> Self:
        """Return the same output at another site, where its copy is promoted."""
        return self.model_copy(
            update={"site": site, "first_site": None if site == self.home_site else self.home_site}
        )


HIGHEST_NUMBER = 2**31
"""Numbers of a version grow by one with each change. None is higher, unless it is forged."""


class Version(NamedTuple):
    """Version of a job's description. The greater one is newer, and replaces the other."""

    epoch: int
    revision: int
    adjustments: int

    @property
    def is_credible(self) -> bool:
        """False for numbers that leave none above them for the changes to come: a stolen site names them."""
        return max(self) <= HIGHEST_NUMBER


class DesiredState(StrEnum):
    """State that an agent keeps a job in."""

    RUNNING = "running"
    HELD = "held"
    """Prepared, nothing consumed: a target that waits for state, or a source that has paused."""
    STANDBY = "standby"
    """Another site runs it. Its inputs and its state are copied here."""


class Derivation(Model):
    """Makes the first checkpoint of a generation from the last one of the generation before.

    State and results go on; what changes is where the job reads on in each input.
    """

    generation: int = Field(ge=1)
    """The generation before."""
    inputs: list[str]
    """Names of its inputs, in their order."""
    serials: dict[str, int]
    """Input of the new generation → the serial number it goes on after."""


class Assignment(Model):
    """A job as given to one site. The agent keeps it on disk, so a site recovers alone."""

    spec: JobSpec
    epoch: int = Field(ge=1)
    """Number of the job's owner, from 1, as a fencing token."""
    generation: int = Field(default=1, ge=1)
    """Which checkpoint: a change that state cannot survive starts the next one."""
    revision: int = Field(default=0, ge=0)
    """Number of adjustments while the job ran: tells an older description of the epoch from a newer."""
    adjustments: int = Field(default=0, ge=0)
    """Number of adjustments by the site itself that the description contains, see `AdjustJob`."""
    adjusted_by: list[Identifier] = []
    """The newest of the commands that asked for them, the oldest first. Only the site knows them."""
    inputs: list[ResolvedInput]
    output: ResolvedOutput
    artefact: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    """SHA-256 of the job's user code, by which the hub keeps it; null for a job that brings none."""
    derived: Derivation | None = None
    """Where the state of this generation comes from; null: it begins with none."""
    desired: DesiredState = DesiredState.RUNNING
    migration: str | None = None
    """The migration the assignment takes part in, if any."""

    @property
    def version(self) -> Version:
        """Tells an older description of the job from a newer one."""
        return Version(self.epoch, self.revision, self.adjustments)


class JobState(StrEnum):
    """State of a job at a site."""

    STARTING = "starting"
    RUNNING = "running"
    HELD = "held"
    STANDBY = "standby"
    RETRYING = "retrying"
    """The query failed and is started again after a pause."""
    FAILED = "failed"
    """Will not run again without a change: see `error`."""
    FENCED = "fenced"
    """Another site owns the job by now."""
    UNKNOWN = "unknown"
    """A later version of Towpath says a state that this one does not know."""

    @classmethod
    def _missing_(cls, value: object) -> JobState:
        return cls.UNKNOWN


class StepStatus(Model):
    """Counts of one step of a chain since the query started here.

    A micro-batch that runs again is counted again.
    """

    name: str
    events: int = 0
    """Events, or results of the step before, that reached it."""
    rejected: int = 0
    results: int = 0
    """Results that it made."""


class JobStatus(Model):
    """Status of a job at a site. Part of the site's heartbeat."""

    job: JobName
    epoch: int
    revision: int = 0
    adjustments: int = 0
    """Both as in `Assignment`: which description of the job this is about."""
    state: JobState
    batch: int | None = None
    """Number of the newest committed micro-batch."""
    serials: dict[str, int] = {}
    """Input → newest serial number processed and committed."""
    stored_at: dict[str, str] = {}
    """Input → when its stream stored that event, as its server writes it. Only where the job's checkpoint was
    asked for."""
    events: int = 0
    """Events read since the query started here."""
    events_per_s: float = 0.0
    """Of the newest micro-batch with events."""
    results: int = 0
    """Results published since the query started here."""
    rejected: int = 0
    """Events sent to the dead-letter topic since the query started here."""
    steps: list[StepStatus] = []
    """Of a chain: its steps, in their order."""
    batch_s: float | None = None
    """Duration of the newest micro-batch, seconds."""
    committed_at: datetime | None = None
    """When the newest micro-batch with events was committed."""
    restarts: int = 0
    """Restarts of the query after failures, since it was given to the engine."""
    retried_at: datetime | None = None
    """Of a job that is `retrying`: when its query is started again."""
    error: str | None = None

    @property
    def version(self) -> Version:
        """The version of the description that this is about."""
        return Version(self.epoch, self.revision, self.adjustments)
