"""Who may publish and subscribe to what: one function per user, everything not listed is refused.

Users log in at one server. What crosses from one server to another crosses as the *leaf* user of the
site, so its list is the wall between sites: whatever a site's own server lets its users do, the hub
takes from it, and gives to it, only what stands there.

Replies go to inboxes, and whoever may subscribe to `_INBOX.>` reads everybody's replies. So every user
has inboxes of its own, `_INBOX.<user>.>`: connections must set their inbox prefix accordingly.

Subjects of JetStream that cross between sites, as nats-server names them:

- `$JS.<site>.API.…`: requests to a site's JetStream
- `$JSC.R.…`: where the server that makes a mirror gets the origin's answer
- `$JS.M.…`, `$JS.S.…`: where a mirror or a stream of several sources receives
- `$JS.FC.…`, `$JS.ACK.…`: flow control and acknowledgements
"""

from __future__ import annotations

from typing import Any

from towpath.artefacts.hub_store import SUBJECTS as ARTEFACT_SUBJECTS
from towpath.contracts.commands import ListJobs, ListOperations, ListSites, ShowOperation
from towpath.contracts.data_plane import (
    DEVICE_SUBJECTS,
    UNPUBLISHED_SUBJECTS,
    api_prefix,
    rejected_subject,
    shadow_subject,
    sink_subject,
)
from towpath.contracts.events import EVENTS_STREAM
from towpath.contracts.faults import SetRules
from towpath.contracts.message import HUB_SCOPE, ROOT
from towpath.contracts.metrics import Echo, Metric
from towpath.contracts.traces import EventSpan, Span
from towpath.mesh.names import SERVER_QUESTIONS

Permissions = dict[str, Any]

_LOOK_UP = ("STREAM.INFO.*", "DIRECT.GET.>")
"""What a job's owner must see of its output at another site: how far it got before."""

_MIRROR = ("CONSUMER.CREATE.>",)
_READ = (
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

_BRIDGE = (
    "STREAM.NAMES",
    "STREAM.INFO.*",
    "DIRECT.GET.>",
    "CONSUMER.CREATE.>",
    "CONSUMER.RESET.>",
    "CONSUMER.INFO.>",
    "CONSUMER.MSG.NEXT.>",
)
"""What a bridge needs of the site's JetStream: its own place in each output, and the end of IN."""

_CONSUMING = ("$JS.ACK.>", "$JS.FC.>")
"""What a reader of a stream sends back."""

_BETWEEN_STREAMS = ("$JSC.R.>", "$JS.M.>", "$JS.S.>", *_CONSUMING)

_OWN_RESULTS = (sink_subject("*", "*", "*"), rejected_subject("*", "*", "*"))
_RESULTS = (*_OWN_RESULTS, *(shadow_subject(subject) for subject in _OWN_RESULTS))
"""Results and rejected events on their way to an output, or to the shadow beside it."""

_ANSWERS = {"max": 1, "expires": "1h"}
"""A user may answer what it was asked, once, for so long. A command that takes longer is followed by
its events."""

_MQTT_INTERNAL = "$MQTT.>"
"""Sessions and messages of the server's MQTT side. Between servers nats-server lets these pass whatever
is allowed, so they must be denied: the sites' MQTT sides would store each other's messages."""


def _results_of(site: str) -> list[str]:
    """The same for the outputs of one site. Its agent takes results over from a shadow."""
    return [pattern.replace("*", site, 1) for pattern in _RESULTS]


def inbox(user: str) -> str:
    """The subjects on which a user receives replies."""
    return f"_INBOX.{user}.>"


def coordinator(user: str) -> Permissions:
    """The coordinator: commands everybody, hears heartbeats and events, owns the hub's streams."""
    return _permissions(
        publish=[
            f"{ROOT}.command.>",
            f"{ROOT}.event.>",
            Span.wildcard(),
            "$JS.API.>",
            "$JS.hub.API.>",
            ARTEFACT_SUBJECTS,
            *_api("*", _READ),
            *_CONSUMING,
        ],
        subscribe=[
            inbox(user),
            f"{ROOT}.command.coordinator.>",
            # In a mesh without fault rules it refuses what is asked of an injector.
            f"{ROOT}.command.injector.>",
            f"{ROOT}.heartbeat.*",
            f"{ROOT}.event.>",
        ],
        answers=True,
    )


def links(user: str) -> Permissions:
    """The process of the emulated links: answers its commands, says what changed."""
    return _permissions(
        publish=[f"{ROOT}.event.link.>", Span.wildcard()],
        subscribe=[inbox(user), f"{ROOT}.command.links.>"],
        answers=True,
    )


def injector(user: str) -> Permissions:
    """The injector: gives agents their rules, makes links worse, asks which jobs there are, hears metrics."""
    return _permissions(
        publish=[
            SetRules.wildcard(),
            f"{ROOT}.command.links.>",
            ListJobs.subject,
            f"{ROOT}.event.fault.>",
            Metric.wildcard(site=HUB_SCOPE),
            Span.wildcard(),
        ],
        subscribe=[inbox(user), f"{ROOT}.command.injector.>", Metric.wildcard()],
        answers=True,
    )


def collector(user: str) -> Permissions:
    """The collector: asks sites for what they measured, reads spans everywhere and events, keeps the hub's
    spans, hears what rules measure."""
    return _permissions(
        publish=[
            f"{ROOT}.command.*.read-metrics",
            f"{ROOT}.command.*.echo",
            *(kind.subject for kind in (ListJobs, ListSites, ListOperations, ShowOperation)),
            Span.wildcard(),
            "$JS.API.>",
            *_api("*", _READ),
            *_CONSUMING,
        ],
        subscribe=[
            inbox(user),
            f"{ROOT}.command.collector.>",
            f"{ROOT}.command.{HUB_SCOPE}.echo",
            f"{ROOT}.heartbeat.*",
            Metric.wildcard(),
        ],
        answers=True,
    )


def operator(user: str) -> Permissions:
    """People and the command line: command services beside the hub, listen, read streams everywhere."""
    return _permissions(
        publish=[
            f"{ROOT}.command.coordinator.>",
            f"{ROOT}.command.links.>",
            f"{ROOT}.command.injector.>",
            f"{ROOT}.command.collector.>",
            Span.wildcard(),
            *(f"$JS.API.{call}" for call in _READ),
            *_api("*", _READ),
            *_CONSUMING,
        ],
        subscribe=[inbox(user), f"{ROOT}.>"],
    )


def api(user: str) -> Permissions:
    """The REST interface: the coordinator's commands that have a route, and what is in the EVENTS stream."""
    # Here: who writes a site's permissions needs no routes.
    from towpath.contracts.rest_routes import ROUTES

    asked = [kind for route in ROUTES for kind in (route.command, route.dry_run) if kind is not None]
    reading = (
        f"STREAM.INFO.{EVENTS_STREAM}",
        f"CONSUMER.CREATE.{EVENTS_STREAM}.>",
        f"CONSUMER.MSG.NEXT.{EVENTS_STREAM}.*",
        f"CONSUMER.DELETE.{EVENTS_STREAM}.*",
    )
    return _permissions(
        publish=[
            *sorted({kind.subject for kind in asked}),
            Span.wildcard(),
            *(f"$JS.API.{call}" for call in reading),
        ],
        subscribe=[inbox(user)],
    )


def monitor(user: str) -> Permissions:
    """The monitor: asks agents how far jobs are, reads outputs, publishes where results are diverted."""
    return _permissions(
        publish=[
            f"{ROOT}.command.*.report-progress",
            f"{ROOT}.command.*.recompute-window",
            Span.wildcard(),
            *_OWN_RESULTS,
            *_api("*", _LOOK_UP),
        ],
        subscribe=[inbox(user), f"{ROOT}.command.monitor.>"],
        answers=True,
    )


def leaf(site: str) -> Permissions:
    """A site's server at the hub: publish is what may come out of the site, subscribe what may go in."""
    return _permissions(
        publish=[
            f"{ROOT}.event.>",
            f"{ROOT}.heartbeat.{site}",
            Metric.wildcard(site=site),
            Echo.wildcard(),
            "_INBOX.>",
            *_RESULTS,
            *_api("*", (*_LOOK_UP, *_MIRROR)),
            *_BETWEEN_STREAMS,
        ],
        subscribe=[
            f"{ROOT}.command.{site}.>",
            inbox(site),
            *_results_of(site),
            f"{api_prefix(site)}.>",
            *_BETWEEN_STREAMS,
        ],
        deny=[_MQTT_INTERNAL],
    )


def agent(site: str, user: str) -> Permissions:
    """A site's agent: answers the site's commands, speaks for the site, runs its JetStream."""
    return _permissions(
        publish=[
            f"{ROOT}.event.>",
            f"{ROOT}.heartbeat.{site}",
            Metric.wildcard(site=site),
            Echo.wildcard(),
            Span.wildcard(),
            f"{ROOT}.engine.{site}.>",
            *_results_of(site),
            *_own_jetstream(site),
            *SERVER_QUESTIONS,
        ],
        subscribe=[inbox(user), f"{ROOT}.command.{site}.>"],
        answers=True,
    )


def bridge(site: str, user: str) -> Permissions:
    """A site's bridge to another broker: stores what devices send, reads what outputs hold."""
    return _permissions(
        publish=[
            DEVICE_SUBJECTS,
            *_api(site, _BRIDGE),
            *(f"$JS.API.{call}" for call in _BRIDGE),
            "$JS.ACK.>",
        ],
        subscribe=[inbox(user)],
    )


def engine(site: str, user: str) -> Permissions:
    """A site's engine: answers the agent, publishes results to whichever site keeps them."""
    return _permissions(
        publish=[*_RESULTS, *_own_jetstream(site), Span.wildcard(), EventSpan.wildcard()],
        subscribe=[inbox(user), f"{ROOT}.engine.{site}.>"],
        answers=True,
    )


def device() -> Permissions:
    """Devices and subscribers on MQTT: publish under `site/`, receive the topics of jobs."""
    return _permissions(
        publish=[DEVICE_SUBJECTS],
        subscribe=[">"],
        deny_subscribe=[
            "$JS.>",
            "$JSC.>",
            "$SYS.>",
            "_INBOX.>",
            "towpath.>",
            *UNPUBLISHED_SUBJECTS,
            DEVICE_SUBJECTS,
        ],
    )


def _own_jetstream(site: str) -> list[str]:
    return ["$JS.API.>", f"{api_prefix(site)}.>", *_api("*", _LOOK_UP), *_CONSUMING]


def _api(domain: str, calls: tuple[str, ...]) -> list[str]:
    return [f"{api_prefix(domain)}.{call}" for call in calls]


def _permissions(
    *,
    publish: list[str],
    subscribe: list[str],
    deny: list[str] | None = None,
    deny_subscribe: list[str] | None = None,
    answers: bool = False,
) -> Permissions:
    """`deny` holds in both directions."""
    subscribe_denied = [*(deny or []), *(deny_subscribe or [])]
    permissions: Permissions = {
        "publish": {"allow": publish, **({"deny": deny} if deny else {})},
        "subscribe": {"allow": subscribe, **({"deny": subscribe_denied} if subscribe_denied else {})},
    }
    if answers:
        permissions["allow_responses"] = _ANSWERS
    return permissions
