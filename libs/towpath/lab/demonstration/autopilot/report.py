"""The report of both days: `demo/autopilot.json`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from towpath.contracts.autopilot import Decision
from towpath.contracts.message import Model
from towpath.lab.harness.observer import ReceivedResult
from towpath.lab.harness.report import Judgement, MoveReport


class JobDay(Model):
    """A job on one day."""

    job: str
    judgement: Judgement
    late_s: float
    """Seconds in which an event waited longer for its result than the goal says."""
    longest_s: float
    """Longest time from an event to its result."""


class DayReport(Model):
    """One day."""

    autopilot: bool
    events: int
    jobs: list[JobDay]
    moves: list[MoveReport]
    decisions: list[Decision]
    problems: list[str]

    @property
    def late_s(self) -> float:
        """Job-seconds of broken goals."""
        return sum(job.late_s for job in self.jobs)

    @property
    def clean(self) -> bool:
        """True if every result came once, and right."""
        return not self.problems and all(job.judgement.exact for job in self.jobs)


class AutopilotReport(Model):
    """The same day with the autopilot and without it."""

    goal_s: float
    seconds_sent: float
    days: list[DayReport]
    seconds: float = 0.0

    @property
    def clean(self) -> bool:
        """True if both days are."""
        return all(day.clean for day in self.days)


def late_seconds(results: Iterable[ReceivedResult], goal_s: float) -> float:
    """Return how long any event waited longer than the goal: the union of the times in which one did."""
    late = sorted(
        (each.received_at - each.latency_s + goal_s, each.received_at)
        for each in results
        if each.latency_s > goal_s
    )
    total, until = 0.0, 0.0
    for begin, end in late:
        total += max(end - max(begin, until), 0.0)
        until = max(until, end)
    return total


def longest(results: Sequence[ReceivedResult]) -> float:
    """Return the longest time from an event to its result, seconds."""
    return max((each.latency_s for each in results), default=0.0)
