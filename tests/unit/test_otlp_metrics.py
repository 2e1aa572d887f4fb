"""Metrics sent by OTLP have the same names and labels as in Prometheus's text."""

from __future__ import annotations

import re
import time
from typing import Any

from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult, MetricsData, Sum

from towpath.collector.otlp import MetricExport
from towpath.contracts.metrics import Series
from towpath.contracts.metrics_table import METRICS_TABLE, EntityKind
from towpath.telemetry.exposition import exposition

Sent = set[tuple[str, frozenset[tuple[str, str]], float]]
"""Name, labels and value as Prometheus has them."""

SUFFIXES = {
    "s": "_seconds",
    "By": "_bytes",
    "1": "_ratio",
    "By/s": "_bytes_per_second",
    "/s": "_per_second",
    "": "",
}
"""Unit, without annotations in braces → suffix that an OpenTelemetry collector appends."""


class Receiver(MetricExporter):
    """Keeps what is exported, by the names that a collector's exporter for Prometheus would give."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: Sent = set()

    def export(self, metrics_data: MetricsData, timeout_millis: float = 0, **_: Any) -> MetricExportResult:
        self.sent = {
            point
            for resource in metrics_data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            for point in _points(metric)
        }
        return MetricExportResult.SUCCESS

    def shutdown(self, timeout_millis: float = 0, **_: Any) -> None:
        """Do nothing: nothing is open."""

    def force_flush(self, timeout_millis: float = 0) -> bool:
        return True


def _points(metric: Any) -> Sent:
    name = _prometheus_name(metric)
    return {(name, frozenset(point.attributes.items()), point.value) for point in metric.data.data_points}


def _prometheus_name(metric: Any) -> str:
    unit = SUFFIXES[re.sub(r"\{.*?\}", "", metric.unit)]
    total = "_total" if isinstance(metric.data, Sum) else ""
    return re.sub(r"[^A-Za-z0-9]+", "_", metric.name) + unit + total


def exposed(series: list[Series]) -> Sent:
    found: Sent = set()
    for line in exposition(series).decode().splitlines():
        if match := re.fullmatch(r"(\w+)\{(.*)\} (\S+)", line):
            labels = frozenset(re.findall(r'(\w+)="([^"]*)"', match[2]))
            found.add((match[1], labels, float(match[3])))
    return found


def of_everything() -> list[Series]:
    """A series of each metric of the table, and of one that a rule measured; each with its own value."""
    now = time.time()
    measured = [(m.name, m.entity, m.unit) for m in METRICS_TABLE] + [("rule.wait_s", EntityKind.RULE, "1")]
    return [
        Series(site="jfk", entity=f"{entity}:a/b", metric=name, unit=unit, points=[(now, float(number))])
        for number, (name, entity, unit) in enumerate(measured)
    ]


def test_metrics_when_sent_by_otlp_then_a_dashboard_finds_them_under_the_names_of_the_text() -> None:
    series = of_everything()
    receiver = Receiver()
    export = MetricExport(receiver)
    export.send(series)
    assert receiver.sent == exposed(series)
    assert len(receiver.sent) == len(METRICS_TABLE) + 1
    export.close()


def test_metrics_when_there_are_no_fresh_ones_any_more_then_nothing_old_is_sent_again() -> None:
    receiver = Receiver()
    export = MetricExport(receiver)
    export.send(of_everything())
    receiver.sent = set()
    export.send([])
    assert receiver.sent == set()
    export.close()
