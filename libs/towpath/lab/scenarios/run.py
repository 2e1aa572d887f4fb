"""Run a scenario on a mesh that is up: before, during, after, verdict, and everything put back."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from nats.errors import Error as NatsError

from towpath.contracts.errors import TowpathError
from towpath.contracts.faults import OnTarget
from towpath.contracts.message import HUB_SCOPE
from towpath.contracts.scenario import Scenario, Step
from towpath.lab.emulation.energy import EnergyMeter
from towpath.lab.harness.held_rules import HeldRules
from towpath.lab.harness.journal import Entry, Journal
from towpath.lab.harness.load import Device
from towpath.lab.harness.report import Judgement, MoveReport
from towpath.lab.harness.stage import Say, Stage, quiet
from towpath.lab.scenarios.checking import idle_rules, rules_of
from towpath.lab.scenarios.commands import Commands, what_of
from towpath.lab.scenarios.expectations import unmet
from towpath.lab.scenarios.figures import RunFigures
from towpath.lab.scenarios.judging import Judging, results_again
from towpath.lab.scenarios.mesh_events import MeshEvents, Recorder
from towpath.lab.scenarios.reading import plain
from towpath.lab.scenarios.report import RuleOutcome, RunReport
from towpath.lab.scenarios.restoration import Restoration
from towpath.lab.scenarios.run_trace import RunTrace
from towpath.lab.scenarios.sampler import Sampler
from towpath.lab.scenarios.steadiness import Steadiness
from towpath.lab.scenarios.timeline import Timeline
from towpath.tasks import end
from towpath.telemetry.tracing import start_tracing

log = logging.getLogger(__name__)

POWER = "power_w"
"""Metric: the power of a node in watts. Its entity is the node. Probes may ask for it."""

MOVES_S = 200.0
"""Seconds for migrations to end after the timeline: more than a compensation is retried that must succeed."""

STOP_LOAD_S = 70.0

ACT_S = 4.0
"""Seconds for rules that another program executes: it must first see that they are loaded."""

COUNT_S = 3.0
"""Seconds for the last counts of rules, which come after their end."""

SAID = {
    "prepare": "deploying",
    "before": "waiting for steady state",
    "during": "steady: the timeline begins",
    "after": "the timeline is over; waiting for steady state",
    "judge": "waiting for the last results, and judging",
}
"""Phases of a run, for people."""

RESTORE_S = 360.0
"""Seconds for everything to be put back: jobs may have to move, and the coordinator to restart."""


@dataclass
class Run:
    """A scenario under way."""

    stage: Stage
    scenario: Scenario
    journal: Journal
    seed: int = 0
    source: str = ""
    """File or name of the library from which the scenario was read."""
    chosen: dict[str, Any] = field(default_factory=dict)
    allow_process: bool = False
    put_back: bool = True
    """False: jobs, pipelines and nodes stay as they are in the end, because the mesh is the run's own."""
    say: Say = quiet
    """Shows people in a few words what is under way."""
    figures: RunFigures = field(default_factory=RunFigures)
    problems: list[str] = field(default_factory=list)
    broken: bool = False
    trace: RunTrace = field(init=False)
    _verdicts: dict[str, Judgement] = field(default_factory=dict)
    _moves: list[MoveReport] = field(default_factory=list)
    _recovered_s: float | None = None
    _results_again_s: float | None = None
    _unstored: int = 0
    _written: Counter[str] = field(default_factory=Counter)
    """Job → number of its results that the journal has."""

    def __post_init__(self) -> None:
        self.trace = RunTrace(self.scenario.name, self.seed)

    async def play(self) -> RunReport:
        """Play it to its end, whatever happens. If it is cancelled, it puts its changes back and ends."""
        begun = time.monotonic()
        self.stage.bus.ship(start_tracing("cli", HUB_SCOPE))
        self.trace.begin()
        self._announce()
        async with AsyncExitStack() as exits:
            exits.push(self.trace.cut_short)
            sampler = Sampler(self.stage.mesh, self.stage.bus)
            rules = await exits.enter_async_context(HeldRules(self.stage.bus, self.journal))
            noting = partial(self._note_results, sampler)
            steadiness = Steadiness(self.scenario.steady_state, sampler, self.journal, noting)
            meter = EnergyMeter(self.stage.emulation, partial(self._note_power, sampler))
            restoration = Restoration(self.stage.bus, self.journal)
            commands = Commands(self.stage, restoration, sampler, rules, exits, self.allow_process, self.seed)
            watching: asyncio.Task[None] | None = None
            try:
                events = MeshEvents(self.journal, lambda e: rules.ended(e.rule, e.why, e.count))
                recorder = Recorder(self.journal, self.scenario.collect)
                await self._listen(exits, sampler, events, recorder)
                watching = asyncio.create_task(steadiness.run(), name="steadiness")
                await self._phases(commands, events, steadiness, meter)
            except (TowpathError, TimeoutError, NatsError) as error:
                self._problem(f"the run got stuck: {str(error) or 'no answer'}")
                self.broken = True
            finally:
                await end([watching])
                await self._restore(commands, rules)
            self._note_results(sampler)
            report = self._report(sampler, rules, steadiness, meter, time.monotonic() - begun)
        self.trace.end("; ".join(report.problems) or None)
        self.journal.add(Entry.ENDED, report=report.model_dump(mode="json"))
        return report

    def _announce(self) -> None:
        self.journal.add(
            Entry.BEGUN,
            scenario=plain(self.scenario),
            seed=self.seed,
            chosen=self.chosen,
            run=self.trace.run,
        )
        self._phase("prepare")

    async def _listen(
        self, exits: AsyncExitStack, sampler: Sampler, events: MeshEvents, recorder: Recorder
    ) -> None:
        """Open a connection of the run's own. Its subscriptions end with it."""
        bus = await exits.enter_async_context(await self.stage.connected("scenario"))
        await sampler.listen(bus)
        await events.listen(bus)
        await recorder.listen(bus)

    def _phase(self, name: str) -> None:
        self.journal.add(Entry.PHASE, phase=name)
        if name in SAID:
            self.say(SAID[name])

    def _note_results(self, sampler: Sampler) -> None:
        """Write down the results that have come since the last time."""
        for name in self.scenario.collect.results:
            arrivals = sampler.jobs[name].arrivals if name in sampler.jobs else []
            came = [
                (round(a.received_at, 3), round(a.latency_s, 3), a.site)
                for a in arrivals[self._written[name] :]
            ]
            if came:
                self.journal.add(Entry.RESULTS, job=name, came=came)
                self._written[name] += len(came)

    def _note_power(self, sampler: Sampler, node: str, watts: float) -> None:
        sampler.take_metric(node, POWER, watts)
        self.journal.add(Entry.METRIC, entity=node, name=POWER, value=round(watts, 2))

    async def _phases(
        self, commands: Commands, events: MeshEvents, steadiness: Steadiness, meter: EnergyMeter
    ) -> None:
        emulation = self.stage.emulation
        if emulation:
            # A run before this one may have been killed, and have left a node away or a link cut.
            await emulation.settle()
        # The start of a job is not what is emulated.
        async with emulation.at_full_speed() if emulation else nullcontext():
            await self._prepare(commands)
        async with meter:
            await self._act(commands, events, steadiness)
        await self._judge(commands.sampler)
        for problem in await commands.fleet.problems() if commands.fleet else ():
            self._problem(problem)
        await self.figures.end(commands.sampler)

    async def _prepare(self, commands: Commands) -> None:
        scenario = self.scenario
        await commands.restoration.look()
        for name in scenario.mesh.jobs:
            await commands.watch(name)
        with self.trace.step("prepare"):
            for job in scenario.jobs:
                await commands.deploy(job)
            if scenario.pipeline is not None:
                await commands.apply(scenario.pipeline)
            if scenario.gateways is not None:
                await commands.run_gateways(scenario.gateways)
        self._start_load(commands.sampler)
        with self.trace.step("load rules that never act"):
            await commands.rules.load_idle(idle_rules(scenario))

    async def _act(self, commands: Commands, events: MeshEvents, steadiness: Steadiness) -> None:
        phases = self.scenario.phases
        self._phase("before")
        if not await steadiness.until_held(phases.before_s, phases.begin_within_s + phases.before_s):
            self._problem(f"steady state did not come about within {phases.begin_within_s:g} s")
            self.broken = True
            return
        await commands.arm(self.scenario.timeline)
        self._phase("during")
        steadiness.watch_from_now()
        await self.figures.begin(commands.sampler)

        async def carry_out(step: Step) -> None:
            what = f"{step.action} {what_of(step)}".strip()
            self.say(what)
            with self.trace.step(what):
                await commands.carry_out(step)

        timeline = Timeline(self.scenario.timeline, carry_out, events, self.journal)
        await asyncio.gather(timeline.play(), asyncio.sleep(phases.during_s))
        for device in commands.sampler.devices:
            await device.ended()
        self.problems += timeline.problems
        await self._recover(commands, steadiness)

    def _start_load(self, sampler: Sampler) -> None:
        for position, load in enumerate(self.scenario.load):
            access = self.stage.mesh.site(load.site)
            device = Device(load, access, self.scenario.name, position, self.seed)
            sampler.devices.append(device)
            device.start()

    async def _recover(self, commands: Commands, steadiness: Steadiness) -> None:
        """Unload everything, and wait until steady state holds."""
        phases = self.scenario.phases
        targeted = [rule.name for rule in rules_of(self.scenario) if isinstance(rule.event, OnTarget)]
        await commands.rules.acted(targeted, ACT_S)
        self._phase("after")
        if commands.rules.names:
            with self.trace.step("unload rules"):
                await commands.rules.unload(commands.rules.names)
        if self.stage.emulation and self.put_back:
            await self.stage.emulation.revive()
        over = time.time()
        self._moves, self._results_again_s = await asyncio.gather(
            commands.moves_ended(MOVES_S),
            results_again(
                commands.sampler, commands.struck_until or over, self.scenario.expect.results_again_within_s
            ),
        )
        for move in self._moves:
            self.journal.add(Entry.MIGRATED, **move.model_dump(mode="json"))
        left = phases.after_s - (time.time() - over)
        if await steadiness.until_held(phases.steady_s, max(left, phases.steady_s + 1.0)):
            assert steadiness.since is not None
            left_state = steadiness.last_outside is not None
            self._recovered_s = max(0.0, steadiness.since - over) if left_state else 0.0

    async def _judge(self, sampler: Sampler) -> None:
        """Stop the load, wait until everything is in order and processed, and compare with the truth."""
        self._phase("judge")
        for device in sampler.devices:
            await device.stop(STOP_LOAD_S)
        await self.figures.load_ended(sampler)
        judging = Judging(self.stage, self.scenario, self.journal, self._moves)
        await judging.judge(sampler)
        self._verdicts, self._unstored = judging.verdicts, judging.unstored
        self.broken = self.broken or bool(judging.unsettled)
        for problem in (*judging.unsettled, *judging.problems):
            self._problem(problem)

    async def _restore(self, commands: Commands, rules: HeldRules) -> None:
        """Put back what the run changed, even if it was cancelled or failed."""
        self._phase("restore")
        parts: list[Callable[[], Awaitable[None]]] = [partial(self._put_back, commands, rules)]
        if self.stage.emulation and self.put_back:
            # Jobs on a node that is away could not be removed.
            parts = [self.stage.emulation.bring_back, *parts, self.stage.emulation.settle]
        for part in parts:
            try:
                await part()
            except (TowpathError, TimeoutError, NatsError) as error:
                self._not_put_back(str(error) or "no answer")
        self._phase("ended")

    async def _put_back(self, commands: Commands, rules: HeldRules) -> None:
        """Put back rules, load, jobs and pipelines. Raises `TowpathError` without an answer."""
        async with asyncio.timeout(RESTORE_S):
            with self.trace.step("restore"):
                await rules.unload_all()
                await rules.counted(COUNT_S)
                for device in commands.sampler.devices:
                    await device.cancel()
                for problem in await commands.restoration.put_back() if self.put_back else ():
                    self._not_put_back(problem)

    def _not_put_back(self, why: str) -> None:
        self._problem(f"not everything could be put back: {why}")
        self.broken = True

    def _report(
        self, sampler: Sampler, rules: HeldRules, steadiness: Steadiness, meter: EnergyMeter, seconds: float
    ) -> RunReport:
        if self.scenario.collect.rule_counts:
            counts = {name: count.model_dump(mode="json") for name, count in rules.counts.items()}
            self.journal.add(Entry.COUNTS, rules=counts)
        report = RunReport(
            scenario=self.scenario.name,
            source=self.source,
            seed=self.seed,
            chosen=self.chosen,
            run=self.trace.run,
            seconds=round(seconds, 1),
            loads=[device.outcome for device in sampler.devices],
            verdicts=self._verdicts,
            deviated=steadiness.deviated,
            deviation_s=round(sum(line["after_s"] for line in self.journal.of(Entry.STEADY)), 1),
            recovered_s=None if self._recovered_s is None else round(self._recovered_s, 1),
            results_again_s=None if self._results_again_s is None else round(self._results_again_s, 1),
            unstored=self._unstored,
            migrations=self._moves,
            energy=meter.energy,
            rules=[RuleOutcome.of(r, rules.counts.get(r.name)) for r in rules_of(self.scenario)],
            problems=self.problems,
            broken=self.broken,
        )
        # A run that got stuck has its reason already: all else follows from it.
        return (
            report
            if self.broken
            else report.model_copy(
                update={"problems": [*self.problems, *unmet(self.scenario.expect, report)]}
            )
        )

    def _problem(self, text: str) -> None:
        self.problems.append(text)
        self.journal.add(Entry.PROBLEM, text=text)
