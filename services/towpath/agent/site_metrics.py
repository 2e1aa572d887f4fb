"""Publish the site's own metrics as events of its topic `site/metrics`, where applications publish theirs.

They go into a stream of their own, beside a copy of what applications sent to IN. So they cost the site's
other jobs nothing, and queries find them at every site, wherever they run.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from nats.errors import Error as NatsError
from nats.js.api import StoreCompression, StreamSource, SubjectTransform

from towpath.contracts.data_plane import (
    IN_STREAM,
    METRICS_STREAM,
    METRICS_SUBJECT,
    METRICS_TOPIC,
    device_subject,
)
from towpath.contracts.message import now
from towpath.contracts.metrics import Sample
from towpath.contracts.metrics_table import EntityKind
from towpath.contracts.site_metrics import ENTITY_TYPES, NAMESPACE, SITE_METRICS, SiteMetric
from towpath.streams.streams import SiteStreams

log = logging.getLogger(__name__)

STORED_S = 2.0
"""Deadline for one event. The next ones come soon, so one that is not stored is given up."""

DIGITS = 6
"""Behind the point: microseconds, and shares of a byte."""

Values = dict[str, float]


async def ensure_metrics(streams: SiteStreams) -> None:
    """Make the stream of the site's metrics, if it does not exist.

    It keeps events at least as long as IN does. Otherwise a restarted server, which continues behind the last
    event that is still here, would find none, and take those of IN once more. As the events have the same
    names again and again, they are compressed.
    """
    subject = device_subject(METRICS_TOPIC)
    wanted = replace(
        streams.kept(METRICS_STREAM, subjects=[METRICS_SUBJECT]),
        subject_transform=SubjectTransform(src=METRICS_SUBJECT, dest=subject),
        sources=[StreamSource(name=IN_STREAM, filter_subject=subject)],
        compression=StoreCompression.S2,
    )
    await streams.ensure(wanted)


class SiteMetrics:
    """Makes events of the newest samples, and publishes them."""

    def __init__(self, site: str, cores: int, store: Callable[[bytes], Awaitable[object]]) -> None:
        """`store` returns when the stream of metrics has an event."""
        self._site = site
        self._cores = cores
        self._store = store
        self._newest: dict[tuple[str, str], Sample] = {}
        """Entity and metric → the newest sample since the last events were made."""
        self._counted: dict[tuple[str, str], Sample] = {}
        """Entity and metric → the newest sample before that."""

    def see(self, samples: Iterable[Sample]) -> None:
        """Take in what was measured."""
        self._newest.update({(sample.entity, sample.metric): sample for sample in samples})

    async def keep(self, every_s: float) -> None:
        """Publish at every interval, until cancelled. Failures do not end it."""
        while True:
            await asyncio.sleep(every_s)
            try:
                for event in self.events(now()):
                    async with asyncio.timeout(STORED_S):
                        await self._store(json.dumps(event).encode())
            except (NatsError, OSError, TimeoutError) as error:
                log.warning("metrics were not published: %s: %s", type(error).__name__, error)

    def events(self, at: datetime) -> list[dict[str, Any]]:
        """Return an event for each entity that was measured since the last call, the site's own first."""
        measured = self._values()
        pods = [values for (kind, _), values in measured.items() if kind is EntityKind.PROCESS]
        if pods:
            node = measured.setdefault((EntityKind.SITE, ""), {})
            for name in ("memory_mb", "disk_io"):
                if known := [values[name] for values in pods if name in values]:
                    node[name] = round(sum(known), DIGITS)
            server = measured.get((EntityKind.PROCESS, "nats"), {})
            node |= {name: server[name] for name in ("network_io",) if name in server}
        kinds = list(ENTITY_TYPES)
        ordered = sorted(measured.items(), key=lambda one: (kinds.index(one[0][0]), one[0][1]))
        return [self._event(kind, name, at, values) for (kind, name), values in ordered]

    def _event(self, kind: EntityKind, name: str, at: datetime, values: Values) -> dict[str, Any]:
        names = {"entityType": ENTITY_TYPES[kind], "nodeID": self._site, "agentID": self._site}
        if kind is EntityKind.LINK:
            names["peerID"] = name
        elif kind is not EntityKind.SITE:
            names |= {"podName": name, "podNamespace": NAMESPACE}
        return {**names, "time": at.isoformat(), **values}

    def _values(self) -> dict[tuple[EntityKind, str], Values]:
        """Return kind and name of each entity → its metrics. It counts as measured from now on."""
        newest, before = self._newest, self._counted
        self._newest, self._counted = {}, newest
        samples: defaultdict[str, dict[str, float]] = defaultdict(dict)
        rates: defaultdict[str, dict[str, float]] = defaultdict(dict)
        for (entity, metric), sample in newest.items():
            samples[entity][metric] = sample.value
            if (rate := _rate(before.get((entity, metric)), sample)) is not None:
                rates[entity][metric] = rate
        found: dict[tuple[EntityKind, str], Values] = {}
        for entity in samples:
            kind, _, name = entity.partition(":")
            if kind in ENTITY_TYPES and (values := self._of(kind, samples[entity], rates[entity])):
                found[EntityKind(kind), name.removeprefix("engine.")] = values
        return found

    def _of(self, kind: str, samples: Mapping[str, float], rates: Mapping[str, float]) -> Values:
        """Return the metrics of one entity."""
        found: Values = {}
        for each in (metric for metric in SITE_METRICS if metric.entity == kind):
            measured = rates if each.per_second else samples
            if all(name in measured for name in each.samples):
                found[each.name] = self._scaled(each, sum(measured[name] for name in each.samples))
        return found

    def _scaled(self, metric: SiteMetric, value: float) -> float:
        return round(value * metric.factor / (self._cores if metric.per_core else 1), DIGITS)


def _rate(before: Sample | None, sample: Sample) -> float | None:
    """Return how fast a counter grows. None if it is new, or has begun again."""
    if before is None or sample.at <= before.at or sample.value < before.value:
        return None
    return (sample.value - before.value) / (sample.at - before.at)
