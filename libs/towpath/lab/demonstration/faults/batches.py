"""Micro-batches and marks from the journal of a run, and the means of the phases between the marks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from statistics import fmean
from typing import Any

from towpath.lab.demonstration.faults.report import Batch, Mark, StaircasePhase
from towpath.lab.demonstration.faults.rules import PROCESSING, SCHEDULING, SIZE, SLOW, TOTAL
from towpath.lab.harness.journal import Entry, of
from towpath.lab.scenarios.report import RunReport

Lines = list[dict[str, Any]]
"""Of a journal."""

SETTLE_S = 1.0
"""Seconds left out at the begin of each phase: rules reach processes within half a second, and a batch may be
under way."""


def marks_of(lines: Lines) -> list[Mark]:
    """Return the moments when rules that slow something down were loaded and unloaded."""
    return [
        Mark(at=line["at"], rule=rule, what=rule.rpartition("-")[2], loaded=line["kind"] == Entry.LOADED)
        for line in of(lines, Entry.LOADED, Entry.UNLOADED)
        for rule in line["rules"]
        if rule.startswith(SLOW)
    ]


def delays_of(report: RunReport) -> dict[str, int]:
    """Return, for each rule that slows something down, how often it acted."""
    return {rule.rule: rule.acted for rule in report.rules if rule.rule.startswith(SLOW)}


def during(lines: Lines) -> tuple[float, float]:
    """Return begin and end of the phase *during*, in Unix seconds."""
    begun = {line["phase"]: line["at"] for line in of(lines, Entry.PHASE)}
    return begun["during"], begun["after"]


def batches_of(lines: Lines, site: str | None = None) -> list[Batch]:
    """Return the micro-batches with all four metrics, in order, of one site or of all.

    One that was told twice counts once.
    """
    values: defaultdict[tuple[int, str], dict[str, float]] = defaultdict(dict)
    for line in of(lines, Entry.METRIC):
        labels = line.get("labels", {})
        if "batch" in labels and site in (None, line["site"]):
            values[int(labels["batch"]), labels["started_at"]][line["name"]] = line["value"]
    return [
        Batch(
            number=number,
            started_at=datetime.fromisoformat(started_at).timestamp(),
            events=int(told[SIZE]),
            processing_s=told[PROCESSING],
            scheduling_s=told[SCHEDULING],
            total_s=told[TOTAL],
        )
        for (number, started_at), told in sorted(values.items())
        if told.keys() >= {PROCESSING, SCHEDULING, SIZE, TOTAL}
    ]


def phases_of(
    batches: Sequence[Batch], marks: Sequence[Mark], begun_at: float, ended_at: float
) -> list[StaircasePhase]:
    """Return the means of each phase: before the first mark, between marks, after the last."""
    slow: list[str] = []
    phases: list[StaircasePhase] = []
    begins = [None, *marks]
    edges = [begun_at, *(mark.at for mark in marks), ended_at]
    for mark, (begin, end) in zip(begins, pairwise(edges), strict=True):
        if mark is not None:
            slow = [*slow, mark.what] if mark.loaded else [what for what in slow if what != mark.what]
        inside = [batch for batch in batches if begin + SETTLE_S <= batch.started_at < end]
        phases.append(_phase(slow, begin, end, inside))
    return phases


def _phase(slow: list[str], begin: float, end: float, batches: Sequence[Batch]) -> StaircasePhase:
    phase = StaircasePhase(slow=slow, begun_at=begin, ended_at=end, batches=len(batches))
    if not batches:
        return phase
    total_s = sum(batch.total_s for batch in batches)
    events = sum(batch.events for batch in batches)
    means = {
        "events_per_batch": events / len(batches),
        "processing_s": fmean(batch.processing_s for batch in batches),
        "scheduling_s": fmean(batch.scheduling_s for batch in batches),
        "total_s": total_s / len(batches),
        "throughput": events / total_s,
    }
    return phase.model_copy(update={name: round(value, 4) for name, value in means.items()})
