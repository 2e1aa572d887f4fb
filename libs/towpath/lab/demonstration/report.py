"""The reports of demonstrations, such as `demo/report.json`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np

from towpath.contracts.message import Model
from towpath.lab.demonstration.pipeline import LEAVING_JOB
from towpath.lab.harness.journal import Entry, of
from towpath.lab.harness.observer import ReceivedResult
from towpath.lab.harness.report import Findings, Judgement, MoveReport
from towpath.lab.scenarios.course import received
from towpath.lab.scenarios.playing import Played
from towpath.lab.scenarios.report import RunReport

GAP_S = 0.5
"""Results of one micro-batch come closer together than that."""


class Silences(Model):
    """The waits of the moving job's subscriber for the next result, in seconds."""

    usual_s: float
    """The median pause between two micro-batches' results, while the job did not move."""
    moving_s: float | None
    """The longest pause of those that a migration had a part in."""
    otherwise_s: float
    """The longest of the others."""

    @classmethod
    def of(cls, results: Sequence[ReceivedResult], moves: Sequence[MoveReport]) -> Silences | None:
        """Return the pauses between results; None if there were too few to tell."""
        times = sorted(result.received_at for result in results)
        pauses = [(a, b) for a, b in pairwise(times) if b - a >= GAP_S]
        spans = [(move.begun_at, move.ended_at) for move in moves if move.begun_at and move.ended_at]
        moving, others = [], []
        for a, b in pauses:
            is_moving = any(a < ended and b > begun for begun, ended in spans)
            (moving if is_moving else others).append(b - a)
        if not others:
            return None
        longest = round(max(moving), 2) if moving else None
        return cls(usual_s=round(median(others), 2), moving_s=longest, otherwise_s=round(max(others), 2))

    def __str__(self) -> str:
        moving = "none" if self.moving_s is None else f"{self.moving_s:.1f} s"
        return (
            f"longest time without a result: {moving} during moves, {self.otherwise_s:.1f} s otherwise "
            f"(usually {self.usual_s:.1f} s)"
        )


class DemonstrationReport(Findings):
    """The whole run."""

    events: int
    """Events that devices sent, malformed ones included."""
    events_per_s: float
    """While they were being sent."""
    expected_results: int
    """Of all jobs together, like `results`."""
    results: int
    rejected: int
    """Events that went to the dead-letter topics: cancelled and malformed ones."""
    latency_p50_s: float | None
    """Of cleaned events: from the site's broker to the subscriber."""
    latency_p99_s: float | None
    silences: Silences | None = None
    """Of the job that moves."""
    seconds: float
    """Of the whole run, start and stop of the mesh included."""
    migrations: list[MoveReport]
    problems: list[str] = []
    """Everything that was not as expected."""

    @property
    def clean(self) -> bool:
        """True if every result arrived exactly once and right, and all else went as expected."""
        return self.exact and self.results > 0 and not self.problems

    @classmethod
    def of(
        cls, run: RunReport, passing: Sequence[ReceivedResult], moving: Sequence[ReceivedResult] = ()
    ) -> DemonstrationReport:
        """Return the report of a run: of the cleaned events as they came, and the moving job's results."""
        judged = Judgement.together(run.verdicts.values())
        events = sum(load.sent for load in run.loads)
        seconds = max((load.seconds for load in run.loads), default=0.0)
        latencies = [result.latency_s for result in passing]
        return cls(
            events=events,
            events_per_s=round(events / seconds, 1) if seconds else 0.0,
            expected_results=judged.expected,
            latency_p50_s=_percentile(latencies, 50),
            latency_p99_s=_percentile(latencies, 99),
            silences=Silences.of(moving, run.migrations),
            seconds=run.seconds,
            migrations=run.migrations,
            problems=run.problems,
            **judged.model_dump(exclude={"expected"}),
        )


def _percentile(values: list[float], percent: float) -> float | None:
    return round(float(np.percentile(values, percent)), 3) if values else None


class EvacuationReport(Findings):
    """The report of a job that left a site which was lost."""

    move: MoveReport | None
    """The migration from the site that was lost. Null if it did not begin."""
    events: int
    expected_results: int
    results: int
    lost_after_s: float | None
    """Seconds from the end of the migration to the loss of the site."""
    results_afterwards: int
    """Results that came after the loss of the site."""
    problems: list[str] = []
    """Everything that was not as expected."""

    @property
    def clean(self) -> bool:
        """True if every result arrived exactly once and right, also after the loss."""
        return self.exact and self.results_afterwards > 0 and not self.problems

    @classmethod
    def of(cls, played: Played) -> EvacuationReport:
        """Return the report of a run of the evacuation."""
        run = played.report
        judged = Judgement.together(run.verdicts.values())
        move = next(iter(run.migrations), None)
        lost_at = next((line["at"] for line in of(played.lines, Entry.STEP) if _lost(line)), None)
        came = received(played.lines, LEAVING_JOB)
        ended_at = move.ended_at if move else None
        return cls(
            move=move,
            events=sum(load.acknowledged for load in run.loads),
            expected_results=judged.expected,
            lost_after_s=round(lost_at - ended_at, 3) if lost_at and ended_at else None,
            results_afterwards=sum(each.received_at > lost_at for each in came) if lost_at else 0,
            problems=run.problems,
            **judged.model_dump(exclude={"expected", "rejected"}),
        )


def _lost(line: dict[str, Any]) -> bool:
    return line["action"] == "node" and "error" not in line
