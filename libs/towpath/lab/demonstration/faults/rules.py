"""The rules of the experiments: one measures micro-batches, others slow workers and sites down."""

from __future__ import annotations

from towpath.contracts.faults import AtPoint, DataPoint, Rule, RuleAction, Where

METRICS = PROCESSING, SCHEDULING, TOTAL, SIZE = (
    "batch_processing_s",
    "batch_scheduling_s",
    "batch_total_s",
    "batch_size_events",
)
"""Names of the metrics of a micro-batch."""

SLOW = "slow-"
"""Names of rules that slow something down begin so. What they slow down follows the last `-`."""

_DURATIONS = "event.durationMs"
_WORK = f"{_DURATIONS}.triggerExecution - {_DURATIONS}.latestOffset"
"""Without the wait for events."""


def batch_metrics(job: str) -> Rule:
    """Return the instrumentation rule: four metrics of each micro-batch of a job that found events.

    Processing time is what the tasks take (Spark's `addBatch`); scheduling delay is what else a micro-batch
    takes from its trigger on: planning, and the logs before and after; total delay is both.
    """
    values = {
        PROCESSING: f"double({_DURATIONS}.addBatch) / 1000.0",
        SCHEDULING: f"double({_WORK} - {_DURATIONS}.addBatch) / 1000.0",
        TOTAL: f"double({_WORK}) / 1000.0",
        SIZE: "event.numInputRows",
    }
    labels = {"batch": "{event.batchId}", "started_at": "{event.timestamp}"}
    return Rule(
        name="batch-metrics",
        description="Spark's own report of each micro-batch, as metrics.",
        event=AtPoint(point=DataPoint.ENGINE_PROGRESS),
        where=Where(job=job),
        condition="event.numInputRows > 0",
        actions=[
            RuleAction(
                fault="emit",
                parameters={"metric": name, "value": value, "labels": labels, "entity": job},
            )
            for name, value in values.items()
        ],
    )


def slow_worker(worker: str, site: str, every: int, delay_ms: float) -> Rule:
    """Return a rule that delays the Python workers of one Spark executor, with every Nth line."""
    return Rule(
        name=f"{SLOW}worker-{worker}",
        event=AtPoint(point=DataPoint.OPERATOR_EVENT),
        where=Where(site=site, worker=worker),
        every=every,
        actions=[RuleAction(fault="delay", parameters={"ms": delay_ms})],
    )


def slow_site(site: str, job: str, every: int, delay_ms: float) -> Rule:
    """Return a rule that delays every Nth event that a site reads for a job."""
    return Rule(
        name=f"{SLOW}{site}",
        event=AtPoint(point=DataPoint.SOURCE_READ),
        where=Where(site=site, job=job),
        every=every,
        actions=[RuleAction(fault="delay", parameters={"ms": delay_ms})],
    )
