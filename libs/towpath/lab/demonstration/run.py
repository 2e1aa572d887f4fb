"""Play a demonstration's scenario on a mesh that is up, and collect what its report and its page tell."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from towpath.contracts.scenario import Scenario
from towpath.lab.demonstration.report import DemonstrationReport
from towpath.lab.demonstration.scenario import DemonstrationOptions
from towpath.lab.harness.observer import ReceivedResult
from towpath.lab.harness.stage import Say, Stage
from towpath.lab.scenarios.course import received
from towpath.lab.scenarios.playing import Played, play_described
from towpath.reports.asking import migration_facts
from towpath.reports.facts import MigrationFacts


@dataclass(frozen=True)
class Outcome:
    """The report of a run, and the data of its picture and page."""

    report: DemonstrationReport
    played: Played
    moving_job: str
    moving: list[ReceivedResult]
    """Results of the moving job."""
    passing: list[ReceivedResult]
    """Results of the cleaning jobs."""
    moves: list[MigrationFacts]


async def demonstrate(
    stage: Stage,
    options: DemonstrationOptions,
    scenario: Scenario,
    output: Path,
    say: Say,
    *,
    put_back: bool = False,
) -> Outcome:
    """Play a scenario that was made with these options; `output` gets its journal. Raises `TowpathError`."""
    played = await play_described(stage, scenario, output, say=say, put_back=put_back)
    moving = received(played.lines, options.moving_job)
    passing = received(played.lines, *options.cleaning_jobs)
    report = DemonstrationReport.of(played.report, passing, moving)
    operations = [move.operation for move in report.migrations if move.operation is not None]
    moves = [await migration_facts(stage.bus, operation) for operation in operations]
    return Outcome(report, played, options.moving_job, moving, passing, moves)
