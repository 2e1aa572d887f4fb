"""Reports of micro-batches as Spark made them, of a job with a window over one of two topics of a stream."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from towpath.engine.batch_reports import BatchReport

INPUT = "jfk/site/a"

PROGRESS: list[dict[str, Any]] = [
    json.loads(line) for line in Path(__file__).with_name("spark_progress.jsonl").read_text().splitlines()
]
"""Reports of micro-batches 0 to 3; 2 had no events and closed windows."""


def idle(batch: int) -> dict[str, Any]:
    """Return the report of a trigger that found no events: it has the number of the next micro-batch."""
    durations = {"latestOffset": 204, "triggerExecution": 204}
    return {**PROGRESS[3], "batchId": batch, "numInputRows": 0, "durationMs": durations}


def reports() -> list[BatchReport]:
    found = [BatchReport.of(progress, [INPUT]) for progress in PROGRESS]
    return [report for report in found if report is not None]


def report(batch: int, **changes: Any) -> BatchReport:
    return replace(reports()[1], batch=batch, **changes)
