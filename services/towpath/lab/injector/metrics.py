"""The newest metrics of the mesh, in memory."""

from __future__ import annotations

from collections import deque
from itertools import islice

from towpath.contracts.fault_commands import KeptMetric, ListMetrics, MetricList
from towpath.contracts.metrics import Metric

KEPT = 10_000
"""Some megabytes. A client that wants a history collects it."""


class Metrics:
    """Keeps what was heard, numbered."""

    def __init__(self) -> None:
        self._kept: deque[KeptMetric] = deque(maxlen=KEPT)
        self._last = 0

    async def hear(self, metric: Metric) -> None:
        """Keep one more; the oldest goes."""
        self._last += 1
        self._kept.append(KeptMetric(serial=self._last, metric=metric))

    async def list_metrics(self, command: ListMetrics) -> MetricList:
        """See `ListMetrics`."""
        kept = self._kept if command.after else reversed(self._kept)
        found = [*islice((each for each in kept if _wanted(each, command)), command.limit)]
        if not command.after:
            return MetricList(metrics=found[::-1], last=self._last)
        is_cut = len(found) == command.limit
        return MetricList(metrics=found, last=found[-1].serial if is_cut else self._last)


def _wanted(kept: KeptMetric, command: ListMetrics) -> bool:
    metric = kept.metric
    return (
        kept.serial > command.after
        and command.name in (None, metric.name)
        and command.entity in (None, metric.entity)
        and command.site in (None, metric.site)
    )
