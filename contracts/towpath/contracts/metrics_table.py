"""The table of metrics: each with its kind, its unit, and the entities it is about."""

from __future__ import annotations

from enum import StrEnum

from towpath.contracts.message import Model


class MetricKind(StrEnum):
    """Course of a metric's values."""

    GAUGE = "gauge"
    """Goes up and down."""
    COUNTER = "counter"
    """Only grows, and begins at 0 again when its process restarts."""


class EntityKind(StrEnum):
    """Kind of thing that a metric is about. An entity is called `<kind>:<name>`."""

    SITE = "site"
    """`site`, or `site:<site>` at `hub`."""
    JOB = "job"
    """`job:<job>`, at the site that runs it."""
    STEP = "step"
    """`step:<job>/<step>`: a step of a chain, at the site that runs the job."""
    STREAM = "stream"
    """`stream:IN`, or `stream:<output stream>`, at the site that keeps it."""
    UPLINK = "uplink"
    """`uplink:<name>`, at the site that sends."""
    PROCESS = "process"
    """`process:<name>`: `nats`, `engine`, `agent`; at `hub` the services. `process.network.*` is known of the
    first three and of the collector: what passes a Mosquitto of the site is not measured."""
    LINK = "link"
    """`link:<site or hub>`: the way there, as seen from here."""
    MIGRATION = "migration"
    """`migration:<operation>`, and `migration:<operation>/<step>`; at `hub`."""
    RULE = "rule"
    """`rule:<site>/<entity>`: what a fault or instrumentation rule measured there; kept at `hub`. What is
    measured while the site is cut off, until its rules end with their lease, is not kept."""


class MetricDefinition(Model):
    """One metric."""

    name: str
    """As OpenTelemetry writes names; `towpath.` stands before it where it is exported."""
    unit: str
    """As OpenTelemetry writes units (UCUM): `s`, `By`, `1`, `{event}`."""
    kind: MetricKind
    entity: EntityKind
    meaning: str


def _gauge(name: str, unit: str, entity: EntityKind, meaning: str) -> MetricDefinition:
    return MetricDefinition(name=name, unit=unit, kind=MetricKind.GAUGE, entity=entity, meaning=meaning)


def _counter(name: str, unit: str, entity: EntityKind, meaning: str) -> MetricDefinition:
    return MetricDefinition(name=name, unit=unit, kind=MetricKind.COUNTER, entity=entity, meaning=meaning)


def _quantiles(name: str, entity: EntityKind, meaning: str) -> tuple[MetricDefinition, ...]:
    """Quantiles over the interval between two samples."""
    which = {"p50": "median", "p95": "95th percentile", "p99": "99th percentile", "max": "longest"}
    return tuple(
        _gauge(f"{name}.{short}", "s", entity, f"{meaning}: {long}") for short, long in which.items()
    )


_PHASES = {
    "latest_offset": "waiting until it was due and had events, and asking the inputs how far they are",
    "query_planning": "planning",
    "add_batch": "computing and publishing",
    "wal_commit": "writing down what the micro-batch covers",
    "commit_offsets": "writing down that it is done",
}


AVAILABILITY = "site.availability"

METRICS_TABLE: tuple[MetricDefinition, ...] = (
    _counter("job.events", "{event}", EntityKind.JOB, "Events processed since the query started here"),
    _gauge("job.event_rate", "{event}/s", EntityKind.JOB, "Events processed, over the last interval"),
    _counter("job.results", "{result}", EntityKind.JOB, "Results stored since the query started here"),
    _gauge("job.result_rate", "{result}/s", EntityKind.JOB, "Results stored, over the last interval"),
    _counter("job.rejected", "{event}", EntityKind.JOB, "Events sent to the dead-letter topic"),
    _gauge(
        "job.backlog", "{event}", EntityKind.JOB, "Serial numbers of all inputs that are not processed yet"
    ),
    _gauge(
        "job.retention_left",
        "s",
        EntityKind.JOB,
        "Until an input drops events that the job has still to read; nothing while it has read all",
    ),
    *_quantiles(
        "job.latency.end_to_end",
        EntityKind.JOB,
        "From the storing of the newest event in a result to its own",
    ),
    *_quantiles("job.latency.processing", EntityKind.JOB, "From the start of a micro-batch to its commit"),
    _gauge("job.batch.events", "{event}", EntityKind.JOB, "Events in the newest micro-batch that had any"),
    *(
        _gauge(f"job.batch.phase.{phase}", "s", EntityKind.JOB, f"Of the newest micro-batch: {meaning}")
        for phase, meaning in _PHASES.items()
    ),
    _counter("job.step.events", "{event}", EntityKind.STEP, "Events that reached the step of a chain"),
    _counter("job.step.rejected", "{event}", EntityKind.STEP, "Events that the step rejected"),
    _counter("job.step.results", "{result}", EntityKind.STEP, "Results that the step made"),
    _gauge("job.watermark.delay", "s", EntityKind.JOB, "How far the watermark is behind the clock"),
    _gauge("job.state.rows", "{row}", EntityKind.JOB, "Keys in the state"),
    _gauge("job.state.memory", "By", EntityKind.JOB, "Memory that the state takes"),
    _gauge("job.checkpoint.size", "By", EntityKind.JOB, "Files of the checkpoint"),
    _counter(
        "job.restarts", "{restart}", EntityKind.JOB, "Times the query was started again after a failure"
    ),
    _counter("stream.events", "{event}", EntityKind.STREAM, "Newest serial number"),
    _gauge("stream.event_rate", "{event}/s", EntityKind.STREAM, "Events stored, over the last interval"),
    _gauge("stream.size", "By", EntityKind.STREAM, "Bytes kept"),
    _gauge("uplink.backlog", "{event}", EntityKind.UPLINK, "Serial numbers that wait to be forwarded"),
    _gauge("uplink.backlog.size", "By", EntityKind.UPLINK, "About how many bytes they take"),
    _gauge("uplink.rate", "By/s", EntityKind.UPLINK, "Forwarded, over the last ten seconds"),
    _gauge("uplink.through", "s", EntityKind.UPLINK, "Until the backlog is through, if it goes on like this"),
    _counter("uplink.forwarded", "{event}", EntityKind.UPLINK, "Events that the destination has got"),
    _counter(
        "uplink.discarded", "{event}", EntityKind.UPLINK, "Events that retention took before they were sent"
    ),
    _gauge(
        "uplink.waits",
        "1",
        EntityKind.UPLINK,
        "0: it sends, or has nothing to send; it waits for 1: a window, 2: another budget, 3: the link",
    ),
    _gauge("uplink.spent.window", "By", EntityKind.UPLINK, "Spent in the present or last window"),
    _gauge("uplink.spent.month", "By", EntityKind.UPLINK, "Spent in this month"),
    _gauge("process.cpu.utilization", "1", EntityKind.PROCESS, "Cores used, with the process's children"),
    _gauge("process.memory.usage", "By", EntityKind.PROCESS, "Resident memory, with its children"),
    _counter("process.disk.read", "By", EntityKind.PROCESS, "Read from disks, with its children"),
    _counter("process.disk.written", "By", EntityKind.PROCESS, "Written to disks, with its children"),
    _counter(
        "process.network.received",
        "By",
        EntityKind.PROCESS,
        "Received on NATS and MQTT connections; not on a Mosquitto's",
    ),
    _counter(
        "process.network.sent",
        "By",
        EntityKind.PROCESS,
        "Sent on NATS and MQTT connections; not on a Mosquitto's",
    ),
    _counter("process.restarts", "{restart}", EntityKind.PROCESS, "Times it was started again"),
    _gauge("site.cpu.utilization", "1", EntityKind.SITE, "Cores used on the machine, by anybody"),
    _gauge("site.memory.available", "By", EntityKind.SITE, "Memory that the machine has left"),
    _gauge("site.disk.free", "By", EntityKind.SITE, "Room left where the site keeps its data"),
    _gauge("site.battery.charge", "1", EntityKind.SITE, "Charge of the battery, where it runs on one"),
    _gauge(
        AVAILABILITY,
        "1",
        EntityKind.SITE,
        "Share of time in which a site that failed before is expected to be up",
    ),
    _gauge("link.round_trip", "s", EntityKind.LINK, "A small message there and back"),
    _gauge(
        "link.bandwidth",
        "By/s",
        EntityKind.LINK,
        "Measured with a message of 64 KiB there and back, if within 10 s",
    ),
    _gauge(
        "migration.completed",
        "{migration}",
        EntityKind.MIGRATION,
        "1 if it did what it was to, 0 if it was rolled back or needs an operator",
    ),
    _gauge("migration.duration", "s", EntityKind.MIGRATION, "From its acceptance to its end, whichever"),
    _gauge(
        "migration.downtime",
        "s",
        EntityKind.MIGRATION,
        "Gap between source and target: `MigrationFigures`; of completed ones",
    ),
    _gauge(
        "migration.state",
        "By",
        EntityKind.MIGRATION,
        "State that crossed; of one that did not complete, in steps that were confirmed",
    ),
    _gauge(
        "migration.step.duration", "s", EntityKind.MIGRATION, "Of one step, to its confirmation or failure"
    ),
)
"""All metrics. What rules measure has names of its own, which begin with `rule.`."""


METRICS_BY_NAME = {metric.name: metric for metric in METRICS_TABLE}
