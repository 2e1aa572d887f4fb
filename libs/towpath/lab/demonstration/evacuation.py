"""A job moves out of a site that is lost right afterwards with everything on it: no result is missing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from towpath.contracts.commands import OperationView
from towpath.contracts.job import Input, JobSpec, Output
from towpath.lab.demonstration.pipeline import hourly, waiting_s
from towpath.lab.demonstration.run import Demonstration
from towpath.lab.harness.load import send
from towpath.lab.harness.observer import ObservedJob, observed_job
from towpath.lab.harness.report import Findings, MoveReport, findings
from towpath.lab.workload.departures import closing_event, departures
from towpath.lab.workload.replay import ReplayReport

JOB = "leaving"
DEVICE_TOPIC, RESULT_TOPIC = "site/leaving", "departures/leaving"
TRIGGER_S = 1.0
SETTLE_S = 90.0


class EvacuationReport(Findings):
    """The report of an evacuation."""

    move: MoveReport
    """The migration from the site that was lost."""
    events: int
    expected_results: int
    results: int
    lost_after_s: float
    """Seconds from the end of the migration to the loss of the site."""
    results_afterwards: int
    """Results that came after the loss of the site."""

    @property
    def clean(self) -> bool:
        """True if every result arrived exactly once and right, also after the loss."""
        return self.exact and self.results_afterwards > 0


@dataclass
class Evacuation:
    """A job reads at the site of its devices, runs at a second and moves to a third; the second is lost."""

    demonstration: Demonstration
    """It moves the job, on its stage."""
    lose: Callable[[], Awaitable[None]]
    """Loses the site that the job leaves."""
    devices: str
    source: str
    target: str
    events: int = 3000
    """Real departures of the airport of `devices`."""
    rate: float = 100.0
    """Events per second."""
    move_at: float = 0.35
    """Share of the events after which the job moves."""
    _sent: asyncio.Event = field(default_factory=asyncio.Event)
    _ended_at: float = 0.0
    _lost_at: float = 0.0

    async def run(self) -> EvacuationReport:
        """Run everything in order. Raises `TowpathError` if a command is refused or fails."""
        async with observed_job(self.demonstration.stage, self._spec()) as job:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._replay())
                moving = group.create_task(self._leave())
            await job.drained(SETTLE_S)
            return await self._report(job, moving.result())

    def _spec(self) -> JobSpec:
        return JobSpec(
            name=JOB,
            site=self.source,
            inputs=[Input(site=self.devices, topic=DEVICE_TOPIC, start="latest")],
            output=Output(site=self.devices, topic=RESULT_TOPIC),
            operator=hourly(waiting_s(self.events)),
            trigger_s=TRIGGER_S,
        )

    async def _replay(self) -> None:
        airport = self.devices.upper()
        sent = [event.payload for event in (*departures(airport, self.events), closing_event(airport))]
        access = self.demonstration.stage.mesh.site(self.devices)
        await send(access, DEVICE_TOPIC, sent, self.rate, self._progress)

    def _progress(self, report: ReplayReport) -> None:
        if report.acknowledged >= self.move_at * self.events:
            self._sent.set()

    async def _leave(self) -> OperationView:
        await self._sent.wait()
        say = self.demonstration.say
        say(f"moving {JOB} from {self.source} to {self.target}, for {self.source} will be lost")
        view = await self.demonstration.migrate(JOB, self.target)
        self._ended_at = time.time()
        await self.lose()
        self._lost_at = time.time()
        say(f"{self.source} is lost {self._lost_at - self._ended_at:.1f} s after the migration")
        return view

    async def _report(self, job: ObservedJob, view: OperationView) -> EvacuationReport:
        verdict = await job.verdict()
        job.look()
        return EvacuationReport(
            move=MoveReport.of(view),
            events=sum(len(each.events) for each in job.inputs),
            expected_results=verdict.expected,
            results=verdict.results,
            lost_after_s=round(self._lost_at - self._ended_at, 3),
            results_afterwards=sum(arrival.received_at > self._lost_at for arrival in job.arrivals),
            **findings(verdict),
        )
