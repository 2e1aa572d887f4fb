"""A pipeline that changes while data flows: the paper's Listing 1.1 becomes its Listing 1.2.

B is removed, C2 is added between C and D, C is redirected, D moves by handover. Subscribers of all topics
receive everything before, during and after the change, and the checker proves from it that every event
counted exactly once, everywhere.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass

from towpath.checker.accepted import StoredEvent
from towpath.checker.collector import ResultCollectors
from towpath.checker.identity import WindowIdentity
from towpath.contracts.commands import JobView
from towpath.contracts.job import ResolvedInput
from towpath.contracts.pipeline import Action, PipelineSpec, PlannedChange
from towpath.contracts.scenario_load import ReplayLoad
from towpath.lab.demonstration.fog import links, pipelines
from towpath.lab.demonstration.fog.change_truth import (
    ADDED,
    CLEANING,
    FORWARDING,
    HOURLY,
    LATE,
    ChangeVerdict,
    identity_of_jobs,
    judge_change,
)
from towpath.lab.demonstration.fog.experiment import MALFORMED_EVERY
from towpath.lab.demonstration.fog.report import ChangeReport
from towpath.lab.demonstration.pipeline import CLOUD, DEVICE_TOPIC, SITES
from towpath.lab.harness.judge import StoredInput
from towpath.lab.harness.load import Device
from towpath.lab.harness.observer import subscriber
from towpath.lab.harness.report import Judgement
from towpath.lab.harness.stage import Say, Stage
from towpath.streams.pages import last_serial, read_after

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
class ChangeUnderLoad:
    """The second part of a run. `say` shows people what is under way."""

    stage: Stage
    rate: float
    """Events per second."""
    say: Say

    async def run(self) -> ChangeReport:
        """Apply, send, change, send on, judge. Raises `TowpathError` if a command is refused or fails."""
        before, after = pipelines.described("delays-1"), pipelines.described("delays-2")
        self.say(f"applying {before.name}: {', '.join(job.name for job in before.jobs)}")
        await pipelines.apply(self.stage.bus, before)
        was = await self._jobs()
        load = ReplayLoad(
            replay="departures",
            site=EDGE,
            topic=DEVICE_TOPIC,
            airport=EDGE.upper(),
            rate=self.rate,
            events=MOST_DEPARTURES,
            malformed_every=MALFORMED_EVERY,
        )
        device = Device(load, self.stage.mesh.site(EDGE), before.name)
        async with self._subscribers(before, after) as collectors:
            device.start()
            try:
                await self._until_windows(collectors, EDGE)
                changed = await self._change(after, device, was[LATE].inputs[0])
                await self._until_windows(collectors, CLOUD)
                await device.stop(SETTLE_S)
            finally:
                await device.cancel()
            self.say(f"{len(device.sent):,} events sent; waiting for the last results")
            views = (was, await self._jobs())
            found = await self._judged(collectors, views, changed.held)
        return ChangeReport(
            plan=changed.plan,
            apply_s=round(changed.apply_s, 2),
            sent_before=changed.sent_before,
            sent_during=changed.sent_during,
            sent=len(device.sent),
            old_topic=found.old_topic,
            new_topic=found.new_topic,
            judgement=Judgement.of(found.verdict),
        )

    async def _jobs(self) -> dict[str, JobView]:
        return {view.spec.name: view for view in await self.stage.ask_jobs()}

    def _subscribers(self, *pipelines: PipelineSpec) -> ResultCollectors:
        """Return a subscriber for each topic.

        Were several topics one session, they would share the broker's limit of unacknowledged messages. A
        burst in one would delay, and so reorder, another.
        """
        identity = identity_of_jobs(job.job_spec() for pipeline in pipelines for job in pipeline.jobs)
        return ResultCollectors(
            *(
                subscriber(self.stage.mesh, site, [topic], f"checker-{topic.replace('/', '-')}", identity)
                for site, topic in TOPICS
            )
        )

    async def _until_windows(self, collectors: ResultCollectors, site: str) -> None:
        await collectors.wait_until(lambda: _windows(collectors, site) >= WARM_RESULTS, SETTLE_S)

    async def _change(self, after: PipelineSpec, device: Device, removed: ResolvedInput) -> _Changed:
        """Change the pipeline. `removed` is the input of the job that it loses."""
        plan = await pipelines.plan(self.stage.bus, after)
        for change in plan.changes:
            self.say(f"plan: {describe(change)}")
        held = await last_serial(self.stage.bus.connection, removed.site, removed.stream)
        sent_before, begun = len(device.sent), time.monotonic()
        view = await pipelines.apply(self.stage.bus, after)
        apply_s, sent_during = time.monotonic() - begun, len(device.sent) - sent_before
        self.say(f"{after.name} is at version {view.version} after {apply_s:.1f} s under load")
        return _Changed([each.change for each in view.changes], apply_s, held, sent_before, sent_during)

    async def _judged(
        self, collectors: ResultCollectors, views: tuple[Mapping[str, JobView], ...], held: int
    ) -> ChangeVerdict:
        """Judge repeatedly until nothing is missing and nothing more comes, or the time is over."""
        # The judge reads all inputs over the links.
        await links.shape(self.stage.bus, SITES, links.UNLIMITED)
        was, now = views
        specs = {name: view.spec for name, view in {**was, **now}.items()}
        end, count = time.monotonic() + SETTLE_S, -1
        while True:
            inputs = await self._inputs(was, now)
            seen = collectors.observations
            found = await asyncio.to_thread(judge_change, specs, inputs, held, seen, OLD_TOPIC)
            if (not found.verdict.lost and len(seen) == count) or time.monotonic() > end:
                return found
            count = len(seen)
            await asyncio.sleep(QUIET_S)

    async def _inputs(self, was: Mapping[str, JobView], now: Mapping[str, JobView]) -> dict[str, StoredInput]:
        """Job → the events that it should have taken. D takes those of its old input first."""
        entries = {
            CLEANING: was[CLEANING].inputs,
            LATE: was[LATE].inputs,
            FORWARDING: was[FORWARDING].inputs,
            ADDED: now[ADDED].inputs,
            HOURLY: [*was[HOURLY].inputs, *now[HOURLY].inputs],
        }
        return {job: await self._stored(*each) for job, each in entries.items()}

    async def _stored(self, *entries: ResolvedInput) -> StoredInput:
        stored = StoredInput(entries[0].name, entries[0].from_device)
        for entry in entries:
            messages = await read_after(
                self.stage.bus.connection, entry.site, entry.stream, entry.after_serial or 0
            )
            wanted = (m for m in messages if entry.subject in (None, m.subject))
            stored.events += [StoredEvent(m.serial, m.body) for m in wanted]
        return stored


@dataclass(frozen=True)
class _Changed:
    """The change that was applied, what the removed job's input held, and how much was sent meanwhile."""

    plan: list[PlannedChange]
    apply_s: float
    held: int
    """Newest serial number."""
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
