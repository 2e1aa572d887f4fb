"""A run of the queries' demonstration: a text that moves, what it saves, estimates, and RAINBOW's figures."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from towpath.contracts.commands import (
    DeployJob,
    MigrateJob,
    OperationState,
    RemoveJob,
    ShowOperation,
    StrategyName,
)
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import Input, JobSpec, Output
from towpath.contracts.operators import Forward
from towpath.lab.demonstration.pipeline import CLOUD, DEVICE_TOPIC, EDGES
from towpath.lab.demonstration.queries.estimates import judge_estimates
from towpath.lab.demonstration.queries.findings import (
    AFTER_MOVE_S,
    Course,
    Heard,
    arrivals_of,
    courses_of,
    gap_of,
    parts_of_plan,
    sampled_of,
)
from towpath.lab.demonstration.queries.link_meter import LinkMeter
from towpath.lab.demonstration.queries.rainbow import hear_figures, judge_figures
from towpath.lab.demonstration.queries.report import (
    Crossing,
    EstimateReport,
    FigureReport,
    Gap,
    QueriesReport,
    QueryReport,
)
from towpath.lab.demonstration.queries.running_text import (
    RunningText,
    running_text,
    until_counted,
    until_read,
)
from towpath.lab.demonstration.queries.stretch import Due, Stretch, stretch
from towpath.lab.demonstration.queries.texts import ESTIMATED, MEAN, SHARED, query_text
from towpath.lab.demonstration.queries.truth import AskedEvents, expected_answers
from towpath.lab.harness.answers import judge_answers, query_of
from towpath.lab.harness.load import DueEvent, send_when_due
from towpath.lab.harness.observer import ATTEMPT_S, ReceivedResult
from towpath.lab.harness.report import Judgement, MoveReport
from towpath.lab.harness.stage import Say, Stage, quiet
from towpath.lab.scenarios.restoration import CHANGE_S, MOVE_S

MOVED_TO = "jfk"
"""The airport that the job which answers moves to."""

MOVED_PANES = "lga"
"""The airport whose job of panes moves to the cloud then."""

ONE_QUERY, RAW = "one query alone", "raw events"
"""Names of what crosses the links."""

FASTER = 2.5
"""One query alone, and raw events, take less work, so departures come faster."""

READY_DAYS, LEAST_DAYS = 2.5, 5.0
"""Days that are sent first, until answers come: the first micro-batches of a job start its Python workers.
Answers come a day late, because departures may. And days that a run needs at least."""

READY_WITHIN_S = 180.0

BEFORE_MOVE = 0.4
"""Part of the time after which the job that answers moves. What crosses the links until then is counted."""

CLOSINGS = 20
"""Closing departures of each time: a text that is content with estimates does not read all of them."""

IDLE_S = 15.0
"""Links are probed once in so many seconds."""

PANES_S = 2.0
"""Seconds for the last panes to cross the links."""

SHOW_S, LOOK_EVERY_S = 20.0, 0.3


@dataclass(frozen=True)
class QueriesOptions:
    """The size of a run. Raises `TowpathError` (invalid) for values that make no sense."""

    rate: float = 200.0
    """Events per second at each airport, in the mean."""
    seconds: float = 30.0
    figures: bool = True
    """Also run what RAINBOW printed."""

    def __post_init__(self) -> None:
        """Check the values before anything is started."""
        if stretch(self.rate, self.seconds).days < LEAST_DAYS:
            raise TowpathError(
                ErrorCode.INVALID,
                "too few departures for windows of a day",
                field="seconds",
                value=f"{self.rate:g}/s for {self.seconds:g} s",
                allowed=f"departures of {LEAST_DAYS:g} days: about 1,700 of each airport",
            )


@dataclass(frozen=True)
class QueriesOutcome:
    """The report of a run, and the data of its picture."""

    report: QueriesReport
    begun_at: float
    """Unix seconds, when departures were sent at the full rate."""
    ended_at: float
    """When all of them were processed. Then windows were closed that held few of them."""
    arrivals: list[ReceivedResult]
    """All answers of the text that moves."""
    courses: Mapping[str, Course]
    """Airport → its mean delay, as it came."""


@dataclass
class QueriesDemonstration:
    """One run. `say` is told in a few words what is under way."""

    stage: Stage
    options: QueriesOptions = field(default_factory=QueriesOptions)
    say: Say = quiet
    _crossings: list[Crossing] = field(default_factory=list)
    _moves: list[MoveReport] = field(default_factory=list)
    _problems: list[str] = field(default_factory=list)
    _begun_at: float = 0.0
    _ended_at: float = 0.0

    async def run(self) -> QueriesOutcome:
        """Everything, in order. Raises `TowpathError` when a command is refused or fails."""
        options = self.options
        slow = stretch(options.rate, options.seconds)
        fast = stretch(options.rate * FASTER, options.seconds / FASTER)
        shared = await self._shared(slow)
        idle = await self._idle()
        alone = await self._alone(fast)
        await self._raw(fast)
        estimated = await self._estimated(slow)
        self.say("computing every answer in a batch")
        judging = asyncio.create_task(self._queries(shared, alone), name="judge queries")
        figures = await self._figures()
        queries = await judging
        report = QueriesReport(
            sites=[*EDGES],
            rate=options.rate,
            seconds_sent=options.seconds,
            days=round(slow.days, 1),
            events=slow.count,
            events_at={site: len(events) for site, events in slow.events.items()},
            plan=parts_of_plan(shared.compiled),
            queries=queries,
            sampled=sampled_of(shared),
            moves=self._moves,
            gaps=self._gaps(shared),
            idle=idle,
            crossings=self._crossings,
            estimates=await self._estimates(estimated),
            figures=figures,
            problems=self._problems,
        )
        return QueriesOutcome(
            report, self._begun_at, self._ended_at, arrivals_of(shared.seen), courses_of(shared)
        )

    async def _shared(self, flow: Stretch) -> Heard:
        """Run the text of many queries, and move two of its jobs while answers flow."""
        self.say(f"{SHARED}: starting {len(flow.events) + 1} jobs")
        async with running_text(self.stage, SHARED, query_text(SHARED)) as text:
            first, rest = flow.parts(READY_DAYS / flow.days * self.options.seconds)
            await self._send(first)
            seen = text.collector.observations
            await text.collector.wait_until(lambda: bool(seen), READY_WITHIN_S)
            self.say(f"{SHARED} answers; {flow.days:.0f} days of departures in {self.options.seconds:g} s")
            self._begun_at = time.time()
            sending = asyncio.create_task(self._send(rest), name="departures")
            await asyncio.sleep(self.options.seconds * BEFORE_MOVE)
            await self._move(SHARED, MOVED_TO, StrategyName.HANDOVER)
            await asyncio.sleep(AFTER_MOVE_S)
            await self._move(f"{SHARED}-{MOVED_PANES}", CLOUD, StrategyName.HANDOVER)
            await sending
            await until_read(self.stage, text.views)
            self._ended_at = time.time()
            return await self._heard(text, flow)

    async def _idle(self) -> Crossing:
        """Count what crosses the links while nothing runs. A mesh that has just come up sends more."""
        meter = await LinkMeter.begun_now(self.stage.bus)
        await asyncio.sleep(IDLE_S)
        return await meter.crossing("nothing", 0)

    async def _alone(self, flow: Stretch) -> Heard:
        """Run one query alone, and count what crosses the links."""
        async with running_text(self.stage, MEAN, query_text(MEAN)) as text:
            self.say(f"{ONE_QUERY}: the same departures at {self.options.rate * FASTER:g}/s")
            meter = await LinkMeter.begun_now(self.stage.bus)
            await self._send(flow.events)
            await until_counted(self.stage, {f"{MEAN}-{site}": len(e) for site, e in flow.events.items()})
            await asyncio.sleep(PANES_S)
            self._crossings.append(await meter.crossing(ONE_QUERY, flow.count))
            return await self._heard(text, flow)

    async def _raw(self, flow: Stretch) -> None:
        """Ship every event to the cloud, and count what crosses the links."""
        inputs = [Input(site=edge, topic=DEVICE_TOPIC, start="latest") for edge in EDGES]
        output = Output(site=CLOUD, topic="departures/raw")
        spec = JobSpec(
            name="raw", site=CLOUD, inputs=inputs, output=output, operator=Forward(), trigger_s=1.0
        )
        await self.stage.bus.request(DeployJob(spec=spec), deadline_s=CHANGE_S, attempt_s=ATTEMPT_S)
        self.say("the same departures, all of them shipped to the cloud")
        meter = await LinkMeter.begun_now(self.stage.bus)
        await self._send(flow.events)
        await until_counted(self.stage, {spec.name: flow.count})
        self._crossings.append(await meter.crossing(RAW, flow.count))
        await self.stage.bus.request(RemoveJob(job=spec.name), deadline_s=CHANGE_S, attempt_s=ATTEMPT_S)

    async def _estimated(self, flow: Stretch) -> Heard:
        """Run the text that is content with estimates."""
        async with running_text(self.stage, ESTIMATED, query_text(ESTIMATED)) as text:
            self.say(f"{ESTIMATED}: the same departures at {self.options.rate:g}/s")
            await self._send(flow.events)
            return await self._heard(text, flow)

    async def _figures(self) -> list[FigureReport]:
        if not self.options.figures:
            return []
        self.say("RAINBOW's figures 12 to 17, for half a minute")
        return await judge_figures(await hear_figures(self.stage))

    async def _heard(self, text: RunningText, flow: Stretch) -> Heard:
        """Close all windows, and return what the text saw and said once all answers have come."""
        closing = [DueEvent(each) for each in flow.closing for _ in range(CLOSINGS)]
        await self._send(dict.fromkeys(flow.events, closing))
        seen = await text.answers_until(flow.until)
        asked = AskedEvents(text.compiled.asked.text, {}, await text.events(), flow.until)
        return Heard(text.compiled, asked, seen)

    async def _queries(self, *texts: Heard) -> list[QueryReport]:
        """Judge all answers that must be equal to the batch computation's."""
        return [report for heard in texts for report in await self._judged(heard)]

    async def _judged(self, heard: Heard) -> list[QueryReport]:
        expected = await expected_answers(heard.asked)
        text = heard.compiled.asked.name
        stray = {query_of(each) for each in heard.seen} - expected.keys()
        self._problems += [f"{text} answered {name or 'something else'}" for name in stray]
        return [
            QueryReport(
                query=query, text=text, judgement=Judgement.of(judge_answers(answers, heard.of(query)))
            )
            for query, answers in expected.items()
        ]

    async def _estimates(self, heard: Heard) -> list[EstimateReport]:
        expected = await expected_answers(heard.asked)
        return [
            judge_estimates(query, expected[query.name], heard.of(query.name))
            for query in heard.compiled.meaning.queries
        ]

    def _gaps(self, heard: Heard) -> list[Gap]:
        # What was closed after all departures is no part of it.
        came = [each.received_at for each in heard.seen if each.received_at <= self._ended_at]
        return [gap for move in self._moves if (gap := gap_of(came, move)) is not None]

    async def _send(self, events: Due) -> None:
        """Let all airports' devices send."""
        sites = self.stage.mesh
        await asyncio.gather(
            *(send_when_due(sites.site(site), DEVICE_TOPIC, due) for site, due in events.items())
        )

    async def _move(self, job: str, target: str, strategy: StrategyName) -> None:
        """Move a job, and wait until that has ended. A move that is rolled back is a problem of the run."""
        self.say(f"{job} moves to {target} while answers flow")
        command = MigrateJob(job=job, to=target, strategy=strategy, wait=False)
        answer = await self.stage.bus.request(command, deadline_s=CHANGE_S, attempt_s=ATTEMPT_S)
        question, end = ShowOperation(operation=answer.operation), time.monotonic() + MOVE_S
        while True:
            view = await self.stage.bus.request(question, deadline_s=SHOW_S, attempt_s=ATTEMPT_S)
            if view.ended_at is not None or time.monotonic() > end:
                break
            await asyncio.sleep(LOOK_EVERY_S)
        move = MoveReport.of(view)
        self._moves.append(move)
        if move.state is not OperationState.COMPLETED:
            self._problems.append(f"{job} did not move to {target}: {move.state}, {move.note}")
        self.say(f"{job}: {move.way}, {move.costs}")
