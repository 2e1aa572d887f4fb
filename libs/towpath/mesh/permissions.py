"""Say who may publish and subscribe to what. Everything that is not listed is refused.

Each service lists its own rights, see `towpath.mesh.service_table`. Here are the rights of users that are no
services, and the groups of subjects that several users share.

A user logs in at one server. Messages cross from one server to another as the *leaf* user of the site, so its
rights are the wall between sites: the hub takes from a site's server, and gives to it, only what these rights
name. Results carry their owner in their subject, and a site's server, agent and engine publish as their own
site only.

Replies go to inboxes, and a user that may subscribe to `_INBOX.>` reads all replies. So every user has
inboxes of its own, `_INBOX.<user>.>`: connections must set their inbox prefix accordingly.

Subjects of JetStream that cross between sites, as nats-server names them:

- `$JS.<site>.API.…`: requests to a site's JetStream
- `towpath.read.<reader>.<site>.…`: requests of one site to the gate of another, see `towpath.streams.gate`
- `towpath.mirror.<reader>.<site>.…`: messages of a site's streams to the mirrors at another
- `$JSC.R.…`: replies of the origin to the server that makes a mirror
- `$JS.FC.…`: flow control of mirrors
- `$JS.ACK.…`: acknowledgements. A leaf may publish them whatever its rights say, so that one site could
  acknowledge for another. None may enter a site.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from towpath.contracts.data_plane import (
    CONTROL_SUBJECTS,
    DEVICE_SUBJECTS,
    INBOXES,
    INTAKE_SUBJECTS,
    UNPUBLISHED_SUBJECTS,
    api_prefix,
    gate_prefix,
    inbox_prefix,
    mirror_delivery,
    rejected_subject,
    shadow_subject,
    sink_subject,
    subject_of,
    uplink_notice,
    uplink_prefix,
)
from towpath.contracts.device_commands import DeviceChanged
from towpath.contracts.events import (
    AdjustmentLost,
    EventsNotKept,
    RetentionNear,
    SecurityRefused,
    StorageChanged,
)
from towpath.contracts.joining import JoinSite
from towpath.contracts.local_commands import LOCAL_COMMANDS
from towpath.contracts.message import ROOT
from towpath.contracts.metrics import Echo, Metric
from towpath.contracts.reading import MayRead
from towpath.contracts.site import SiteStatus
from towpath.contracts.traces import Span
from towpath.mesh.names import SERVER_HEALTH

Permissions = dict[str, Any]
"""Permissions of a user as nats-server reads them."""

LOOK_UP = ("STREAM.INFO.*", "DIRECT.GET.>")
"""Calls with which a job's owner sees how far its output at another site got before."""

READ = (
    "INFO",
    "STREAM.NAMES",
    "STREAM.LIST",
    "STREAM.INFO.*",
    "STREAM.MSG.GET.*",
    "DIRECT.GET.>",
    "CONSUMER.CREATE.>",
    "CONSUMER.INFO.>",
    "CONSUMER.DELETE.>",
    "CONSUMER.MSG.NEXT.>",
)
"""Calls that read streams and change none."""

MAY_READ = [MayRead.wildcard(service=service) for service in ("coordinator", "collector")]
"""Where a site asks who may read its streams."""

CONSUMING = ("$JS.ACK.>", "$JS.FC.>")
"""Subjects on which the reader of a stream answers."""

_BRIDGE = (
    "STREAM.NAMES",
    "STREAM.INFO.*",
    "DIRECT.GET.>",
    "CONSUMER.CREATE.>",
    "CONSUMER.RESET.>",
    "CONSUMER.INFO.>",
    "CONSUMER.MSG.NEXT.>",
)
"""Calls to the site's JetStream that a bridge needs: its own place in each output, and the end of IN."""

_FEEDING = ("$JSC.R.>", "$JS.FC.>")
"""Subjects on which the servers of a mirror and of its origin talk to each other."""

_NOT_FOR_DEVICES = (
    "$JS.>",
    "$JSC.>",
    "$SYS.>",
    f"{INBOXES}>",
    "towpath.>",
    *UNPUBLISHED_SUBJECTS,
    DEVICE_SUBJECTS,
    INTAKE_SUBJECTS,
)

_EVERYTHING = ("*", "*.*")
"""Denies subscriptions to all subjects, `>` and `*.>`: as words they match these, and no subject between
sites has so few. `#` and `+/#` of MQTT are such."""

_ANSWERS = {"max": 1, "expires": "1h"}
"""A user may answer each request once, within this time. A command that takes longer is followed by its
events."""

_MQTT_INTERNAL = "$MQTT.>"
"""Sessions and messages of the server's MQTT side. Between servers nats-server lets these pass whatever is
allowed, so they must be denied: the sites' MQTT sides would store each other's messages."""


@dataclass(frozen=True, kw_only=True)
class Rights:
    """Subjects that a user may publish and subscribe to."""

    publish: Sequence[str] = ()
    subscribe: Sequence[str] = ()
    deny: Sequence[str] = ()
    """Denied in both directions, although allowed otherwise."""
    deny_publish: Sequence[str] = ()
    deny_subscribe: Sequence[str] = ()
    answers: bool = False
    """The user answers requests."""

    def permissions(self) -> Permissions:
        """Return these rights as nats-server reads them."""
        permissions: Permissions = {
            "publish": _granted(self.publish, [*self.deny, *self.deny_publish]),
            "subscribe": _granted(self.subscribe, [*self.deny, *self.deny_subscribe]),
        }
        return permissions | ({"allow_responses": _ANSWERS} if self.answers else {})


def _granted(allowed: Sequence[str], denied: Sequence[str]) -> dict[str, list[str]]:
    return {"allow": [*allowed], **({"deny": [*denied]} if denied else {})}


def inbox(user: str) -> str:
    """Return the subjects on which a user receives replies."""
    return f"{inbox_prefix(user)}.>"


def own_calls(calls: Iterable[str]) -> list[str]:
    """Return the subjects of calls to the JetStream of the server at which a user logs in."""
    return [f"$JS.API.{call}" for call in calls]


def site_calls(site: str, calls: Iterable[str]) -> list[str]:
    """Return the subjects of calls to a site's JetStream; `*` stands for every site."""
    return [f"{api_prefix(site)}.{call}" for call in calls]


def results(*, to: str = "*", by: str = "*") -> list[str]:
    """Return where an owner publishes results and rejected events into the outputs of a site."""
    return [sink_subject(to, by, "*", "*"), rejected_subject(to, by, "*", "*")]


def results_aside(*, to: str = "*", by: str = "*") -> list[str]:
    """Return where an owner publishes the same into the shadows beside these outputs."""
    return [shadow_subject(subject) for subject in results(to=to, by=by)]


def uplinks_from(site: str) -> list[str]:
    """Return where a site's uplinks publish, at any destination."""
    return [f"{uplink_prefix('*', site, '*')}>", uplink_notice("*", site, "*")]


def uplinks_to(site: str) -> list[str]:
    """Return where uplinks to a site publish."""
    return [f"{uplink_prefix(site, '*', '*')}>", uplink_notice(site, "*", "*")]


def own_jetstream(site: str) -> list[str]:
    """Return what a site's own processes publish to JetStream."""
    return [*own_calls([">"]), *site_calls(site, [">"]), *reading_elsewhere(site), *CONSUMING]


def reading_elsewhere(site: str) -> list[str]:
    """Return where a site's processes ask for streams of other sites: at the gates there."""
    return [f"{gate_prefix('*', site)}.>"]


def operator(user: str, commanded: Iterable[str]) -> Rights:
    """People and the command line: command these services beside the hub, listen, read streams everywhere.

    The supervisor asks for the hub's health with the same rights.
    """
    return Rights(
        publish=[
            *(f"{ROOT}.command.{service}.>" for service in commanded),
            Span.wildcard(),
            SecurityRefused.wildcard(),
            *own_calls(READ),
            *site_calls("*", READ),
            *CONSUMING,
            SERVER_HEALTH,
        ],
        subscribe=[inbox(user), f"{ROOT}.>"],
    )


def supervisor(user: str) -> Rights:
    """The supervisor beside the hub: let machines join."""
    return Rights(
        publish=[SecurityRefused.wildcard()], subscribe=[inbox(user), JoinSite.wildcard()], answers=True
    )


def invited(user: str) -> Rights:
    """A machine with an invitation: join, and nothing else."""
    return Rights(publish=[JoinSite.subject], subscribe=[inbox(user)])


def site_operator(site: str, user: str) -> Rights:
    """People at a site, also without a link: change the parameters of its jobs, and hear how these do."""
    return Rights(
        publish=[*_local(site), SecurityRefused.wildcard()],
        subscribe=[inbox(user), SiteStatus.wildcard(site=site)],
    )


def _local(site: str) -> list[str]:
    """Return the commands that a site takes from its own operator alone: they never cross a link."""
    return [kind.wildcard(site=site) for kind in LOCAL_COMMANDS]


def events_of(site: str) -> list[str]:
    """Return the events that a site publishes. All others are the hub's services' to tell."""
    own = (kind.wildcard(site=site) for kind in (StorageChanged, EventsNotKept, DeviceChanged))
    return [*own, RetentionNear.wildcard(), AdjustmentLost.wildcard(), SecurityRefused.wildcard()]


def leaf(site: str) -> Rights:
    """A site's server at the hub: publish is what may leave the site, subscribe what may enter it.

    What is addressed to the site stays there. Else a single subscription to `#` at another site would have
    all of it sent to the hub: the server tells every other site of the subscription, and drops what comes.
    """
    entering = [
        f"{ROOT}.command.{site}.>",
        inbox(site),
        *results(to=site),
        *results_aside(to=site),
        *uplinks_to(site),
        *site_calls(site, [">"]),
        f"{gate_prefix(site, '*')}.>",
        f"{mirror_delivery('*', site)}.>",
    ]
    return Rights(
        publish=[
            *events_of(site),
            f"{ROOT}.heartbeat.{site}",
            Metric.wildcard(site=site),
            Echo.wildcard(),
            f"{INBOXES}>",
            *results(by=site),
            *results_aside(by=site),
            *uplinks_from(site),
            *MAY_READ,
            *reading_elsewhere(site),
            f"{mirror_delivery(site, '*')}.>",
            *_FEEDING,
        ],
        subscribe=[*entering, *_FEEDING],
        deny=[_MQTT_INTERNAL, *_local(site), *_EVERYTHING],
        deny_publish=entering,
    )


def bridge(site: str, user: str) -> Rights:
    """A site's bridge to another broker: stores what devices send, reads what outputs hold."""
    return Rights(
        publish=[INTAKE_SUBJECTS, *site_calls(site, _BRIDGE), *own_calls(_BRIDGE), "$JS.ACK.>"],
        subscribe=[inbox(user)],
    )


def device() -> Rights:
    """Devices and subscribers on MQTT: publish under `site/`, receive the topics of jobs."""
    return Rights(
        publish=[DEVICE_SUBJECTS],
        subscribe=[">"],
        deny_subscribe=[*_NOT_FOR_DEVICES, CONTROL_SUBJECTS],
    )


def device_user(prefixes: Iterable[str], filters: Iterable[str] | None) -> Rights:
    """A device with a user of its own: publish below topics, receive what MQTT's filters match of the rest.

    Without filters it may receive what all devices may.
    """
    shared = device()
    return Rights(
        publish=[subject for prefix in prefixes for subject in _matched(f"{prefix}/#")],
        subscribe=shared.subscribe if filters is None else [s for each in filters for s in _matched(each)],
        deny_subscribe=shared.deny_subscribe,
    )


def _matched(topic_filter: str) -> list[str]:
    """Return the subjects that a filter of MQTT matches. `a/#` matches `a`, too."""
    pattern = subject_of(topic_filter).replace("+", "*").replace("#", ">")
    return [pattern.removesuffix(".>"), pattern] if pattern.endswith(".>") else [pattern]


def gateway() -> Rights:
    """Gateways on MQTT, and those who command them: the rights of devices, and the control topics."""
    return Rights(
        publish=[DEVICE_SUBJECTS, CONTROL_SUBJECTS], subscribe=[">"], deny_subscribe=[*_NOT_FOR_DEVICES]
    )
