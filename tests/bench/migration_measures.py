"""Figures of a course: the cost of its migrations, and their effects on subscribers. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np
from figures import Value, rounded
from migration_course import Course, Move
from migration_usage import SERVICES, cpu_s, memory_mb

TOTAL, DOWNTIME, GAP, USUAL = "total, s", "downtime, s", "largest gap, s", "usual interval, s"
LARGEST_TOTAL, GAP_IN_INTERVALS = "largest total, s", "largest gap ÷ usual interval"
LOST, REPEATED, WRONG, DISORDERED = "lost", "repeated", "wrong", "out of order"
COMPARED = (TOTAL, DOWNTIME, GAP)
"""Figures that are compared with those of another strategy."""


def costs(course: Course) -> dict[str, Value]:
    """Total and downtime as the mesh reports them, the largest gap as the subscriber saw it."""
    totals = [move.view.figures.total_s for move in course.moves if move.completed and move.view.figures]
    downtimes = [d for move in course.moves if (d := _downtime_s(move)) is not None]
    gap, usual = largest_gap_s(course), course.arrivals.usual_interval_s(course.quiet, course.size_s)
    return {
        "migrations": len(course.moves),
        "rolled back": sum(not move.completed for move in course.moves),
        TOTAL: rounded(median(totals)) if totals else None,
        LARGEST_TOTAL: rounded(max(totals, default=None)),
        DOWNTIME: rounded(median(downtimes)) if downtimes else None,
        GAP: rounded(gap),
        USUAL: rounded(usual),
        GAP_IN_INTERVALS: rounded(gap / usual, 2) if gap is not None and usual else None,
    }


def gaps_s(course: Course) -> list[float | None]:
    """The longest time without results around each migration, until half-way to the next one."""
    spans = zip(course.during, course.after, strict=True)
    return [course.arrivals.largest_gap_s(begin, until) for (begin, _), (_, until) in spans]


def largest_gap_s(course: Course) -> float | None:
    """The longest of all; none if any is unknown."""
    gaps = gaps_s(course)
    known = [gap for gap in gaps if gap is not None]
    return max(known) if known and len(known) == len(gaps) else None


def flow(course: Course) -> dict[str, Value]:
    """Latency and throughput of results before, during and after."""
    phases = {"before": course.before, "during": course.during, "after": course.after}
    latencies: dict[str, Value] = {
        f"latency {phase}, {name}, s": rounded(course.arrivals.latency(intervals, percent))
        for phase, intervals in phases.items()
        for name, percent in (("median", 50), ("p95", 95))
    }
    rates: dict[str, Value] = {
        f"throughput {phase}, events/s": rounded(course.arrivals.events_per_s(intervals), 0)
        for phase, intervals in phases.items()
    }
    return {**latencies, **rates}


def carried(course: Course) -> dict[str, Value]:
    """Bytes of state that moved, in the median migration."""
    found = [move.view.figures for move in course.moves if move.completed and move.view.figures]
    later = [sum(figures.round_bytes[1:]) for figures in found if figures.round_bytes]
    return {
        "state moved, bytes": round(median(f.state_bytes for f in found)) if found else None,
        "of it after the first round": round(median(later)) if later else None,
    }


def resources(course: Course) -> dict[str, Value]:
    """CPU and memory of both sites, and of the services that all sites share."""
    figures: dict[str, Value] = {}
    for group in sorted(course.usage, key=lambda name: (name == SERVICES, name)):
        samples = course.usage[group]
        for phase, intervals in (("before", course.before), ("during", course.during)):
            seconds = sum(end - begin for begin, end in intervals)
            cores = cpu_s(samples, intervals) / seconds if seconds else None
            figures[f"{group}: CPU {phase}, cores"] = rounded(cores, 2)
        each = cpu_s(samples, course.during) / len(course.moves) if course.moves else None
        figures[f"{group}: CPU of a migration, s"] = rounded(each, 2)
        for phase, intervals in (("before", course.before), ("during", course.during)):
            figures[f"{group}: memory {phase}, MB"] = rounded(memory_mb(samples, intervals), 0)
    return figures


def completeness(course: Course) -> dict[str, Value]:
    """The checker's verdict over all of the course."""
    verdict = course.verdict
    return {
        "results": verdict.results,
        LOST: verdict.lost,
        REPEATED: verdict.duplicated,
        WRONG: verdict.wrong + verdict.unexpected,
        DISORDERED: verdict.out_of_order,
    }


def against(figures: dict[str, Value], reference: dict[str, Value], name: str) -> dict[str, Value]:
    """Return the ratios of migration costs to those of another case of the same run."""
    return {f"{title} ÷ {name}": ratio(figures.get(title), reference.get(title)) for title in COMPARED}


def ratio(value: Value, reference: Value) -> float | None:
    """One figure divided by another; none unless both are numbers, and the second is not zero."""
    if not isinstance(value, int | float) or not isinstance(reference, int | float) or not reference:
        return None
    return rounded(value / reference, 2)


def raw(course: Course) -> dict[str, Any]:
    """Return each migration with its measurements, for the JSON."""
    gaps = gaps_s(course)
    return {
        "job": course.job.model_dump(mode="json"),
        "load": {"sent": course.sent.sent, "behind_s": rounded(course.sent.behind_s)},
        "verdict": {kind: texts for kind, texts in course.verdict.examples.items() if texts},
        "moves": [_move(move, gap) for move, gap in zip(course.moves, gaps, strict=True)],
        "results_per_s": per_second(course),
    }


def per_second(course: Course) -> list[list[int]]:
    """For each migration: results in each second, from before it began until after it ended."""
    counts: list[list[int]] = []
    for (first, _), (_, last) in zip(course.before, course.after, strict=True):
        edges = np.arange(first, last + 1.0)
        counts.append(np.histogram(course.arrivals.received, edges)[0].tolist())
    return counts


def _downtime_s(move: Move) -> float | None:
    return move.view.figures.downtime_s if move.completed and move.view.figures else None


def _move(move: Move, gap_s: float | None) -> dict[str, Any]:
    view = move.view
    begin = view.begun_at
    return {
        "strategy": move.wish.strategy.value,
        "check": move.wish.check.value,
        "factor": move.wish.factor,
        "source": view.source,
        "target": view.target,
        "state": view.state.value,
        "note": view.note,
        "begun_at": begin.isoformat(),
        "largest_gap_s": rounded(gap_s),
        "figures": None if view.figures is None else view.figures.model_dump(mode="json"),
        "steps_s": [
            [entry.step, entry.phase, rounded((entry.at - begin).total_seconds())] for entry in view.journal
        ],
    }


def totals_s(courses: Sequence[Course]) -> list[float]:
    """Total times of all migrations that were completed."""
    return [m.view.figures.total_s for c in courses for m in c.moves if m.completed and m.view.figures]
