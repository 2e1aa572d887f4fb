"""Spark's report of a micro-batch, read from its JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from towpath.engines.spark.layout import by_input
from towpath.hooks.points import Items
from towpath.operators.rejections import counts_of

PHASES = {
    "latest_offset": "latestOffset",
    "query_planning": "queryPlanning",
    "add_batch": "addBatch",
    "wal_commit": "walCommit",
    "commit_offsets": "commitOffsets",
}
"""Last part of a metric `job.batch.phase.…` → Spark's name for it."""

_NO_WATERMARK = datetime(1970, 1, 1, tzinfo=UTC)
"""The watermark that Spark writes before a query has seen any event time."""


@dataclass(frozen=True)
class BatchReport:
    """A micro-batch that is committed."""

    batch: int
    begun_ns: int
    """Start, Unix nanoseconds, to the millisecond: the end of the wait for its events."""
    duration_s: float
    """From then to its commit."""
    events: int
    """Events read. An event that several branches of a plan read counts once."""
    after: dict[str, int]
    """Input → serial number behind which it began. An input's first micro-batch has none."""
    through: dict[str, int]
    """Input → serial number up to which it read."""
    phases: dict[str, float]
    """Part of the work → seconds, by the names of `PHASES`."""
    watermark: datetime | None
    state_rows: int | None
    """None for a job that keeps no state."""
    state_bytes: int | None
    steps: dict[str, int] = field(default_factory=dict)
    """Of a chain: step → events that reached it."""

    @property
    def ended_ns(self) -> int:
        """Time of its commit, Unix nanoseconds."""
        return self.begun_ns + round(self.duration_s * 1e9)

    @classmethod
    def of(
        cls, progress: dict[str, Any], inputs: Sequence[str], steps: Sequence[str] = ()
    ) -> BatchReport | None:
        """Read a report. `inputs` and `steps` are the job's, in the order of its plan.

        Returns None for a trigger that found nothing to do: it ran no micro-batch.
        """
        durations, state = progress["durationMs"], progress.get("stateOperators") or []
        if "addBatch" not in durations:
            return None
        after = serials(progress["sources"], "startOffset", inputs)
        through = serials(progress["sources"], "endOffset", inputs)
        counts = counts_of(progress.get("observedMetrics") or {})
        return cls(
            batch=progress["batchId"],
            begun_ns=_ns(datetime.fromisoformat(progress["timestamp"])) + waiting_ms(progress) * 1_000_000,
            duration_s=working_ms(progress) / 1000,
            events=_events(progress["sources"], inputs, after, through),
            after=after,
            through=through,
            phases={ours: durations[name] / 1000 for ours, name in PHASES.items() if name in durations},
            watermark=_watermark(progress.get("eventTime") or {}),
            state_rows=sum(operator["numRowsTotal"] for operator in state) if state else None,
            state_bytes=sum(operator["memoryUsedBytes"] for operator in state) if state else None,
            steps={steps[n]: count for n, count in counts.items()} if steps else {},
        )


def waiting_ms(progress: dict[str, Any]) -> int:
    """Return how long the sources took to plan. Nearly all of it is waiting, see `Pace`."""
    return progress["durationMs"].get("latestOffset", 0)


def working_ms(progress: dict[str, Any]) -> int:
    """Return how long a micro-batch took, without the wait for its events."""
    return progress["durationMs"].get("triggerExecution", 0) - waiting_ms(progress)


def serials(sources: Sequence[dict[str, Any]], member: str, inputs: Sequence[str]) -> dict[str, int]:
    """Return input → serial number, from the offsets that a report has under `member`."""
    offsets = [source.get(member) for source in sources]
    return by_input(inputs, [json.loads(o) if isinstance(o, str) else o for o in offsets])


def _events(
    sources: Sequence[dict[str, Any]], inputs: Sequence[str], after: dict[str, int], through: dict[str, int]
) -> int:
    # As in `by_input`: a plan with several branches reads all inputs of a branch in order.
    counts = [source.get("numInputRows", 0) for source in sources]
    read = {name: max(counts[place :: len(inputs)], default=0) for place, name in enumerate(inputs)}
    # The first micro-batch after a start may have older events as well, recalled only for their times.
    news = {name: through[name] - after[name] for name in after.keys() & through.keys()}
    return sum(min(count, news.get(name, count)) for name, count in read.items())


def _watermark(event_time: dict[str, str]) -> datetime | None:
    text = event_time.get("watermark")
    watermark = datetime.fromisoformat(text) if text else _NO_WATERMARK
    return watermark if watermark > _NO_WATERMARK else None


def _ns(time: datetime) -> int:
    return round(time.timestamp() * 1000) * 1_000_000


def _no_fields(report: dict[str, Any]) -> dict[str, Any]:
    return {}


def _unchanged(report: dict[str, Any], payload: bytes) -> dict[str, Any]:
    return report


REPORTS: Items[dict[str, Any]] = Items(
    payload=lambda report: json.dumps(report).encode(), fields=_no_fields, with_payload=_unchanged
)
"""Fields of Spark's reports that fault rules see. Rules can measure a report, and not change it."""
