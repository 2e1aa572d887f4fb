"""Play the day on a mesh that is up, with the autopilot or without it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from towpath.contracts.autopilot import Decision, ShowAutopilot
from towpath.contracts.commands import ListOperations, OperationKind
from towpath.lab.demonstration.autopilot.day import GOAL_S, PLACES, day_scenario
from towpath.lab.demonstration.autopilot.report import DayReport, JobDay, late_seconds, longest
from towpath.lab.harness.journal import Entry, of
from towpath.lab.harness.observer import ReceivedResult
from towpath.lab.harness.report import MoveReport
from towpath.lab.harness.stage import ASK_S, ATTEMPT_S, Say, Stage
from towpath.lab.scenarios.course import received
from towpath.lab.scenarios.playing import Played, play_described

MOST_DECISIONS = 200

WINDOWED = "hourly"
"""The job whose results wait for their windows: when they come says nothing about lateness."""


@dataclass(frozen=True)
class Day:
    """The report of a day, and the data of its picture."""

    report: DayReport
    begun_at: float
    """Unix seconds, when the timeline began."""
    results: Mapping[str, list[ReceivedResult]]


async def live_through(stage: Stage, seconds: float, output: Path, say: Say, *, autopilot: bool) -> Day:
    """Play the day. Raises `TowpathError`."""
    scenario = day_scenario(seconds, autopilot=autopilot)
    played = await play_described(stage, scenario, output, say=say, put_back=False)
    results = {job: received(played.lines, job) for job in PLACES}
    decisions = await _decisions(stage) if autopilot else []
    report = DayReport(
        autopilot=autopilot,
        events=sum(load.acknowledged for load in played.report.loads),
        jobs=[_job(job, played, results[job]) for job in PLACES],
        moves=await _moves(stage),
        decisions=decisions,
        problems=played.report.problems,
    )
    return Day(report, _begun_at(played), results)


def _job(name: str, played: Played, results: list[ReceivedResult]) -> JobDay:
    timed = [] if name == WINDOWED else results
    return JobDay(
        job=name,
        judgement=played.report.verdicts[name],
        late_s=round(late_seconds(timed, GOAL_S), 1),
        longest_s=round(longest(timed), 1),
    )


def _begun_at(played: Played) -> float:
    line = next(line for line in of(played.lines, Entry.PHASE) if line["phase"] == "during")
    return line["at"]


async def _moves(stage: Stage) -> list[MoveReport]:
    asked = ListOperations(kind=OperationKind.MIGRATE, limit=MOST_DECISIONS)
    found = await stage.bus.request(asked, deadline_s=ASK_S, attempt_s=ATTEMPT_S)
    return [MoveReport.of(view) for view in reversed(found.operations)]


async def _decisions(stage: Stage) -> list[Decision]:
    asked = ShowAutopilot(limit=MOST_DECISIONS)
    found = await stage.bus.request(asked, deadline_s=ASK_S, attempt_s=ATTEMPT_S)
    return found.decisions[::-1]
