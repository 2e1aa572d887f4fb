"""Send the newest values to an OpenTelemetry collector, if the environment names one."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import time
from collections.abc import Awaitable, Callable, Iterable

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricExporter, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import SERVICE_NAME, Resource

from towpath.contracts.metrics import Series
from towpath.contracts.metrics_table import MetricKind
from towpath.telemetry.exported_names import Exported
from towpath.telemetry.exposition import fresh_values

log = logging.getLogger(__name__)

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT")
"""Variables of OpenTelemetry that name the receiver."""

EXPORT_INTERVAL_S = 15.0
"""Between exports: as often as Prometheus asks by default."""

EXPORT_S = 10.0
"""Deadline for the receiver."""


async def export_metrics(newest: Callable[[], Awaitable[list[Series]]]) -> None:
    """Send what `newest` returns at every interval, until cancelled. Do nothing without a receiver."""
    if not any(os.environ.get(name) for name in ENDPOINTS):
        return
    export = MetricExport(OTLPMetricExporter(timeout=EXPORT_S))
    try:
        while True:
            try:
                await asyncio.to_thread(export.send, await newest())
            except Exception:
                log.exception("metrics could not be exported")
            await asyncio.sleep(EXPORT_INTERVAL_S)
    finally:
        await asyncio.to_thread(export.close)


class MetricExport:
    """Instruments that observe given values. Its methods block."""

    def __init__(self, exporter: MetricExporter) -> None:
        self._newest: dict[str, list[Observation]] = {}
        """Instrument → its next observations. An instrument without any sends nothing."""
        # It has no interval of its own: it sends when told to.
        self._reader = PeriodicExportingMetricReader(exporter, export_interval_millis=math.inf)
        self._provider = MeterProvider(
            [self._reader], Resource.create({SERVICE_NAME: "towpath"}), shutdown_on_exit=False
        )
        self._observed: set[str] = set()
        """Existing instruments. Each is created when it first has an observation."""

    def send(self, newest: Iterable[Series]) -> None:
        """Send the newest point of each series, unless it is too old."""
        self._newest = {}
        for metric, labels, value in fresh_values(newest, time.time()):
            self._instrument(metric)
            self._newest.setdefault(metric.name, []).append(Observation(value, labels))
        self._reader.collect(timeout_millis=EXPORT_S * 1000)

    def close(self) -> None:
        """Send no more."""
        self._newest = {}
        self._provider.shutdown(timeout_millis=EXPORT_S * 1000)

    def _instrument(self, metric: Exported) -> None:
        """Create the instrument of the metric if it does not exist."""
        if metric.name in self._observed:
            return
        self._observed.add(metric.name)

        def observed(_: CallbackOptions) -> list[Observation]:
            return self._newest.get(metric.name, [])

        meter = self._provider.get_meter("towpath.collector")
        counts = metric.kind is MetricKind.COUNTER
        make = meter.create_observable_counter if counts else meter.create_observable_gauge
        make(metric.name, [observed], unit=metric.unit, description=metric.meaning)
