"""The wire format of events and results: subjects, streams, headers, metadata, message ids and offsets.

PROTOCOL.md, section 15, tells the same in prose. What a job publishes is `towpath.contracts.result`.
Running meshes, stored streams and checkpoints hold what is made here, so a change of any of it is a change
of format.

This module imports nothing else of Towpath: Spark's Python workers load it when they start.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

# Subjects ------------------------------------------------------------------------------------------------

DEVICE_PREFIX = "site/"
"""MQTT topics under this prefix belong to devices; everything else is the output of a job."""


def subject_of(topic: str) -> str:
    """The NATS subject of an MQTT topic: `stats/hourly` → `stats.hourly`."""
    return topic.replace("/", ".")


def subject_matches(pattern: str, subject: str) -> bool:
    """Tell if a subject matches a pattern of NATS: `*` stands for one token, a last `>` for one or more."""
    wanted, tokens = pattern.split("."), subject.split(".")
    if wanted[-1] == ">":
        wanted.pop()
        if len(tokens) <= len(wanted):
            return False
        tokens = tokens[: len(wanted)]
    return len(wanted) == len(tokens) and all(a in ("*", b) for a, b in zip(wanted, tokens, strict=True))


DEVICE_SUBJECTS = f"{subject_of(DEVICE_PREFIX)}>"
"""Subjects of device events, as the IN stream keeps them."""

METRICS_TOPIC = f"{DEVICE_PREFIX}metrics"
"""The topic of a site's metrics: what applications publish there, and what the site measures itself."""

METRICS_SUBJECT = "towpath.site-metrics"
"""Where an agent publishes its site's metrics. Not public: only a stream makes them events of the topic."""

MQTT_STORE = "$MQTT.msgs."
"""Prefix under which nats-server's MQTT side stores a message of QoS 1, before it acknowledges the message.

It waits for the answer of whichever stream takes the subject. Device events go to IN. Results go to
`MQTT_STREAM`, which holds them for sessions under the same prefix.
"""

INTAKE_SUBJECTS = f"{MQTT_STORE}{DEVICE_SUBJECTS}"
"""Subjects that IN listens to. So a device's event is acknowledged when IN has it, and not before."""

CONTROL_SUBJECTS = "$EDC.>"
"""Subjects of the control topics of gateways, see `towpath.contracts.gateway`."""

CONTROL_STORE_SUBJECTS = f"{MQTT_STORE}{CONTROL_SUBJECTS}"
"""Subjects under which `MQTT_STREAM` holds requests and answers for the sessions of gateways."""

BROADCAST_PREFIX = "broadcast/"
"""MQTT topics under this prefix belong to broadcasts. Devices subscribe to them and may not publish there."""

BROADCAST_SUBJECTS = "broadcasting.>"
"""Subjects of the site's stream of broadcasts. Not public: the stream makes them public."""

UNPUBLISHED_SUBJECTS = ("sink.>", "reject.>", "shadow.>", "uplink.>", "uplink-notice.>", BROADCAST_SUBJECTS)
"""Subjects of results on their way to a stream. Only a stream makes them public."""

MQTT_DELIVERY = "towpath.mqtt."
"""Prefix under which results go to `MQTT_STREAM`.

A stream that republishes here reaches every QoS 1 subscriber, also one that is away at the moment:
the server holds the message for its session. The message needs `MQTT_QOS_HEADER`.
"""


def device_subject(topic: str) -> str:
    """Subject of a device topic in the IN stream."""
    return subject_of(topic)


def device_stream(topic: str) -> str:
    """The stream of a site that has the events of a device topic."""
    return METRICS_STREAM if topic == METRICS_TOPIC else IN_STREAM


def intake_subject(subject: str) -> str:
    """Where to publish an event so that IN keeps it under `subject`."""
    return f"{MQTT_STORE}{subject}"


def topic_of(subject: str) -> str:
    """The MQTT topic of a subject: the reverse of `subject_of`."""
    return subject.replace(".", "/")


def rejected_topic(topic: str) -> str:
    """The dead-letter topic of a job that names none: where the events it rejects go."""
    return f"{topic}/rejected"


def sink_subject(site: str, owner: str, job: str, epoch: int | str) -> str:
    """Where `owner` publishes results for an output at `site` under `epoch`; `*` stands for any of the four.

    The owner is the site that runs the job under this epoch, the output's own site where its agent takes
    results over from a shadow, or `hub` where the monitor forwards them. Servers let each publish under its
    own name only, and the stream accepts the present owner and epoch only.
    """
    return f"sink.{site}.{owner}.{job}.{epoch}"


def rejected_subject(site: str, owner: str, job: str, epoch: int | str) -> str:
    """Where `owner` publishes rejected events under `epoch`."""
    return f"reject.{site}.{owner}.{job}.{epoch}"


def shadow_subject(subject: str) -> str:
    """Where results go instead of `subject` while the output does not accept them.

    A subject of its own: a message on its way to the shadow can never reach the output late, and so
    overtake what was taken over from the shadow.
    """
    return f"shadow.{subject}"


class ResultSubject(NamedTuple):
    """The parts of a subject made by `sink_subject` or `rejected_subject`, also of one in a shadow."""

    is_rejected: bool
    site: str
    """The output's site."""
    owner: str
    """Empty in what a version without owners has stored."""
    job: str
    epoch: int

    @classmethod
    def of(cls, subject: str) -> Self:
        """Parse a subject. Raises `ValueError` for any other."""
        kind, site, *owner, job, epoch = subject.removeprefix(shadow_subject("")).split(".")
        if kind not in ("sink", "reject") or len(owner) > 1:
            raise ValueError(f"{subject} is no subject of results")
        return cls(kind == "reject", site, "".join(owner), job, int(epoch))


def broadcast_subject(topic: str, broadcast: str) -> str:
    """Where an agent publishes a broadcast. A subject of its own: its stream takes one message of each."""
    return f"broadcasting.{subject_of(topic)}.{broadcast}"


def broadcast_topic(subject: str) -> str:
    """The MQTT topic on which devices receive the broadcast of that subject: `broadcast/<topic>/<id>`."""
    return BROADCAST_PREFIX + topic_of(subject.partition(".")[2])


def uplink_prefix(to: str, site: str, name: str) -> str:
    """Where an uplink of `site` publishes at `to`. The public subject of the event follows."""
    return f"uplink.{to}.{site}.{name}."


def uplink_notice(to: str, site: str, name: str) -> str:
    """Where an uplink says what is gone. Not public."""
    return f"uplink-notice.{to}.{site}.{name}"


def closed_subject(site: str, stream: str) -> str:
    """The subject of an output stream that no one may publish into. It has to listen to something."""
    return f"closed.{site}.{stream}"


def closed_shadow_subject(site: str, job: str) -> str:
    """The subject of a shadow that is being settled and takes nothing more."""
    return f"shadow.closed.{site}.{job}"


def epochs_of(subjects: Iterable[str]) -> list[int]:
    """The epochs that a stream with these subjects accepts, in ascending order."""
    numbers = {subject.rsplit(".", 1)[-1] for subject in subjects}
    return sorted(int(number) for number in numbers if number.isdigit())


def api_prefix(site: str) -> str:
    """Prefix of the JetStream interface of a site, reachable from the site itself and from the hub."""
    return f"$JS.{site}.API"


def inbox_prefix(user: str) -> str:
    """Return the prefix of the subjects at which a user, or a site's server, waits for answers."""
    return f"{INBOXES}{user}"


REGISTRY_SUBJECTS = "towpath.registry.*"
"""Subjects of the log with every write to the registry, at the hub. Only the coordinator may publish them."""


def gate_prefix(site: str, reader: str) -> str:
    """Prefix under which another site, `reader`, asks for streams of a site, or of the hub.

    The calls after it are those of `api_prefix`. A gate at `site` looks at each of them.
    """
    return f"towpath.read.{reader}.{site}"


_HUB = "hub"  # `message.HUB_SCOPE`. Spark's Python workers import this module, and need no models.


def api_for(user: str | None, site: str) -> str:
    """Prefix of the JetStream interface of a site, or of the hub, for a user of the mesh.

    The processes of a site (`jfk.agent`) reach their own server directly, and others through the gates there.
    Services beside the hub (`hub.coordinator`) and people (`operator`) reach every site directly.
    """
    reader, dot, _ = (user or "").partition(".")
    return api_prefix(site) if not dot or reader in (_HUB, site) else gate_prefix(site, reader)


def mirror_delivery(site: str, reader: str) -> str:
    """Prefix under which a site's server sends the messages of its streams to the mirrors at `reader`."""
    return f"towpath.mirror.{reader}.{site}"


# Streams -------------------------------------------------------------------------------------------------

IN_STREAM = "IN"
"""The stream of a site that keeps what devices send."""

METRICS_STREAM = "METRICS"
"""The stream of a site that keeps its metrics. Applications' come from IN, the site's own are in no other.

A stream of its own, so that no other job of the site wakes for a metric, and a job that reads metrics
elsewhere mirrors these alone. Like any stream it needs no one who says that metrics are read, or where."""

DEVICE_STREAMS = (IN_STREAM, METRICS_STREAM)
"""Streams that no job writes, and that every site has."""

ARRIVED_STREAM = "ARRIVED"
"""The stream of one message that counts what devices publish, kept or not."""

MQTT_STREAM = "$MQTT_msgs"
"""The stream from which nats-server serves MQTT sessions. Here it has results only."""

BROADCAST_STREAM = "BROADCASTS"
"""The stream of a site that keeps broadcasts until they expire, and publishes each once to the broker."""

OUTPUT_STREAM_PREFIX = "OUT_"
DEAD_LETTER_STREAM_PREFIX = "REJECTED_"
MIRROR_STREAM_PREFIX = "MIRROR_"
UPLINK_STREAM_PREFIX = "UPLINK_"

KEEPER_PREFIX = "towpath-keeper-"
"""Beginning of the name of the consumer that lets `MQTT_STREAM` keep what it took after a serial number. That
number follows, and its metadata say how far each output had come by then."""

WEBHOOK_CONSUMER = "webhook"
"""Name of the consumer of an output whose messages go to the job's webhook."""

DUPLICATE_WINDOW_S = 120.0
"""Time for which a stream remembers message ids: longer than any restart of an engine or retry of a batch."""

DEAD_LINK_S = 30.0
"""Time after which servers close a connection whose other end does not answer: what waits on it is lost, and
never comes late."""


def output_stream(job: str, turn: int = 0) -> str:
    """The stream that keeps a job's results. Each time they go to another topic is another turn."""
    name = f"{OUTPUT_STREAM_PREFIX}{job}"
    return f"{name}_{turn}" if turn else name


def turn_of(output: str) -> int:
    """The turn of an output stream. Names of jobs have no underscore."""
    _, _, turn = output.removeprefix(OUTPUT_STREAM_PREFIX).partition("_")
    return int(turn or 0)


def rejected_stream(output: str) -> str:
    """The stream that keeps the events a job rejected, beside the output stream of that name."""
    return f"{DEAD_LETTER_STREAM_PREFIX}{output.removeprefix(OUTPUT_STREAM_PREFIX)}"


def live_stream(stream: str) -> str:
    """The one-message stream that republishes an output to its plain topic."""
    return f"LIVE_{stream}"


def shadow_stream(job: str) -> str:
    """The stream that keeps results aside while two sites run a job."""
    return f"SHADOW_{job}"


def mirror_stream(site: str, stream: str) -> str:
    """A site's copy of another site's stream, serial numbers kept."""
    return f"{MIRROR_STREAM_PREFIX}{site}_{stream}"


def uplink_stream(name: str) -> str:
    """The stream at an uplink's destination that keeps what has arrived. Names of uplinks are unique."""
    return f"{UPLINK_STREAM_PREFIX}{name}"


def is_mirror(stream: str) -> bool:
    """True if a stream is the copy of another site's."""
    return stream.startswith(MIRROR_STREAM_PREFIX)


# Headers -------------------------------------------------------------------------------------------------

MESSAGE_ID_HEADER = "Nats-Msg-Id"
"""A stream drops a message whose id it has seen inside its duplicate window."""

EVENT_ID_HEADER = "Towpath-Event-Id"
"""Name that a device gave its event, from a user property of MQTT 5. One that comes again has the same, and
counts once where an input has an `identity`."""

RESULT_ID_HEADER = "Towpath-Result-Id"
"""The id that a message in a shadow has in the output. In the shadow itself two owners' results must stay
two messages, also where they say the same of the same window: which of them counts is decided later."""

BATCH_HEADER = "Towpath-Batch"
"""`generation.batch` of the micro-batch that published the message: tells a restart what it published."""

UPLINK_HEADER = "Towpath-Uplink"
"""Place of a forwarded event at its origin, with spaces between: numbering, lane (`live`, `late` or `kept`),
serial number, the serial numbers after and through which it is the only one of its uplink, and the time at
which the origin stored it."""

UPLINK_POSITION_HEADER = "Towpath-Uplink-Position"
"""All that an uplink has forwarded, this message included: JSON, see `towpath.uplinks.position`. On the first
and the last message of a batch, and on notices."""

UPLINK_GONE_HEADER = "Towpath-Uplink-Gone"
"""On a notice: ranges of serial numbers that the origin had no more, `first-last`, with commas between."""

MQTT_QOS_HEADER = ("Nmqtt-Pub", "1")
"""Tells nats-server's MQTT side that the message was published with QoS 1."""

TIME_TO_LIVE_HEADER = "Nats-TTL"
"""Seconds after which a stream forgets the message."""

ONLY_ONE_HEADER = {"Nats-Expected-Last-Subject-Sequence": "0"}
"""A stream refuses the message if it keeps one of that subject."""

EXPECTED_LAST_HEADER = "Nats-Expected-Last-Sequence"
"""A stream refuses the message unless its newest serial number is this."""

INBOXES = "_INBOX."
"""Beginning of all subjects at which clients wait for answers."""

REPUBLISHED_FROM = "Nats-Stream"
"""The stream that a message comes from which a stream has republished."""
REPUBLISHED_SERIAL = "Nats-Sequence"
"""Its serial number there."""

STORED_AT_HEADER = "Nats-Time-Stamp"
"""The time at which a message was stored first, in the server's answer to a request for it."""

FIRST_STORED_HEADER = "Towpath-Stored-At"
"""Time at which the lost site's stream stored the message. The standby sets it on what it stores from the
mirror of a reader."""

NO_RESPONDERS = "503"
"""Value of the header `Status` in the server's own answer to a request that no one hears: there is no such
stream, or no link to it."""


def storing_times(headers: Mapping[str, str]) -> list[str]:
    """The times at which a message was stored: here, and then that at a lost site, if it is another one."""
    found = (headers.get(STORED_AT_HEADER), headers.get(FIRST_STORED_HEADER))
    return [time for time in found if time]


def batch_label(generation: int, batch: int) -> str:
    """The value of `BATCH_HEADER`."""
    return f"{generation}.{batch}"


NO_BATCH = batch_label(0, 0)
"""The label of a message that has none: it comes before all others."""


def label_order(label: str) -> tuple[int, ...]:
    """The order of labels within one run of a job."""
    return tuple(int(part) for part in label.split("."))


_LABEL = re.compile(r"[0-9]{1,18}\.[0-9]{1,18}")


def batch_of(headers: Mapping[str, str]) -> str:
    """The label of the micro-batch that published a message. A stolen site may have written anything."""
    label = headers.get(BATCH_HEADER, NO_BATCH)
    return label if _LABEL.fullmatch(label) else NO_BATCH


# Metadata of streams -------------------------------------------------------------------------------------

OVERLAP = "towpath-overlap"
"""Key in an output stream's metadata, `after-through`: serial numbers of what others stored while the present
owner already worked in the shadow, or before it got the output back. What it publishes at first may be there,
under ids the server forgets. `after-`: they are being shut out, the end is not known yet."""

DIVERTED = "towpath-diverted"
"""Key in an output stream's metadata: an older epoch whose results a shadow stream takes meanwhile. Its
owner is not fenced, even at the moment when neither stream accepts it."""

LIFE = "towpath-life"
"""Key in the metadata of an output's copy at a standby: the beginning of the ids in it. See `life_code`."""

CAUGHT_UP = "towpath-caught-up"
"""Key in the metadata of an output's copy, set once the copy has caught up with its origin. Without it, a
copy must not be promoted."""

PROMOTED_AFTER = "towpath-promoted-after"
"""Key in the metadata of an output that was promoted: the copy's last serial number then. Up to it, the
broker of the lost site has published the results."""

HELD_UNTIL = "towpath-held-until"
"""Key in the metadata of a mirror that takes nothing from its origin, see `HoldMirrors`: until when, in
seconds since its machine started."""

HELD_FROM = "towpath-held-from"
"""The same: prefix of calls to the server of that origin. Another origin feeds the mirror at once."""

OUTPUT_SERIAL = "towpath-output-serial"
"""Key in a shadow's metadata: the output's last serial number when the shadow was opened."""

REJECTED_SERIAL = "towpath-rejected-serial"
"""The same of the stream of rejected events."""

OPERATION = "towpath-operation"
"""Key in a shadow's metadata: the operation that opened it."""

EPOCHS = "towpath-epochs"
"""Key in a shadow's metadata: the epochs whose results it keeps, with commas between them. A shadow that is
being settled has no subjects left to tell."""

UNSETTLED = "towpath-unsettled"
"""Key in a shadow's metadata: the epoch of an owner whose results only the shadow has. Goes once they are
in the output."""


def overlap_range(mark: str) -> tuple[int, int]:
    """The serial numbers `after` < n ≤ `through` that a value of `OVERLAP` spans; none for an empty one."""
    after, _, through = (mark or "0-0").partition("-")
    return int(after), int(through) if through else sys.maxsize


# Message ids ---------------------------------------------------------------------------------------------

ID_SEPARATOR = "/"

REJECTED_MARK = "rejected"
"""Second part of the id of a rejected event: no stream's code is this word."""

PROCESSED_MARK = "processed"
"""Second part of the id of a processing window. A job that was another operator before numbers its results by
one or two whole numbers, too: the word keeps them apart."""

PLAIN_ID = r"[ -~]{1,199}"
"""Ids that travel as they are: printable ASCII, and short, for a header. Of others a digest travels."""


def life_code(created: str) -> str:
    """Eight letters that stand for one life of a stream, by when it was created as its server says it.

    The MQTT side of nats-server remembers message ids of its own. A job that is removed and deployed again
    would publish into that memory, so its ids begin with another code.
    """
    return hashlib.blake2b(created.encode(), digest_size=4).hexdigest()


def input_code(site: str, stream: str, subject: str | None, numbering: int = 0) -> str:
    """Six letters that stand for an input: two of the few streams a job ever reads will not have the same.

    Serial numbers of another stream are others, and so are message ids made from them.
    """
    text = "/".join((site, stream, subject or "", *([str(numbering)] if numbering else [])))
    return hashlib.blake2b(text.encode(), digest_size=3).hexdigest()


def stored_id(life: str, identity: str) -> str:
    """The message id in the output of what a job calls `identity`."""
    return f"{life}{ID_SEPARATOR}{identity}"


def shadow_id(subject: str, identity: str) -> str:
    """The message id in the shadow of what is published to `subject`: another one for each epoch."""
    return f"{ResultSubject.of(subject).epoch}{ID_SEPARATOR}{identity}"


def bridge_id(session: str, number: int, packet: int, digest: str) -> str:
    """The message id in IN of an event that a bridge stored: of the session at its broker, of its place among
    that session's events, and of what the broker sent."""
    return f"{session}.{number}.{packet}.{digest}"


def bridge_id_parts(identity: str) -> tuple[str, int, int, str] | None:
    """The four parts of it; None for the id of anyone else."""
    match identity.split("."):
        case [session, number, packet, digest] if number.isdigit() and packet.isdigit():
            return session, int(number), int(packet), digest
    return None


def output_id(headers: Mapping[str, str]) -> str:
    """The message id that a stored message has, or will have, in the output; empty if it has none."""
    return headers.get(RESULT_ID_HEADER) or headers.get(MESSAGE_ID_HEADER, "")


# Offsets -------------------------------------------------------------------------------------------------

RECALLED_EVENTS = 1_000
"""So many events before a start are read once more, for their times. Where jobs share the stream, so many
more at a time until one is the job's. A mirror begins so many events earlier."""

RECALL_LIMIT = 20_000
"""No query looks back farther."""


@dataclass(frozen=True)
class Offset:
    """A source's offset in a Spark checkpoint, `{"serial": n, "nudges": k, "stored_at": time}`: all events up
    to serial number n are processed. All but `serial` may be missing.

    A stream that is made again numbers its events from 1 again, and so does one that lost its end, from there
    on. The offset tells: it has the time at which the stream stored event n, to the nanosecond. A mirror has
    the times of its origin. Kafka's readers compare leader epochs for the same reason (KIP-101, KIP-320).

    A stateful query counts `nudges` up when it starts: the offset differs from the start, and a micro-batch
    runs, be there events or not. An event that the source recalls for its time alone has its serial number
    times -1; events of a stream are numbered from 1.
    """

    serial: int
    nudges: int = 0
    stored_at: str = ""
    """As the server writes it."""
    shares: Mapping[str, float] = field(default_factory=dict)
    """Of the events up to this offset, the shares that are read, see `streams.thinning`. A micro-batch that
    runs again reads the same ones."""

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """The offset in the JSON that Spark keeps."""
        return cls(
            int(document["serial"]),
            int(document.get("nudges", 0)),
            str(document.get("stored_at", "")),
            dict(document.get("shares", {})),
        )

    def document(self) -> dict[str, Any]:
        """The JSON for Spark to keep."""
        beside = {"nudges": self.nudges, "stored_at": self.stored_at, "shares": {**self.shares}}
        return {"serial": self.serial, **{name: value for name, value in beside.items() if value}}
