"""A pipeline that changes while data flows: the paper's Listing 1.1 becomes its Listing 1.2.

B is removed, C2 is added between C and D, C is redirected, D moves by handover. Subscribers of all topics
receive everything before, during and after the change, and the checker proves from it that every event
counted exactly once, everywhere.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from towpath.checker.collector import ResultCollectors
from towpath.checker.identity import WindowIdentity
from towpath.checker.verdict import Verdict
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.pipeline import Action, PipelineSpec, PlannedChange
from towpath.lab.demonstration.fog import pipelines
from towpath.lab.demonstration.fog.change_truth import ChangeTruth, change_truth, judge_change
from towpath.lab.demonstration.fog.load import MALFORMED_EVERY
from towpath.lab.demonstration.fog.report import ChangeReport
from towpath.lab.demonstration.pipeline import CLOUD, DEVICE_TOPIC
from towpath.lab.demonstration.truth import identity_in_pipeline
from towpath.lab.harness.load import send
from towpath.lab.harness.receiving import subscribers, together, until, until_quiet
from towpath.lab.harness.report import Judgement
from towpath.lab.harness.stage import Say, Stage
from towpath.lab.workload.departures import closing_event, departures, with_malformed

EDGE = "jfk"
OLD_TOPIC = "departures/jfk"
"""Where C writes before the change, and C2 after it."""

TOPICS = (
    (EDGE, "departures/clean"),
    (EDGE, "departures/clean/rejected"),
    (EDGE, "departures/late"),
    (CLOUD, OLD_TOPIC),
    (CLOUD, "departures/jfk/all"),
    (CLOUD, "departures/hourly"),
)
"""All that the jobs write, before and after."""

MOST_DEPARTURES = 30_000
"""From January to November: in event time they go back by a day at most."""

WARM_RESULTS = 20
"""Windows that D closes at the edge before the change, so that it has state to lose, and at the cloud after
it, while events still come."""

SETTLE_S = 180.0

QUIET_S = 5.0
"""Seconds without a result after which all have come: more than two triggers."""


@dataclass
class _Devices:
    """Events of the edge's devices until they are told to stop. The last event closes all windows."""

    stopped: bool = False
    exhausted: bool = False
    """True if the departures ended before they were told to stop."""
    sent: list[bytes] = field(default_factory=list)

    def payloads(self) -> Iterator[bytes]:
        """Departures as they become due."""
        airport = EDGE.upper()
        real = with_malformed(departures(airport, MOST_DEPARTURES), MALFORMED_EVERY)
        for event in itertools.takewhile(lambda _: not self.stopped, real):
            self.sent.append(event.payload)
            yield event.payload
        self.exhausted = not self.stopped
        closing = closing_event(airport).payload
        self.sent.append(closing)
        yield closing


@dataclass
class ChangeUnderLoad:
    """The second part of a run. `say` shows people what is under way."""

    stage: Stage
    rate: float
    """Events per second."""
    say: Say
    _devices: _Devices = field(default_factory=_Devices)

    async def run(self) -> ChangeReport:
        """Apply, send, change, send on, judge. Raises `TowpathError` if a command is refused or fails."""
        before = pipelines.described("delays-1")
        self.say(f"applying {before.name}: {', '.join(job.name for job in before.jobs)}")
        await pipelines.apply(self.stage.bus, before)
        async with subscribers(self.stage.mesh, TOPICS, identity_in_pipeline) as collectors:
            changing = asyncio.Future[_Changed]()
            sending = send(self.stage.mesh.site(EDGE), DEVICE_TOPIC, self._devices.payloads(), self.rate)
            await together(sending, self._change_and_stop(collectors, changing))
            if self._devices.exhausted:
                raise TowpathError(ErrorCode.FAILED, "the departures ended before the change was made")
            return await self._judge(collectors, before, changing.result())

    async def _change_and_stop(self, collectors: ResultCollectors, changed: asyncio.Future[_Changed]) -> None:
        """Change the pipeline once its last job has state, let data flow on for a while, then stop it."""
        await self._until_windows(collectors, EDGE)
        changed.set_result(await self._change(pipelines.described("delays-2")))
        await self._until_windows(collectors, CLOUD)
        self._devices.stopped = True

    async def _until_windows(self, collectors: ResultCollectors, site: str) -> None:
        if not await until(collectors, lambda: _windows(collectors, site) >= WARM_RESULTS, SETTLE_S):
            message = f"{_windows(collectors, site)} windows from {site} came within {SETTLE_S:g} s"
            raise TowpathError(ErrorCode.DEADLINE, message)

    async def _change(self, after: PipelineSpec) -> _Changed:
        plan = await pipelines.plan(self.stage.bus, after)
        for change in plan.changes:
            self.say(f"plan: {describe(change)}")
        changed_at, sent_before = time.time(), len(self._devices.sent)
        begun = time.monotonic()
        view = await pipelines.apply(self.stage.bus, after)
        apply_s, sent_during = time.monotonic() - begun, len(self._devices.sent) - sent_before
        self.say(f"{after.name} is at version {view.version} after {apply_s:.1f} s under load")
        changes = [each.change for each in view.changes]
        return _Changed(changes, apply_s, changed_at, sent_before, sent_during)

    async def _judge(
        self, collectors: ResultCollectors, before: PipelineSpec, changed: _Changed
    ) -> ChangeReport:
        """Judge repeatedly until nothing is missing, or the time is over."""
        sent = self._devices.sent
        self.say(f"{len(sent):,} events sent; waiting for the last results")

        def look() -> tuple[ChangeTruth, Verdict]:
            expected = change_truth(before, sent, seen, OLD_TOPIC, changed.at)
            return expected, judge_change(expected, seen)

        end = time.monotonic() + SETTLE_S
        while True:
            seen = collectors.observations
            _, verdict = await asyncio.to_thread(look)
            if not verdict.lost or time.monotonic() > end:
                break
            await asyncio.sleep(1.0)
        await until_quiet(collectors, QUIET_S)
        seen = collectors.observations
        expected, verdict = await asyncio.to_thread(look)
        return ChangeReport(
            plan=changed.plan,
            apply_s=round(changed.apply_s, 2),
            sent_before=changed.sent_before,
            sent_during=changed.sent_during,
            sent=len(sent),
            old_topic=expected.old_topic,
            new_topic=expected.new_topic,
            judgement=Judgement.of(verdict),
        )


@dataclass(frozen=True)
class _Changed:
    """The change that was applied, when, and how much was sent meanwhile."""

    plan: list[PlannedChange]
    apply_s: float
    at: float
    """Unix seconds."""
    sent_before: int
    sent_during: int


def describe(change: PlannedChange) -> str:
    """Describe the change of a job on one line."""
    moves = Action.MOVE in change.actions
    route = f" {change.source} → {change.target} by {change.strategy}" if moves else ""
    after = f", after {', '.join(change.after)}" if change.after else ""
    return f"{change.job}: {', '.join(change.actions)}{route} ({change.reason}){after}"


def _windows(collectors: ResultCollectors, site: str) -> int:
    """Count the windows that the pipeline's last job has closed at this site so far."""
    seen = (o for collector in collectors.collectors for o in collector.observations)
    return sum(isinstance(o.identity, WindowIdentity) and o.body["site"] == site for o in seen)
