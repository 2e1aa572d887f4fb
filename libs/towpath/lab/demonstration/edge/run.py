"""A run of the railway demonstration: deploy, travel, and judge every event."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from towpath.checker.accepted import StoredEvent
from towpath.checker.identity import utc
from towpath.checker.judging import judge
from towpath.checker.observation import ReceivedMessage, observe
from towpath.contracts.commands import DeployJob, JobView, ShowOperation
from towpath.contracts.data_plane import STORED_AT_HEADER
from towpath.contracts.errors import TowpathError
from towpath.contracts.job import JobSpec
from towpath.lab.demonstration.edge.jobs import RIDE, data_model, delivered, ride
from towpath.lab.demonstration.edge.report import Detection, EdgeReport
from towpath.lab.demonstration.edge.travel import Travel
from towpath.lab.demonstration.edge.truth import expected_events
from towpath.lab.harness.judge import StoredInput, identity_for, unstored
from towpath.lab.harness.observer import ATTEMPT_S, ObservedJob, ReceivedResult, observed_job
from towpath.lab.harness.report import Judgement, MoveReport
from towpath.lab.harness.stage import Say, Stage, quiet
from towpath.lab.workload.journey import WHEELS, Journey
from towpath.prediction.registry import ALARM
from towpath.reports.asking import migration_facts
from towpath.reports.facts import MigrationFacts
from towpath.streams.pages import StoredMessage, last_serial, pages_after

ENGINE_S = 300.0
"""Seconds for a deployment: the first at a site starts its engine, which can take a busy machine minutes."""

SHOW_S = 20.0

SETTLE_S = 300.0
"""Seconds for what is under way to end after the journey, on a busy machine."""

QUIET_S = 60.0
"""Nothing came for so long: what is missing does not come any more. All windows that were held up by a cut
link close with one micro-batch, after one that takes in everything before."""

LOOK_EVERY_S = 0.5


@dataclass(frozen=True)
class Verdicts:
    """The statements of the model on one wheel, over time."""

    times: list[float]
    """Unix seconds, when the train stored the event."""
    statistics: list[float | None]
    """Null while the model learns."""
    alarms: int
    first_alarm: tuple[float, float] | None
    """When the train stored the first alarm, and the id of its report."""


@dataclass(frozen=True)
class EdgeOutcome:
    """The report of a run, and the data of its picture and page."""

    report: EdgeReport
    journey: Journey
    verdicts: dict[str, Verdicts]
    riding: list[ReceivedResult]
    """Results of the job that moves."""
    delivered_at: list[float]
    """Unix seconds, when each event came to the trackside."""
    moves: list[MigrationFacts]


@dataclass
class EdgeDemonstration:
    """One run. `say` is told in a few words what is under way."""

    stage: Stage
    journey: Journey = field(default_factory=Journey)
    say: Say = quiet
    _problems: list[str] = field(default_factory=list)

    async def run(self) -> EdgeOutcome:
        """Everything, in order. Raises `TowpathError` when a command is refused or fails."""
        model = data_model()
        self.say(f"the node {model.model.node} runs the data model {model.model.name}")
        await self._deploy(model.job)
        moving, bringing = ride(model.model.output.topic), delivered(model.model.output.topic)
        await asyncio.gather(self._deploy(moving), self._deploy(bringing))
        async with (
            observed_job(self.stage, moving, deploy=False) as riding,
            observed_job(self.stage, bringing, deploy=False) as receiving,
        ):
            travel = Travel(self.stage, self.journey, model.model.input.topic, receiving, self.say)
            self.say("the train is made ready: it stands until all jobs have results")
            await travel.make_ready([riding, receiving])
            await travel.run()
            self.say("the journey is over; waiting for the last results")
            await self._settle()
            return await self._outcome(travel, riding, receiving)

    async def _deploy(self, spec: JobSpec) -> None:
        await self.stage.bus.request(DeployJob(spec=spec), deadline_s=ENGINE_S, attempt_s=ATTEMPT_S)

    async def _settle(self) -> None:
        """Wait until everything runs, and the job that moved has one owner."""
        try:
            await self.stage.until_settled(RIDE, SETTLE_S)
        except TowpathError as error:
            self._problems.append(error.detail.one_line())

    async def _outcome(self, travel: Travel, riding: ObservedJob, receiving: ObservedJob) -> EdgeOutcome:
        model = data_model()
        view = await self.stage.ask_job(model.job.name)
        stored = await self._reports(view)
        results = await self._results(view, len(stored.events))
        truth = await asyncio.to_thread(expected_events, model.model, stored.events)
        self.say(f"comparing {len(results):,} events with the batch computation")
        on_board = await asyncio.to_thread(judge, truth, results)
        judgements = {model.job.name: Judgement.of(on_board)}
        for job in (riding, receiving):
            await job.drained(SETTLE_S, QUIET_S)
            judgements[job.name] = Judgement.of(await job.verdict(in_order=True), job.rejected)
        travel.note_last()
        verdicts = await asyncio.to_thread(verdicts_of, results)
        self._check(travel, stored, verdicts)
        operations = [c.asked.operation for c in travel.contacts if c.asked and c.asked.operation]
        report = EdgeReport(
            reports=travel.sent.acknowledged,
            reports_per_s=round(travel.sent.acknowledged / travel.sent.seconds, 1),
            begun_at=travel.begun_at,
            detection=self._detection(travel, stored, verdicts, receiving.collector.observations),
            alarms={wheel: each.alarms for wheel, each in verdicts.items()},
            contacts=travel.contacts,
            migrations=[await self._move(operation) for operation in operations],
            judgements=judgements,
            problems=self._problems,
        )
        return EdgeOutcome(
            report=report,
            journey=self.journey,
            verdicts=verdicts,
            riding=riding.arrivals,
            delivered_at=[each.received_at for each in receiving.collector.observations],
            moves=[await migration_facts(self.stage.bus, operation) for operation in operations],
        )

    async def _reports(self, view: JobView) -> _StoredReports:
        """Return the reports that the train has stored."""
        [entry] = view.inputs
        found = _StoredReports(entry.name, entry.from_device)
        async for messages in pages_after(
            self.stage.bus.connection,
            entry.site,
            entry.stream,
            entry.after_serial or 0,
            subject=entry.subject,
        ):
            found.events += [StoredEvent(message.serial, message.body) for message in messages]
            found.stored_at += [_stored_at(message) for message in messages]
        return found

    async def _results(self, view: JobView, count: int) -> list[ReceivedMessage]:
        """Return the data model's events as the train has stored them, once there are so many."""
        output, connection = view.output, self.stage.bus.connection
        end, made = time.monotonic() + SETTLE_S, 0
        while made < count and time.monotonic() < end:
            made = await last_serial(connection, output.site, output.stream)
            await asyncio.sleep(LOOK_EVERY_S)
        identity = identity_for(view.spec)
        found: list[ReceivedMessage] = []
        async for messages in pages_after(connection, output.site, output.stream, 0):
            found += [
                observe(message.body, identity, _stored_at(message), offset=message.serial)
                for message in messages
            ]
            # The subscribers share the event loop.
            await asyncio.sleep(0)
        return found

    async def _move(self, operation: str) -> MoveReport:
        question = ShowOperation(operation=operation)
        return MoveReport.of(await self.stage.bus.request(question, deadline_s=SHOW_S, attempt_s=ATTEMPT_S))

    def _check(self, travel: Travel, stored: StoredInput, verdicts: dict[str, Verdicts]) -> None:
        missing = unstored((report.payload for report in self.journey.reports()), stored)
        if missing:
            self._problems.append(f"{len(missing):,} reports were acknowledged and are not stored")
        flat = self.journey.flat_wheel
        if not verdicts[flat].alarms:
            self._problems.append(f"the flat wheel {flat} was not found")
        self._problems += [
            f"{verdicts[wheel].alarms:,} alarms of {wheel}, which is sound"
            for wheel in WHEELS
            if wheel != flat and verdicts[wheel].alarms
        ]

    def _detection(
        self,
        travel: Travel,
        stored: _StoredReports,
        verdicts: dict[str, Verdicts],
        seen: Sequence[ReceivedMessage],
    ) -> Detection:
        wheel, first = self.journey.flat_wheel, self.journey.first_impact
        impacts_at = [
            at
            for event, at in zip(stored.events, stored.stored_at, strict=True)
            if int(event.payload.split(b",", 1)[0]) == first
        ]
        begun_at = impacts_at[0] if impacts_at else travel.begun_at + self.journey.flat_from_s
        found = verdicts[wheel].first_alarm
        if found is None:
            return Detection(wheel=wheel, first_impact_at=begun_at)
        alarm_at, report = found
        known = next((each for each in seen if each.body and each.body["values"]["id"] == report), None)
        until = int(report) // len(WHEELS)
        return Detection(
            wheel=wheel,
            first_impact_at=begun_at,
            alarm_at=alarm_at,
            known_at=known.received_at if known else None,
            impacts=int(self.journey.impacts[: until + 1].sum()),
        )


@dataclass
class _StoredReports(StoredInput):
    """With the Unix seconds at which the train stored each."""

    stored_at: list[float] = field(default_factory=list)


def verdicts_of(results: Sequence[ReceivedMessage]) -> dict[str, Verdicts]:
    """Return what the model said of each wheel, from all its events in order."""
    found = {wheel: Verdicts([], [], 0, None) for wheel in WHEELS}
    for result in results:
        values = json.loads(result.payload).get("values")
        if values is None or values["wheel"] not in found:
            continue
        so_far = found[values["wheel"]]
        so_far.times.append(result.received_at)
        learnt = values["state"] != "learning"
        so_far.statistics.append(values["statistic"] if learnt else None)
        if values["state"] == ALARM:
            first = so_far.first_alarm or (result.received_at, values["id"])
            found[values["wheel"]] = Verdicts(so_far.times, so_far.statistics, so_far.alarms + 1, first)
    return found


def _stored_at(message: StoredMessage) -> float:
    return utc(message.headers[STORED_AT_HEADER]).timestamp()
