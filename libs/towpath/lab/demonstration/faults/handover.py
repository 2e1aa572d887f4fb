"""The departures pipeline, whose two sites are slowed down one by one around a handover."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from towpath.contracts.commands import OperationView, StrategyName
from towpath.lab.demonstration import run
from towpath.lab.demonstration.faults.batches import batches_of
from towpath.lab.demonstration.faults.injection import Injection, injection
from towpath.lab.demonstration.faults.report import Batch, HandoverReport, MigrationStep
from towpath.lab.demonstration.faults.rules import batch_metrics, slow_site
from towpath.lab.demonstration.pipeline import CLOUD, MOVING_JOB
from towpath.lab.harness.observer import ReceivedResult
from towpath.lab.harness.stage import Say, Stage

SOURCE = MOVING_JOB.rsplit("-", 1)[1]
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
    trigger_s: float = 3.0


@dataclass
class SlowedMove(run.Demonstration):
    """A demonstration whose sites are slow while its job moves."""

    injected: Injection | None = None
    faults: HandoverOptions = field(default_factory=HandoverOptions)
    moves: list[OperationView] = field(default_factory=list)

    async def migrate(self, job: str, to: str) -> OperationView:
        """Slow source and target down, move the job, and end the delays. Raises `TowpathError`."""
        assert self.injected is not None
        faults = self.faults
        rules = {site: slow_site(site, job, faults.every, faults.delay_ms) for site in (SOURCE, to)}
        for site, rule in rules.items():
            self.say(f"slowing {site} down")
            await self.injected.rules.load([rule])
            await asyncio.sleep(faults.step_s)
        view = await super().migrate(job, to)
        self.moves.append(view)
        for site, rule in rules.items():
            await asyncio.sleep(faults.step_s)
            self.say(f"{site} is as fast as before")
            await self.injected.rules.unload([rule.name])
        return view


@dataclass(frozen=True)
class HandoverOutcome:
    """The report of a run, and the data of its picture."""

    report: HandoverReport
    moving: list[ReceivedResult]
    batches: dict[str, list[Batch]]
    """Site → micro-batches of the moving job there."""


async def run_handover(stage: Stage, options: HandoverOptions, say: Say) -> HandoverOutcome:
    """Run the experiment on a mesh that is up. Raises `TowpathError` if a command is refused or fails."""
    size = run.DemonstrationOptions(
        per_airport=options.per_airport,
        rate=options.rate,
        strategy=StrategyName.HANDOVER,
        move_at=(options.move_at,),
        trigger_s=options.trigger_s,
    )
    async with injection(stage) as injected:
        await injected.rules.load([batch_metrics(MOVING_JOB)])
        demonstration = SlowedMove(stage, size, say, injected=injected, faults=options)
        outcome = await demonstration.run()
    report = HandoverReport(
        every=options.every,
        delay_ms=options.delay_ms,
        marks=injected.marks,
        steps=[
            MigrationStep(name=entry.step, at=entry.at.timestamp())
            for view in demonstration.moves
            for entry in view.journal
            if entry.phase == CONFIRMED
        ],
        delays=injected.delays,
        pipeline=outcome.report,
    )
    batches = {
        site: batches_of(metric for metric in injected.metrics if metric.site == site)
        for site in (SOURCE, CLOUD)
    }
    return HandoverOutcome(report, outcome.moving, batches)
