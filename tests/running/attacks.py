"""Attempts of someone who has all keys of the site `cloud`, against the hub, its services and site `jfk`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from towpath.contracts.data_plane import gate_prefix, mirror_delivery

THIEF, VICTIM = "cloud", "jfk"


@dataclass(frozen=True)
class Attack:
    """One message. Everything about it is in its subject, and in the body of some."""

    subject: str
    body: bytes = b"{}"

    def __str__(self) -> str:
        return self.subject


def _under(prefix: str, *ends: str) -> list[Attack]:
    return [Attack(f"{prefix}.{end}") for end in ends]


def consumer(stream: str, deliver: str | None, **more: Any) -> bytes:
    """Return the request for a consumer."""
    config = {"ack_policy": "none", "deliver_policy": "all", "name": "JS_MIRROR_stolen", **more}
    if deliver is not None:
        config["deliver_subject"] = deliver
    return json.dumps({"stream_name": stream, "config": config}).encode()


COMMANDS = [
    *_under("towpath.v1.command.coordinator", "deploy", "update", "remove", "migrate", "apply-pipeline"),
    *_under(f"towpath.v1.command.{VICTIM}", "start-job", "stop-job", "set-epoch", "reset-role", "adjust-job"),
    Attack(f"towpath.v1.command.{VICTIM}.may-read"),
    *_under("towpath.v1.command", "injector.load-rules", "monitor.start-monitor", "links.shape-link"),
    *_under("towpath.v1.command", "supervisor.join-site", "collector.query-metrics", "autopilot.switch"),
]
"""Commands in the name of others."""

FORGED = [
    *_under("towpath.v1", f"heartbeat.{VICTIM}", f"metric.{VICTIM}.engine.batch_s"),
    *_under("towpath.v1.event", "operation.m1.ended", "job.hourly.changed", f"site.{VICTIM}.changed"),
    *_under("towpath.v1.event", f"site.{VICTIM}.storage", f"site.{VICTIM}.device", "plan.p.changed"),
    *_under("towpath.v1.event", "decision.d.changed", f"link.{VICTIM}.changed", "fault.f.ended"),
    *_under("uplink", f"hub.{VICTIM}.u.site.a", f"{THIEF}.{VICTIM}.u.site.a"),
    *_under("sink", f"{VICTIM}.{VICTIM}.hourly.1", f"{VICTIM}.hub.hourly.2", f"{THIEF}.{VICTIM}.hourly.1"),
    *_under("reject", f"{VICTIM}.{VICTIM}.hourly.1"),
    *_under("shadow.sink", f"{VICTIM}.{VICTIM}.hourly.1"),
    Attack(f"uplink-notice.{THIEF}.{VICTIM}.u"),
    Attack(f"{mirror_delivery(VICTIM, THIEF)}.forged"),
    Attack(f"{mirror_delivery('hub', VICTIM)}.forged"),
]
"""Heartbeats, measurements, events and data in the name of others."""

PUBLIC = _under("site", "departures") + _under("stats", "hourly") + _under("$MQTT.msgs", "site.a", "stats.a")
"""Messages past the streams, straight to devices and subscribers of others."""

AT_THE_HUB = [
    *_under("$JS.hub.API.STREAM", "LIST", "NAMES", "INFO.EVENTS", "MSG.GET.EVENTS", "DELETE.EVENTS"),
    *_under("$JS.hub.API.STREAM", "PURGE.EVENTS", "UPDATE.EVENTS", "CREATE.MINE", "SNAPSHOT.EVENTS"),
    *_under("$JS.hub.API.STREAM", "RESTORE.EVENTS", "MSG.DELETE.EVENTS"),
    *_under("$JS.hub.API", "INFO", "DIRECT.GET.EVENTS", "CONSUMER.LIST.EVENTS", "CONSUMER.DELETE.EVENTS.a"),
    *_under("$JS.API", "STREAM.DELETE.EVENTS", "STREAM.LIST"),
    *_under("$O.artefacts", "C.mine", "M.mine"),
    Attack("$JS.hub.API.CONSUMER.CREATE.EVENTS", consumer("EVENTS", "towpath.v1.command.coordinator.remove")),
    Attack("$JS.hub.API.CONSUMER.CREATE.EVENTS.a", consumer("EVENTS", f"towpath.v1.heartbeat.{VICTIM}")),
    Attack("$JS.hub.API.CONSUMER.DURABLE.CREATE.EVENTS.a", consumer("EVENTS", None, durable_name="a")),
    *_under("$SYS.REQ", "SERVER.PING.VARZ", "SERVER.PING.CONNZ", "ACCOUNT.MESH.CONNZ"),
]
"""Calls to the hub's JetStream and server."""

AT_THE_SITE = [
    *_under(
        f"$JS.{VICTIM}.API.STREAM", "LIST", "INFO.IN", "MSG.GET.IN", "DELETE.IN", "PURGE.IN", "UPDATE.IN"
    ),
    *_under(f"$JS.{VICTIM}.API", "DIRECT.GET.IN", "STREAM.SNAPSHOT.IN", "STREAM.MSG.DELETE.IN"),
    *_under(f"$JS.{VICTIM}.API.CONSUMER", "CREATE.IN", "LIST.IN", "DELETE.IN.a", "MSG.NEXT.IN.a"),
    *_under("$JS", "M.overheard", "S.overheard"),
]
"""Calls to the JetStream of another site, past its gate."""

OF_OTHERS = [
    Attack(f"{gate_prefix('hub', VICTIM)}.DIRECT.GET.OBJ_artefacts"),
    Attack(f"{gate_prefix(THIEF, VICTIM)}.STREAM.INFO.IN"),
]
"""Requests at gates in the name of another reader."""

REFUSED_BY_HUB = [*COMMANDS, *FORGED, *PUBLIC, *AT_THE_HUB, *AT_THE_SITE, *OF_OTHERS]


def _gate(site: str, call: str, body: bytes = b"{}") -> Attack:
    return Attack(f"{gate_prefix(site, THIEF)}.{call}", body)


_OWN = f"{mirror_delivery(VICTIM, THIEF)}.M.x"
_CREATE = "CONSUMER.CREATE.IN"

REFUSED_BY_GATE = [
    # The first is in `make test`: jobs of tests before may have read IN a moment ago.
    *(_gate(VICTIM, call) for call in ("DIRECT.GET.OUT_a", "STREAM.INFO.IN", "DIRECT.GET.IN", "STREAM.LIST")),
    *(_gate(VICTIM, call) for call in ("STREAM.DELETE.IN", "STREAM.PURGE.IN", "STREAM.MSG.GET.IN")),
    *(
        _gate("hub", call)
        for call in ("STREAM.INFO.EVENTS", "DIRECT.GET.EVENTS", "STREAM.DELETE.OBJ_artefacts")
    ),
    _gate(VICTIM, f"{_CREATE}.own", consumer("IN", _OWN)),
    _gate(VICTIM, f"{_CREATE}.command", consumer("IN", f"towpath.v1.command.{VICTIM}.stop-job")),
    _gate(VICTIM, f"{_CREATE}.heartbeat", consumer("IN", f"towpath.v1.heartbeat.{VICTIM}")),
    _gate(VICTIM, f"{_CREATE}.other", consumer("IN", f"{mirror_delivery(VICTIM, 'lga')}.M.x")),
    _gate(VICTIM, f"{_CREATE}.pull", consumer("IN", None)),
    _gate(VICTIM, f"{_CREATE}.durable", consumer("IN", _OWN, durable_name="a")),
    _gate(VICTIM, f"{_CREATE}.acknowledged", consumer("IN", _OWN, ack_policy="explicit")),
    _gate(VICTIM, f"{_CREATE}.anothers", consumer("IN", _OWN, name="towpath-keeper-1")),
    _gate(VICTIM, f"{_CREATE}.stream", consumer("OUT_a", _OWN)),
    _gate(VICTIM, f"{_CREATE}.unreadable", b"\xff{"),
    _gate(
        "hub",
        "CONSUMER.CREATE.OBJ_artefacts",
        consumer("OBJ_artefacts", "towpath.v1.command.coordinator.remove"),
    ),
    *(
        _gate("hub", "DIRECT.GET.OBJ_artefacts", json.dumps(wanted).encode())
        for wanted in (
            {"seq": 1},
            {"seq": 1, "next_by_subj": "$O.artefacts.C.guessed"},
            {"seq": 1, "next_by_subj": "$O.artefacts.M.>"},
            {"last_by_subj": "$O.artefacts.M.*"},
            {"multi_last": ["$O.artefacts.>"]},
        )
    ),
    _gate("hub", "DIRECT.GET.OBJ_artefacts", b"[" * 100_000),
    _gate("hub", "DIRECT.GET.OBJ_artefacts.$O.artefacts.M.*"),
    _gate("hub", "STREAM.INFO.OBJ_artefacts", b'{"subjects_filter": ">"}'),
]
"""Requests at the gates under the thief's own name."""

OVERHEARD = f"""
> towpath.> towpath.v1.> towpath.v1.command.> towpath.v1.event.> towpath.v1.heartbeat.> towpath.v1.metric.>
towpath.v1.command.{VICTIM}.> towpath.v1.command.coordinator.> _INBOX.> _INBOX.coordinator.> _INBOX.{VICTIM}.>
$JS.> $JS.{VICTIM}.API.> $JS.hub.API.> $JS.M.> towpath.mirror.> towpath.mirror.{VICTIM}.> towpath.read.>
towpath.read.*.{VICTIM}.> sink.> sink.{VICTIM}.> site.> $MQTT.> $SYS.> *.*.*.*
""".split()
"""Subjects that are none of a thief's business."""

TAPPED = f"""
towpath.v1.command.{VICTIM}.start-job towpath.v1.command.coordinator.deploy towpath.v1.heartbeat.{VICTIM}
towpath.v1.event.security.refused _INBOX.{VICTIM}.agent.a.b $JS.{VICTIM}.API.STREAM.LIST
$JS.hub.API.STREAM.LIST towpath.mirror.{VICTIM}.hub.M.a towpath.read.{VICTIM}.hub.STREAM.INFO.EVENTS
sink.{VICTIM}.{VICTIM}.hourly.1 uplink.{VICTIM}.hub.u.site.a site.departures stats.hourly
""".split()
"""The same without wildcards."""

REDIS = (
    """
GET towpath:jobs|HGETALL towpath:jobs|KEYS *|SCAN 0|FLUSHALL|CONFIG SET maxmemory 0|ACL LIST|EVAL return 0
REPLICAOF 127.0.0.1 1|DEBUG SLEEP 1|SHUTDOWN|CLIENT LIST|SET towpath:transfer:m1:x y|XADD towpath:jobs * a b
SUBSCRIBE x|MONITOR|DUMP towpath:transfer:x|XADD other * a b|RESTORE towpath:transfer:x 0 y
""".replace("\n", "|")
    .strip("|")
    .split("|")
)
"""Commands to Redis under the thief's own user."""
