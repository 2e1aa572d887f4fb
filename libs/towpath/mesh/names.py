"""Names of streams, subjects and processes: the one place that knows them."""

from __future__ import annotations

from collections.abc import Iterable

from towpath.contracts.message import HUB_SCOPE, subject_of

IN_STREAM = "IN"
"""The stream of a site that keeps what devices send."""

DEVICE_SUBJECTS = "site.>"
"""What the IN stream listens to: MQTT topics `site/#`."""

MQTT_DELIVERY = "$MQTT.msgs."
"""nats-server keeps messages for persistent MQTT sessions under this prefix.

A stream that republishes here reaches every QoS 1 subscriber, also one that is away at the moment:
the server holds the message for its session. Needs the header below on the message.
"""

MQTT_QOS_HEADER = ("Nmqtt-Pub", "1")
"""Tells nats-server's MQTT side that the message was published with QoS 1."""

MESSAGE_ID_HEADER = "Nats-Msg-Id"
"""A stream drops a message whose id it has seen inside its duplicate window."""

RESULT_ID_HEADER = "Towpath-Result-Id"
"""The id that a message in a shadow has in the output. In the shadow itself two owners' results must stay
two messages, also where they say the same of the same window: which of them counts is decided later."""

DEAD_LETTER_STREAM_PREFIX = "REJECTED_"


SUPERVISOR = "local"
"""The process that starts all others of a machine."""

SHARED_PROCESSES = (HUB_SCOPE, "redis", "coordinator", "monitor", "collector", "api")
"""What every mesh runs beside its sites."""

LINKS_PROCESS = "links"
"""What it also runs where it emulates links."""

INJECTOR_PROCESS = "injector"
"""What it also runs where fault rules may be loaded."""

SITE_PARTS = ("nats", "agent", "engine")
"""What every site runs; its processes are called `<site>-<part>`."""


def processes_of(sites: Iterable[str], *, emulate_links: bool, faults: bool) -> list[str]:
    """Names of the processes that a mesh consists of, without the one that starts them."""
    links = [LINKS_PROCESS] if emulate_links else []
    injector = [INJECTOR_PROCESS] if faults else []
    return [
        *SHARED_PROCESSES,
        *injector,
        *links,
        *(f"{site}-{part}" for site in sites for part in SITE_PARTS),
    ]


def api_prefix(site: str) -> str:
    """Prefix of the JetStream interface of a site, reachable from everywhere in the mesh."""
    return f"$JS.{site}.API"


def output_stream(job: str, turn: int = 0) -> str:
    """The stream that keeps a job's results. Each time they go to another topic is another turn."""
    return f"OUT_{job}_{turn}" if turn else f"OUT_{job}"


def turn_of(output: str) -> int:
    """Which turn an output stream is of. Names of jobs have no underscore."""
    _, _, turn = output.removeprefix("OUT_").partition("_")
    return int(turn or 0)


def rejected_stream(output: str) -> str:
    """The stream that keeps the events a job rejected, beside the output stream of that name."""
    return f"{DEAD_LETTER_STREAM_PREFIX}{output.removeprefix('OUT_')}"


def local_stream(here: str, site: str, stream: str) -> str:
    """What `stream` of `site` is read from at the site `here`: itself, or its mirror."""
    return stream if site == here else mirror_stream(site, stream)


def mirror_stream(site: str, stream: str) -> str:
    """A site's copy of another site's stream, serial numbers kept."""
    return f"MIRROR_{site}_{stream}"


def sink_subject(site: str, job: str, epoch: int | str) -> str:
    """Where the owner of `epoch` (`*`: of any) publishes results. The stream accepts the current one only."""
    return f"sink.{site}.{job}.{epoch}"


def rejected_subject(site: str, job: str, epoch: int | str) -> str:
    """Where the owner of `epoch` publishes rejected events."""
    return f"reject.{site}.{job}.{epoch}"


def device_subject(topic: str) -> str:
    """Subject of a device topic in the IN stream."""
    return subject_of(topic)


def closed_subject(site: str, stream: str) -> str:
    """What an output stream listens to when nobody may publish into it. It has to listen to something."""
    return f"closed.{site}.{stream}"


def engine_process(site: str, job: str | None = None) -> str:
    """The process name of a site's engine, or of the one that a job has for itself. Names of sites and jobs
    have no dot."""
    return f"{site}-engine" if job is None else f"{site}-engine.{job}"


def is_engine_process(name: str) -> bool:
    """Whether a process of this name is an engine: a JVM and Python processes hang together with it."""
    return name.partition(".")[0].endswith("-engine")


def live_stream(stream: str) -> str:
    """The one-message stream that republishes an output to its plain topic."""
    return f"LIVE_{stream}"


def shadow_stream(job: str) -> str:
    """The stream that keeps results aside while two sites run a job."""
    return f"SHADOW_{job}"


def shadow_subject(subject: str) -> str:
    """Where results go instead of `subject` while the output does not accept them.

    A subject of its own: a message on its way to the shadow can never reach the output late, and so
    overtake what was taken over from the shadow.
    """
    return f"shadow.{subject}"


def shadow_id(subject: str, identity: str) -> str:
    """The message id in the shadow of what is published to `subject`: another one for each epoch."""
    return f"{subject.rsplit('.', 1)[-1]}/{identity}"


def epochs_of(subjects: list[str]) -> list[int]:
    """The epochs that a stream with these subjects accepts, in ascending order."""
    numbers = {subject.rsplit(".", 1)[-1] for subject in subjects}
    return sorted(int(number) for number in numbers if number.isdigit())


OVERLAP = "towpath-overlap"
"""Key in an output stream's metadata, `after-through`: serial numbers of what others stored while the present
owner already worked in the shadow, or before it got the output back. What it publishes at first may be there,
under ids the server forgets. `after-`: they are being shut out, the end is not known yet."""

DIVERTED = "towpath-diverted"
"""Key in an output stream's metadata: an older epoch whose results a shadow stream takes meanwhile. Its
owner is not fenced, even at the moment when neither stream accepts it."""

SERVER_HEALTH = "$SYS.REQ.SERVER.PING.HEALTHZ"
"""Asks a site's server whether it works. What it answers to is its own side alone: leaves do not pass it."""

SERVER_TOTALS = "$SYS.REQ.SERVER.PING.VARZ"
"""Asks it the same way what went in and out of it in all."""

SERVER_CONNECTIONS = "$SYS.REQ.SERVER.PING.CONNZ"
"""And over which connections."""

SERVER_QUESTIONS = (SERVER_HEALTH, SERVER_TOTALS, SERVER_CONNECTIONS)
