"""The base of everything that crosses a wire, and the small types all messages share."""

from __future__ import annotations

import re
import time
import uuid
from datetime import UTC, datetime
from string import Formatter
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

if TYPE_CHECKING:
    from pydantic import GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema

ROOT = "towpath.v1"
"""Prefix of every subject. The version is part of the subject, so two versions can run side by side."""

NAME_PATTERN = r"^[a-z][a-z0-9-]{0,47}$"
"""Names of sites and jobs: they become part of subjects, stream names and paths."""

TOPIC_PATTERN = r"^[A-Za-z0-9_-]+(/[A-Za-z0-9_-]+)*$"
"""MQTT topics without wildcards, dots or `$`, so that topic and NATS subject map one to one."""

MAX_TOPIC = 200
"""Characters of a topic."""

SiteName = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
JobName = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
Topic = Annotated[str, StringConstraints(pattern=TOPIC_PATTERN, max_length=MAX_TOPIC)]
Identifier = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9-]{1,64}$")]

AskedBy = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9@._-]{0,99}$")]
"""Who asked for a change: the name of a token, `login@machine` at the command line, or a service."""

HUB_SCOPE = "hub"
"""Scope of the services and servers beside the hub; every other scope is a site."""

Scope = SiteName
"""`hub`, or the name of a site."""

AUTO_SITE = "auto"
"""Stands for a site in a description: Towpath finds one."""

RESERVED_SITE_NAMES = frozenset(
    {"autopilot", "coordinator", "monitor", "injector", "collector", "links", "supervisor"}
    | {HUB_SCOPE, "job", "default", AUTO_SITE}
)
"""Names a site may not have: services answer commands under them, they stand for any site, or they are a user
of Redis (`default`)."""


def unreserved(name: str, kind: str) -> str:
    """The name of a site, or of a `kind` that becomes one, unless it is reserved. Raises `ValueError`."""
    if name == AUTO_SITE:
        raise ValueError(f"{name!r} asks Towpath to find a site, and is not the name of a {kind}")
    if name in RESERVED_SITE_NAMES:
        raise ValueError(f"{name!r} is the name of a service, not of a {kind}")
    return name


def is_unused(value: Any) -> bool:
    """Return True for a value that is left out of a message: receivers of earlier versions lack its field."""
    return not value


def new_identifier() -> str:
    """A fresh identifier for a command, operation or migration (random, 12 hexadecimal digits)."""
    return uuid.uuid4().hex[:12]


def now() -> datetime:
    """The current time in UTC: the only clock that messages carry."""
    return datetime.fromtimestamp(time.time(), UTC)


class Model(BaseModel):
    """Immutable, and strict with what people write: an unknown field is an error, never silently dropped.

    What another process sent, or a file holds, may come from a later version: `from_json` reads it. The
    validator of a model is built when it is first used: a process uses few of the models that it imports.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    fields_from: ClassVar[type[BaseModel] | None] = None
    """The model that this one's fields were taken from, whose source describes them."""

    @classmethod
    def from_json(cls, text: bytes | str) -> Self:
        """Return what any version of Towpath has written as JSON. Fields that this version lacks are passed
        over, at any depth. Raises `pydantic.ValidationError`."""
        return cls.model_validate_json(text, extra="ignore")

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """The schema of the model, where the string below a field is the field's description."""
        # Here: processes that make no schema need none of it.
        from towpath.contracts.field_descriptions import field_descriptions

        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema).get("properties", {})
        for name, text in field_descriptions(cls).items():
            properties.get(cls.model_fields[name].alias or name, {}).setdefault("description", text)
        return schema


Answer = TypeVar("Answer", bound=Model)


class Message(Model):
    """A model that travels on a subject of its own.

    `subject` is a template whose placeholders name fields of the message, for example
    `towpath.v1.event.job.{job}.deployed`. `example` is a valid JSON body: it is the golden
    message under `contracts/examples/`, and it stands in the generated reference.
    """

    subject: ClassVar[str]
    example: ClassVar[dict[str, Any]]
    exempt: ClassVar[bool] = False
    """It passes no named point (`towpath.hooks`): what looks there is steered by such messages."""

    def to_subject(self) -> str:
        """The concrete subject of this message: placeholders filled from its fields."""
        return self.subject.format(**{f: getattr(self, f) for f in self.placeholders()})

    @classmethod
    def placeholders(cls) -> list[str]:
        """Names of the fields that are part of the subject."""
        return [name for _, name, _, _ in Formatter().parse(cls.subject) if name]

    @classmethod
    def wildcard(cls, **fixed: str) -> str:
        """The subject to subscribe to: `fixed` placeholders filled, the others `*`."""
        return cls.subject.format(**{f: fixed.get(f, "*") for f in cls.placeholders()})

    @classmethod
    def verb(cls) -> str:
        """The last token of the subject: what is asked, or what happened."""
        return cls.subject.rsplit(".", 1)[-1]

    def to_bytes(self) -> bytes:
        """The body as it is sent: JSON, UTF-8."""
        return self.model_dump_json().encode()

    @classmethod
    def from_bytes(cls, body: bytes) -> Self:
        """Parse and validate a received body, see `from_json`. Raises `pydantic.ValidationError`."""
        return cls.from_json(body)


class Command(Message, Generic[Answer]):
    """A request to a service or a site. It is answered with `Reply[Answer]`.

    Commands are idempotent: sending one twice, with the same `id`, has the effect of sending it once.
    """

    answer: ClassVar[type[Model]]
    is_step: ClassVar[bool] = False
    """An operation sends it, on behalf of another command."""
    id: Identifier = Field(default_factory=new_identifier)
    """Identifies the request, so that a repeated delivery is recognised."""
    asked_by: AskedBy | None = None
    """Who asked for the change. The REST interface sets it to the name of the token; of all others it is what
    they say of themselves. Null: no one said so, or nothing is changed."""

    @classmethod
    def from_bytes(cls, body: bytes) -> Self:
        """Parse and validate a received body. Raises `pydantic.ValidationError`.

        An unknown field is refused: to pass over what a command asks for would be to do something else.
        """
        return cls.model_validate_json(body)

    def to_bytes(self) -> bytes:
        """The body as it is sent: JSON, UTF-8. Null is left out, so receivers of earlier versions read it."""
        return self.model_dump_json(exclude={"asked_by"} if self.asked_by is None else None).encode()


class Event(Message):
    """Something that happened. Kept in the EVENTS stream of the hub, so late subscribers can replay it."""

    at: datetime = Field(default_factory=now)
    """When it happened, by the sender's clock."""


def is_name(text: str) -> bool:
    """Return True if `text` may name a site or a job."""
    return re.fullmatch(NAME_PATTERN, text) is not None
