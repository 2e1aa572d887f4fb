"""The departures pipeline, whose two sites are slowed down one by one around a handover."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from towpath.contracts.commands import StrategyName
from towpath.contracts.scenario import Collection, Scenario, Step
from towpath.lab.demonstration.faults.batches import batches_of, delays_of, marks_of
from towpath.lab.demonstration.faults.report import Batch, HandoverReport, MigrationStep
from towpath.lab.demonstration.faults.rules import METRICS, batch_metrics, slow_site
from towpath.lab.demonstration.pipeline import CLOUD, MOVING_JOB, edge_of
from towpath.lab.demonstration.run import Outcome, demonstrate
from towpath.lab.demonstration.scenario import DemonstrationOptions, has_moved, moving_scenario
from towpath.lab.harness.observer import ReceivedResult
from towpath.lab.harness.stage import Say, Stage

SOURCE = edge_of(MOVING_JOB)
CONFIRMED = "confirmed"


@dataclass(frozen=True)
class HandoverOptions:
    """The size of a run."""

    per_airport: int = 12_000
    """Departures of each airport."""
    rate: float = 150.0
    """Events per second at each airport. They must last until the last rule is unloaded."""
    every: int = 10
    """A delay with every Nth event that a site reads for the moving job."""
    delay_ms: float = 20.0
    step_s: float = 5.0
    """Seconds between one rule and the next, and between them and the handover."""
    move_at: float = 0.25
    """Share of the events after which the first rule is loaded."""

    @property
    def demonstration(self) -> DemonstrationOptions:
        """The size of the demonstration that is slowed down."""
        return DemonstrationOptions(
            per_airport=self.per_airport,
            rate=self.rate,
            strategy=StrategyName.HANDOVER,
            move_at=(self.move_at,),
        )


@dataclass(frozen=True)
class HandoverOutcome:
    """The report of a run, and the data of its picture."""

    report: HandoverReport
    moving: list[ReceivedResult]
    batches: dict[str, list[Batch]]
    """Site → micro-batches of the moving job there."""


def slowed_scenario(options: HandoverOptions) -> Scenario:
    """Return the demonstration with source and target slowed down before its job moves, until it has."""
    scenario = moving_scenario(options.demonstration)
    [move] = scenario.timeline
    begin, step_s = options.demonstration.moment(options.move_at), options.step_s
    rules = [slow_site(site, MOVING_JOB, options.every, options.delay_ms) for site in (SOURCE, CLOUD)]
    timeline = [
        Step(at=0.0, load=[batch_metrics(MOVING_JOB)]),
        *(Step(at=begin + n * step_s, load=[rule]) for n, rule in enumerate(rules)),
        move.model_copy(update={"at": begin + len(rules) * step_s}),
    ]
    for number, rule in enumerate(rules, 1):
        moved = has_moved(MOVING_JOB, begin + len(rules) * step_s, number * step_s)
        timeline.append(Step(on=moved, unload=[rule.name]))
    collect = Collection(metrics=[*METRICS], results=scenario.collect.results)
    return scenario.model_copy(update={"timeline": timeline, "collect": collect})


async def run_handover(stage: Stage, options: HandoverOptions, output: Path, say: Say) -> HandoverOutcome:
    """Run the experiment on a mesh that is up; `output` gets its journal. Raises `TowpathError`."""
    outcome = await demonstrate(stage, options.demonstration, slowed_scenario(options), output, say)
    batches = {site: batches_of(outcome.played.lines, site) for site in (SOURCE, CLOUD)}
    return HandoverOutcome(_report(options, outcome), outcome.moving, batches)


def _report(options: HandoverOptions, outcome: Outcome) -> HandoverReport:
    journal = [entry for facts in outcome.moves for entry in facts.view.journal]
    return HandoverReport(
        every=options.every,
        delay_ms=options.delay_ms,
        marks=marks_of(outcome.played.lines),
        steps=[MigrationStep(name=e.step, at=e.at.timestamp()) for e in journal if e.phase == CONFIRMED],
        delays=delays_of(outcome.played.report),
        pipeline=outcome.report,
    )
