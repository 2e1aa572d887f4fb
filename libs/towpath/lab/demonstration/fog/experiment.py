"""The two scenarios, one after the other, over the same events at each of several input rates."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from towpath.checker.collector import ResultCollectors
from towpath.checker.judging import judge
from towpath.checker.observation import ReceivedMessage
from towpath.checker.truth import WindowTruth
from towpath.contracts.job import JobStatus
from towpath.lab.demonstration.fog import links, pipelines
from towpath.lab.demonstration.fog.arrangement import (
    Arrangement,
    arranged_pipeline,
    delays_topic,
    hourly_topic,
    job_site,
)
from towpath.lab.demonstration.fog.load import Portion
from towpath.lab.demonstration.fog.rates import STAGES, stage_rate
from towpath.lab.demonstration.fog.report import ArrangementReport, TurnReport
from towpath.lab.demonstration.fog.truth import of_departures
from towpath.lab.demonstration.pipeline import CLOUD, DEVICE_TOPIC, EDGES
from towpath.lab.demonstration.truth import Expected, identity_in_pipeline
from towpath.lab.harness.load import send
from towpath.lab.harness.receiving import Fresh, subscribers, together, until, until_quiet
from towpath.lab.harness.report import Judgement
from towpath.lab.harness.stage import Say, Stage

REPORTS_WITHIN_S = 60.0
"""Seconds to wait for the sites' reports on events whose results have come. Sites report every second."""


@dataclass(frozen=True)
class Turn:
    """One input rate: the events of the devices of all edges, and the expected results."""

    rate: float
    portions: Sequence[Portion]
    truth: WindowTruth


@dataclass
class ArrangementRun:
    """One scenario over all turns. `say` shows people what is under way."""

    stage: Stage
    scenario: Arrangement
    warm_up: Turn
    turns: Sequence[Turn]
    watermark_s: float
    trigger_s: float
    settle_s: float
    """Seconds that results may take after the last event of a turn."""
    say: Say

    async def run(self) -> ArrangementReport:
        """Deploy, run every turn, delete. Raises `TowpathError` if a command is refused or fails."""
        spec = arranged_pipeline(self.scenario, EDGES, self.watermark_s, self.trigger_s)
        self.say(f"{self.scenario}: applying {len(spec.jobs)} jobs")
        begun = time.monotonic()
        await pipelines.apply(self.stage.bus, spec)
        deploy_s = time.monotonic() - begun
        self.say(f"{self.scenario}: {len(spec.jobs)} jobs run after {deploy_s:.1f} s")
        async with subscribers(self.stage.mesh, self._topics(), identity_in_pipeline) as seen:
            await self._turn(self.warm_up, seen)
            turns = [await self._turn(turn, seen) for turn in self.turns]
            await until_quiet(seen, 1.5 * self.trigger_s)
            observations = of_departures(seen.observations)
        turns_judged = (self.warm_up, *self.turns)
        truth: Expected = {i: values for turn in turns_judged for i, values in turn.truth.items()}
        verdict = await asyncio.to_thread(judge, truth, observations)
        begun = time.monotonic()
        await pipelines.delete(self.stage.bus, spec.name)
        return ArrangementReport(
            scenario=self.scenario,
            jobs=len(spec.jobs),
            deploy_s=round(deploy_s, 2),
            delete_s=round(time.monotonic() - begun, 2),
            turns=turns,
            judgement=Judgement.of(verdict),
        )

    def _topics(self) -> list[tuple[str, str]]:
        """Sites and topics of the results of jobs 3 and 4, and of the job that merges."""
        third = [(job_site(self.scenario, edge), hourly_topic(edge)) for edge in EDGES]
        return third + [(CLOUD, delays_topic(of)) for of in (*EDGES, "all")]

    async def _turn(self, turn: Turn, seen: ResultCollectors) -> TurnReport:
        crossed_before, before = await links.passed(self.stage.bus), await self._statuses()
        fresh = Fresh(seen)
        begun_at = time.time()
        sites = self.stage.mesh.site
        await together(*(send(sites(p.edge), DEVICE_TOPIC, p.events, p.rate) for p in turn.portions))
        missing = {*turn.truth}
        observations: list[ReceivedMessage] = []

        def complete() -> bool:
            observations.extend(came := fresh.take())
            missing.difference_update(each.identity for each in came)
            return not missing

        whole = await until(seen, complete, self.settle_s)
        if not whole:
            self.say(f"{self.scenario}: not all results came within {self.settle_s:g} s")
        report = await self._measured(turn, begun_at, observations, before, crossed_before)
        rates = ", ".join(f"{stage} {rate.rate:.0f}/s" for stage, rate in report.stages.items())
        warming = "warming up, " if turn is self.warm_up else ""
        self.say(f"{self.scenario}: {warming}{turn.rate:g} events/s at each edge: {rates}")
        return report

    async def _measured(
        self,
        turn: Turn,
        begun_at: float,
        observations: list[ReceivedMessage],
        before: dict[str, JobStatus],
        crossed_before: dict[str, int],
    ) -> TurnReport:
        """Return the figures of a turn, as soon as the jobs' own reports cover it, or are late."""
        end = time.monotonic() + REPORTS_WITHIN_S
        while True:
            after = await self._statuses()
            progress = {job: (before[job], after[job]) for job in before.keys() & after.keys()}
            stages = {
                stage: stage_rate(stage, EDGES, begun_at, turn.truth, observations, progress)
                for stage in STAGES
            }
            if all(each.reported_events >= each.events for each in stages.values()) or time.monotonic() > end:
                break
            await asyncio.sleep(0.5)
        return TurnReport(
            rate=turn.rate,
            sent=sum(len(portion.events) for portion in turn.portions),
            stages=stages,
            crossed=links.crossed(crossed_before, await links.passed(self.stage.bus), CLOUD),
        )

    async def _statuses(self) -> dict[str, JobStatus]:
        """Job → what its site last reported."""
        views = await self.stage.ask_jobs()
        return {view.spec.name: view.status for view in views if view.status is not None}
