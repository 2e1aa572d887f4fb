"""Parts of the REST interface: a route is one command, with the sources of its fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import Field, create_model

from towpath.contracts.commands import OperationState
from towpath.contracts.errors import ErrorCode, ErrorDetail
from towpath.contracts.message import Command, Model
from towpath.contracts.metrics import MAX_POINTS, Aggregation
from towpath.contracts.role import PUBLIC, VIEW, Role
from towpath.contracts.storage import Wanted

JSON = "application/json"
YAML = "application/yaml"
MERGE_PATCH = "application/merge-patch+json"
PROBLEM = "application/problem+json"
EVENT_STREAM = "text/event-stream"
EXPOSITION = "text/plain"
"""Prometheus's text format."""

MAX_BODY_BYTES = 1024 * 1024
"""Of a request. A pipeline of a thousand jobs takes less."""

MAX_WAIT_S = 300
"""As long as a request may ask to wait by `Prefer: wait=N`, seconds."""

LARGEST_SERIAL = 2**63 - 1

IDEMPOTENCY_KEY_PATTERN = r'^("[A-Za-z0-9-]{1,64}"|[A-Za-z0-9-]{1,64})$'
"""An identifier, bare or as a structured field's string."""

EVENT_PATTERN = r"^(\*|[A-Za-z0-9_-]+)(\.(\*|[A-Za-z0-9_-]+)){0,2}$"
"""Up to three parts of a subject; `*` stands for any."""

STATUS: dict[ErrorCode, int] = {
    ErrorCode.INVALID: 422,
    ErrorCode.UNKNOWN_SITE: 422,
    ErrorCode.UNKNOWN_JOB: 422,
    ErrorCode.UNKNOWN_TOPIC: 422,
    ErrorCode.UNKNOWN_OPERATOR: 422,
    ErrorCode.UNKNOWN_COMMAND: 404,
    ErrorCode.UNKNOWN_MIGRATION: 422,
    ErrorCode.UNKNOWN_PIPELINE: 422,
    ErrorCode.UNKNOWN_PLAN: 422,
    ErrorCode.UNKNOWN_TRACE: 422,
    ErrorCode.UNKNOWN_DECISION: 422,
    ErrorCode.UNKNOWN_WINDOW: 422,
    ErrorCode.UNAUTHORISED: 401,
    ErrorCode.FORBIDDEN: 403,
    ErrorCode.SCHEMA_MISMATCH: 422,
    ErrorCode.NAME_IN_USE: 409,
    ErrorCode.ALREADY_THERE: 409,
    ErrorCode.SITE_DOWN: 503,
    ErrorCode.BUSY: 409,
    ErrorCode.NOT_ALLOWED: 409,
    ErrorCode.EVENTS_LOST: 409,
    ErrorCode.FENCED: 409,
    ErrorCode.DEADLINE: 504,
    ErrorCode.UNREACHABLE: 503,
    ErrorCode.FAILED: 500,
}
"""HTTP status of each error. A thing that the path itself names is 404 instead: `Route.addressed`."""

MEANINGS: dict[int, str] = {
    400: "The body, or a header, is not readable.",
    401: "No token, or none that is valid now.",
    403: "The token's role does not allow it: `allowed` says which roles do.",
    404: "What the path names does not exist.",
    406: "The client accepts none of the media types there are.",
    409: "Refused for what runs now, or carried out and undone again; `code` says which.",
    413: f"The body has more than {MAX_BODY_BYTES} bytes.",
    415: "The body is of another media type than the ones listed.",
    422: "Readable, but not valid: `field`, `value` and `allowed` say what and why.",
    429: "Too many requests with wrong tokens at once.",
    500: "It was tried and did not work.",
    503: "A site or a service does not answer at the moment.",
    504: "No answer came in time.",
}

ANY_ERRORS = frozenset({401, 406, 422, 429, 500, 503, 504})
"""Statuses of the problems of every route that asks the mesh something."""

CHANGE_ERRORS = ANY_ERRORS | {400, 409}
BODY_ERRORS = frozenset({400, 413, 415})


class Problem(Model):
    """Problem details (RFC 9457), with the fields of `ErrorDetail`. What does not apply is left out."""

    type: str
    """`urn:towpath:error:` and the code."""
    title: str
    """Meaning of the status."""
    status: int
    detail: str
    """One line for people."""
    code: ErrorCode
    field: str | None = None
    """Path of the offending field in the body, or the name of the parameter or header."""
    value: Any = None
    """The value given there."""
    allowed: str | list[str] | None = None
    """The values allowed there."""
    errors: list[ErrorDetail] = []
    """All that is wrong, where more than one thing was looked for."""


class Health(Model):
    """The service answers, and is connected to the hub."""

    healthy: bool = True


class EventsQuery(Model):
    """Which events a client wants."""

    after: int | None = Field(default=None, ge=0, le=LARGEST_SERIAL)
    """Serial number of the last event that the client has; 0: from the oldest that is kept. Left out: only
    events from now on. The header `Last-Event-ID`, which browsers send, comes before it."""
    subject: str | None = Field(default=None, max_length=200, pattern=EVENT_PATTERN)
    """Only these, by the parts of the subject after `towpath.v1.event`: a kind (`operation`, `job`, `site`,
    `pipeline`, …), kind and id (`job.hourly-jfk`), or kind, id and what happened (`operation.*.ended`)."""
    follow: bool = True
    """Go on with what comes; false: end after the newest event that is kept."""


_LIST = r"^[A-Za-z0-9_.*:/-]+(,[A-Za-z0-9_.*:/-]+)*$"

_LONGEST_LIST = 2_000
"""Characters: servers take a request line of some thousands. Who wants more asks for all, or by NATS."""

_MOMENT = (
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?([Zz]|[+-][0-9]{2}:[0-9]{2})$"
)


class SeriesQuery(Model):
    """`MetricSelection` as parameters of a query: lists are separated by commas."""

    metrics: str = Field(default="*", max_length=_LONGEST_LIST, pattern=_LIST)
    """Names of metrics, separated by commas; `*` stands for any characters."""
    entities: str = Field(default="*", max_length=_LONGEST_LIST, pattern=_LIST)
    """Entities, separated by commas; `*` stands for any characters: `job:*`."""
    sites: str | None = Field(default=None, max_length=_LONGEST_LIST, pattern=_LIST)
    """Only what was measured there, separated by commas. Left out: everywhere, `hub` included."""
    since: str | None = Field(default=None, pattern=_MOMENT)
    """Samples from then on, RFC 3339. Left out: only the newest of each series, if of the last hour."""
    stale: bool = False
    """Also of series whose newest sample is older."""
    until: str | None = Field(default=None, pattern=_MOMENT)
    """Samples before then, RFC 3339. Left out: up to now."""
    step_s: float | None = Field(default=None, gt=0, le=7 * 24 * 3600)
    """One point for so many seconds. Left out: every sample as taken, or minutes where those are gone."""
    aggregation: str = Field(default=Aggregation.MEAN.value, pattern=f"^({'|'.join(Aggregation)})$")
    """Meaning of a point where `step_s` is given."""
    limit: int = Field(default=20_000, ge=1, le=MAX_POINTS)
    """At most so many points, over all series; more are refused, not cut off."""


class ValuesQuery(Model):
    """`ValueSelection` as parameters of a query: lists are separated by commas."""

    wanted: str = Field(default=Wanted.LATEST.value, pattern=f"^({'|'.join(Wanted)})$")
    """Form of the answer."""
    metrics: str = Field(default="*", max_length=_LONGEST_LIST, pattern=_LIST)
    """Names of metrics, separated by commas; `*` stands for any characters."""
    entities: str = Field(default="*", max_length=_LONGEST_LIST, pattern=_LIST)
    """Entities, separated by commas; `*` stands for any characters: `node:*`."""
    groups: str = Field(default="*", max_length=_LONGEST_LIST, pattern=_LIST)
    """Groups, separated by commas."""
    sites: str | None = Field(default=None, max_length=_LONGEST_LIST, pattern=_LIST)
    """Only what is stored there, separated by commas. Left out: at all sites."""
    since: str | None = Field(default=None, pattern=_MOMENT)
    """Values from then on, RFC 3339. Left out: all that are kept."""
    until: str | None = Field(default=None, pattern=_MOMENT)
    """Values before then, RFC 3339. Left out: up to now."""
    limit: int = Field(default=20_000, ge=1, le=MAX_POINTS)
    """At most so many values, over all series; more are refused, not cut off."""
    share: float = Field(default=1.0, ge=0.1, le=1)
    """Of a range: least mean over the sites of the share of their values."""


class PlacementQuery(Model):
    """`ProposePlacement` as parameters of a query: lists are separated by commas."""

    policy: str = Field(default="performance", max_length=50)
    """Policy that chooses places."""
    weight: float | None = Field(default=None, ge=0, le=1)
    """Of `energy`: 0 is latency alone, 1 is power alone. Left out: 1."""
    beta: float | None = Field(default=None, ge=0, le=1_000_000)
    """Of `quality`: weight of checked data. Left out: 1."""
    jobs: str | None = Field(default=None, max_length=_LONGEST_LIST, pattern=_LIST)
    """Jobs that may move, separated by commas. Left out: all."""
    avoid: str | None = Field(default=None, max_length=_LONGEST_LIST, pattern=_LIST)
    """Sites at which no job should be, separated by commas."""


@dataclass(frozen=True)
class Body:
    """The body of a request."""

    model: type[Model]
    field: str | None = None
    """The field of the command that is the whole body; null: the body's fields are the command's."""
    media_types: tuple[str, ...] = (JSON,)
    patch: bool = False
    """A merge patch (RFC 7396) of the model: any part of it, null for parts to take away."""
    optional: bool = False
    example: Mapping[str, Any] | None = None
    """Form of a body."""
    other_formats: bool = False
    """Documents of other formats than the model are accepted, too, and translated into it."""


@dataclass(frozen=True)
class Route:
    """One operation of the REST interface."""

    method: str
    path: str
    role: Role | None
    """The least role that a token must have; null: answered without a token."""
    name: str
    """Of the operation, in the OpenAPI document."""
    command: type[Command[Any]] | None = None
    """Command that the request becomes; null where the service answers by itself."""
    summary: str = ""
    """The first line of the command's description, unless given."""
    answer: type[Model] | None = None
    """The command's answer, unless given."""
    path_fields: Mapping[str, str] = field(default_factory=dict[str, str])
    """Parameter of the path → field of the command."""
    fixed: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Fields of the command that are always the same here."""
    query: type[Model] | None = None
    """Parameters in the query."""
    body: Body | None = None
    problems: frozenset[int] | None = None
    """Statuses of the problems that may come back; null: those that follow from the rest."""
    addressed: ErrorCode | None = None
    """The error that says that what the path names does not exist: 404."""
    follow: str | None = None
    """Where to follow what is under way after 202: a path with fields of the answer. Null: there is
    nothing to wait for."""
    created: str | None = None
    """Path of what exists when it did not before: the status then is 201 instead of 200."""
    succeeds: str = OperationState.COMPLETED
    """State of the answer when all went well."""
    dry_run: type[Command[Any]] | None = None
    """Command that the request becomes with `?dry_run=true`; it is then answered at once."""
    media_type: str = JSON
    """Of the answer when all went well, unless it streams."""
    streams: bool = False
    """Answered with server-sent events."""
    keyed: bool = False
    """It takes an `Idempotency-Key`, as those that change something and can be followed do."""

    @property
    def public(self) -> bool:
        """True if it is answered without a token."""
        return self.role is None

    @property
    def changing(self) -> bool:
        """True if it changes something: then it takes an `Idempotency-Key`."""
        return self.follow is not None

    @property
    def resumes(self) -> bool:
        """True if it streams what has serial numbers: then it takes a `Last-Event-ID`."""
        return self.streams and self.query is not None

    @property
    def errors(self) -> frozenset[int]:
        """Statuses of the problems that may come back."""
        found = frozenset({403}) if self.role not in (PUBLIC, VIEW) else frozenset()
        if self.problems is not None:
            return self.problems | found
        found |= ANY_ERRORS if self.method == "GET" else CHANGE_ERRORS
        found |= BODY_ERRORS if self.body else frozenset()
        return found | ({404} if self.addressed else frozenset())

    @property
    def answers(self) -> type[Model] | None:
        """The model of the answer when all went well."""
        return self.answer or (self.command.answer if self.command else None)

    @property
    def statuses(self) -> frozenset[int]:
        """Every status it may answer with."""
        return self.errors | {200} | ({202} if self.changing else set()) | ({201} if self.created else set())


def fields_of(command: type[Command[Any]], name: str, *names: str, **more: Any) -> type[Model]:
    """A model with some fields of a command, and `more`: name → (type, `Field`)."""
    taken: dict[str, Any] = {n: (command.model_fields[n].annotation, command.model_fields[n]) for n in names}
    model = create_model(name, __base__=Model, __doc__=command.__doc__, **taken, **more)
    model.fields_from = command
    return model
