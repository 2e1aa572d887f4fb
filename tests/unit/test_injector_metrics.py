"""Metrics that the injector has heard, asked for piece by piece."""

from __future__ import annotations

from towpath.contracts.fault_commands import ListMetrics, MetricList
from towpath.contracts.message import now
from towpath.contracts.metrics import Metric
from towpath.lab.injector.metrics import Metrics


def values(found: MetricList) -> list[float]:
    return [kept.metric.value for kept in found.metrics]


async def hear(metrics: Metrics, *measured: float, name: str = "wait_s") -> None:
    for value in measured:
        await metrics.hear(Metric(site="jfk", entity="engine", name=name, value=value, at=now()))


async def test_metrics_when_more_came_than_one_answer_has_then_the_next_answers_have_the_rest() -> None:
    metrics = Metrics()
    await hear(metrics, 0)
    last = (await metrics.list_metrics(ListMetrics())).last
    await hear(metrics, *range(1, 6))
    await hear(metrics, 9, name="other_s")

    told: list[list[float]] = []
    while (found := await metrics.list_metrics(ListMetrics(after=last, limit=2, name="wait_s"))).metrics:
        told.append(values(found))
        last = found.last

    assert (told, last) == ([[1, 2], [3, 4], [5]], 7)


async def test_metrics_when_asked_for_the_first_time_then_are_the_newest() -> None:
    metrics = Metrics()
    await hear(metrics, *range(5))
    found = await metrics.list_metrics(ListMetrics(limit=2))
    assert (values(found), found.last) == ([3, 4], 5)
