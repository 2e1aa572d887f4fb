"""Write the newest values of all series in Prometheus's text format."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from towpath.contracts.metrics import Series
from towpath.contracts.metrics_table import MetricKind
from towpath.telemetry.exported_names import Exported, entity_labels, exported

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4

FRESH_S = 60.0
"""Age from which values are left out: their entity has ended or is out of reach."""

MIGRATION_FRESH_S = 3600.0
"""The same for migrations, which are measured once: long enough for a scrape every few minutes."""


def exposition(series: Iterable[Series], at: float | None = None) -> bytes:
    """Return the text for the newest points of `series` at the moment `at` (Unix seconds; None: now)."""
    registry = CollectorRegistry()
    registry.register(_Newest([*fresh_values(series, time.time() if at is None else at)]))
    return generate_latest(registry)


def fresh_values(series: Iterable[Series], at: float) -> Iterator[tuple[Exported, dict[str, str], float]]:
    """Yield metric, labels and value of each series' newest point that is not too old at `at`, Unix seconds.

    Series that have no name outside of Towpath are left out.
    """
    for each in series:
        metric = exported(each.metric)
        fresh_s = MIGRATION_FRESH_S if each.metric.startswith("migration.") else FRESH_S
        if metric is not None and each.points and at - each.points[-1][0] <= fresh_s:
            labels = {"site": each.site, **entity_labels(each.entity), **dict(metric.labels)}
            yield metric, labels, each.points[-1][1]


class _Newest(Collector):
    """Collector that gives the series to Prometheus's client library."""

    def __init__(self, values: list[tuple[Exported, dict[str, str], float]]) -> None:
        self._values = values

    def collect(self) -> Iterator[Metric]:
        """Yield families by name, each with its series."""
        families: dict[str, Metric] = {}
        for metric, labels, value in self._values:
            family = families.setdefault(metric.family, _family(metric))
            family.add_sample(metric.sample, labels, value)
        yield from (families[name] for name in sorted(families))


def _family(name: Exported) -> Metric:
    made = CounterMetricFamily if name.kind is MetricKind.COUNTER else GaugeMetricFamily
    return made(name.family, name.meaning)
