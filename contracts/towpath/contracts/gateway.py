"""Messages between a gateway and those who command it, and the form of what a gateway sends.

These are msgspec structs, not pydantic models: a gateway has at most 40 MB of memory. See `docs/gateways.md`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, Any, Literal

import msgspec

CONTROL_PREFIX = "$EDC"
"""First level of control topics. It keeps commands apart from data, as in Eclipse Kura."""

ACCOUNT = "towpath"
"""Account of gateways that the mesh commands."""

CONFIGURATIONS = "CONF-V1"
PACKAGES = "DEPLOY-V2"
COMMANDS = "CMD-V1"
APPLICATION_IDS = (CONFIGURATIONS, PACKAGES, COMMANDS)
"""Parts of a gateway that take requests: configurations, packages and applications, commands."""

GET, PUT, EXEC = "GET", "PUT", "EXEC"
VERBS = (GET, PUT, EXEC)

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
"""Names of accounts, devices, packages and applications: they become levels of topics and names of files."""

IDENTIFIER_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$"
"""Identifiers of requests and requesters."""


class Code(IntEnum):
    """Response code of an answer."""

    OK = 200
    ACCEPTED = 202
    """The work goes on. Notifications tell of its progress, and a second answer has its outcome."""
    BAD_REQUEST = 400
    """The request is wrong. The body lists all errors."""
    NOT_FOUND = 404
    CONFLICT = 409
    """Another content has that name already: of a package's version, or of a request identifier."""
    NOT_NOW = 423
    """The gateway is on hold. Nothing was done, so the same request may be sent again later."""
    FAILED = 500


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """One error: what is wrong, where, and what is allowed."""

    message: str
    field: str | None = None
    value: Any = None
    allowed: str | list[str] | None = None


class Request(msgspec.Struct, frozen=True, omit_defaults=True):
    """Payload of a request. Verb and resource stand in the topic."""

    request_id: str = msgspec.field(name="request_ID")
    """Identifies the request: a repetition does nothing twice and gets the same answer."""
    requester_id: str = msgspec.field(name="requester_ID")
    """Identifies who asks. It is a level of the topic on which the answer comes."""
    body: Any = None


class Reply(msgspec.Struct, frozen=True, omit_defaults=True):
    """Payload of an answer."""

    response_code: int
    request_id: str = msgspec.field(name="request_ID")
    device: str
    body: Any = None


class Notification(msgspec.Struct, frozen=True, omit_defaults=True):
    """Progress of work that a gateway has accepted. Notifications may be lost; answers are not."""

    request_id: str = msgspec.field(name="request_ID")
    device: str
    status: str
    """`IN_PROGRESS`, `COMPLETED` or `FAILED`."""
    progress: int = 0
    """Percentage of the download."""
    message: str | None = None


class Presence(msgspec.Struct, frozen=True, omit_defaults=True):
    """Birth or death of a gateway: kept by the broker, which publishes the death itself if it must."""

    device: str
    online: bool
    session: str
    """Changes with each start of the gateway."""
    version: str | None = None
    """Version of Towpath on the gateway."""
    crash_loops: list[str] = []
    """Applications that end again and again."""
    delivers_to: str | None = None
    """Site that takes its newest results, if it was told sites to choose from."""


class InstallPackage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of EXEC `packages/install`."""

    name: str
    """Name of the application on this gateway. Its package's manifest may have another."""
    url: str
    """Address of the archive: `http`, `https` or `file`."""
    sha256: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}$")]
    """Digest of the archive, 64 hexadecimal digits."""
    version: str | None = None
    """Version that the manifest must have."""
    signature: str | None = None
    """Ed25519 signature of the archive, in base64. Needed if the gateway has a public key."""
    properties: dict[str, Any] = {}
    """Values of the application's properties, where they differ from those of its manifest."""
    replace: bool = False
    """Give properties that are not named the manifest's values. Else they stay as they were."""


class Named(msgspec.Struct, frozen=True):
    """Body of EXEC `packages/uninstall`, `applications/start` and `applications/stop`."""

    name: str


class Configuration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of PUT `configurations/<application>`: the properties that change."""

    properties: dict[str, Any]
    replace: bool = False
    """Give properties that are not named the manifest's values."""


class GatewayBroker(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Address of a broker that a gateway uses. Files are on the gateway."""

    host: str
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)] = 1883
    version: Literal["3.1.1", "5"] = "3.1.1"
    user: str | None = None
    tls: bool = False
    ca_file: str | None = None


class DeliverySite(GatewayBroker, frozen=True, omit_defaults=True):
    """A site that takes results: address and login of its broker, and its share."""

    password: str | None = None
    weight: Annotated[float, msgspec.Meta(gt=0, le=1000)] = 1.0
    """With twice the weight, a site has twice the groups."""


class Delivery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of PUT `delivery`: the sites from which each gateway chooses by its group.

    Results from now on go to that site. Those that have a number already go where they would have gone. With
    no sites, results go to the gateway's own site.
    """

    sites: dict[str, DeliverySite] = {}


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of the process of light operators."""

    memory_mb: int = 128
    """Address space, of which about 20 MB are the interpreter's."""
    cpu_s_per_event: int = 10
    """Processor time for one event. A process that takes longer is ended and restarted."""
    niceness: int = 10
    """Applications yield to the gateway itself."""


class Input(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Topics that an application reads."""

    topics: list[str]
    """MQTT topic filters. `$name` stands for the property of that name."""
    broker: str = "local"
    """`local`: the gateway's own broker, for its sensors. `site`: the broker of the site that it feeds."""


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Content of `manifest.json` in a package. A package is one application."""

    name: str
    version: str
    input: Input
    output: str
    """Topic of the results, under `site/`."""
    kind: str = "operators"
    """`operators`: light operators in one process. `spark`: a Spark cluster with a job."""
    operators: list[dict[str, Any]] = []
    """Operators in their order. A parameter `$publish.rate` has the value of the property `publish.rate`."""
    script: str = ""
    """Python file of the package that is the job of a Spark cluster."""
    properties: dict[str, Any] = {}
    """Properties with their default values, which also give their types."""
    limits: Limits = Limits()
    description: str = ""
