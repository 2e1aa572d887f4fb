"""The metrics that a site publishes of itself, as events of the topic `site/metrics`.

An event is flat, and about one entity: `entityType`, `nodeID` and `agentID` (both the site), `podName` and
`podNamespace` of what runs at the site, `peerID` of a link, `time`, and the metrics below that were measured
since the event before. A query that runs reads these names, so a change of one is a change of format.
"""

from __future__ import annotations

from typing import NamedTuple

from towpath.contracts.metrics_table import EntityKind

NAMESPACE = "towpath"
"""`podNamespace` of everything that Towpath runs."""

ENTITY_TYPES = {
    EntityKind.SITE: "NODE",
    EntityKind.PROCESS: "POD",
    EntityKind.JOB: "JOB",
    EntityKind.LINK: "LINK",
}
"""Kind of entity → `entityType` in events. Of other kinds no events are published."""

MEBIBYTE = 1024**2


class SiteMetric(NamedTuple):
    """A field of the events of one kind of entity."""

    name: str
    entity: EntityKind
    samples: tuple[str, ...]
    """Metrics of `METRICS_TABLE` that are added up."""
    factor: float = 1.0
    per_second: bool = False
    """The samples count up, and the field says how fast."""
    per_core: bool = False
    """The samples are of all cores together, and the field is the mean of one."""


_TRAFFIC = ("process.network.received", "process.network.sent")
_DISK = ("process.disk.read", "process.disk.written")

SITE_METRICS = (
    SiteMetric("cpu_ptc", EntityKind.SITE, ("site.cpu.utilization",), 100, per_core=True),
    SiteMetric("memory_available_mb", EntityKind.SITE, ("site.memory.available",), 1 / MEBIBYTE),
    SiteMetric("disk_free_mb", EntityKind.SITE, ("site.disk.free",), 1 / MEBIBYTE),
    SiteMetric("battery_ptc", EntityKind.SITE, ("site.battery.charge",), 100),
    SiteMetric("cpu_ptc", EntityKind.PROCESS, ("process.cpu.utilization",), 100, per_core=True),
    SiteMetric("memory_mb", EntityKind.PROCESS, ("process.memory.usage",), 1 / MEBIBYTE),
    SiteMetric("disk_io", EntityKind.PROCESS, _DISK, per_second=True),
    SiteMetric("network_io", EntityKind.PROCESS, _TRAFFIC, per_second=True),
    SiteMetric("restarts", EntityKind.PROCESS, ("process.restarts",)),
    SiteMetric("event_rate", EntityKind.JOB, ("job.event_rate",)),
    SiteMetric("result_rate", EntityKind.JOB, ("job.result_rate",)),
    SiteMetric("backlog", EntityKind.JOB, ("job.backlog",)),
    SiteMetric("delay_p50_s", EntityKind.JOB, ("job.latency.end_to_end.p50",)),
    SiteMetric("delay_p95_s", EntityKind.JOB, ("job.latency.end_to_end.p95",)),
    SiteMetric("state_mb", EntityKind.JOB, ("job.state.memory",), 1 / MEBIBYTE),
    SiteMetric("state_rows", EntityKind.JOB, ("job.state.rows",)),
    SiteMetric("checkpoint_mb", EntityKind.JOB, ("job.checkpoint.size",), 1 / MEBIBYTE),
    SiteMetric("restarts", EntityKind.JOB, ("job.restarts",)),
    SiteMetric("round_trip_s", EntityKind.LINK, ("link.round_trip",)),
    SiteMetric("bandwidth_mbit", EntityKind.LINK, ("link.bandwidth",), 8 / 1e6),
)
"""All fields with values. A NODE has three more, of its PODs together: `memory_mb` and `disk_io` of all, and
`network_io` of its server, through which all data of the site passes."""
