"""The steps of a timeline, as commands to the mesh."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from towpath.checker.collector import ResultCollector
from towpath.contracts.commands import (
    DeployJob,
    MigrateJob,
    OperationAnswer,
    OperationState,
    RemoveJob,
    ShowOperation,
    UpdateJob,
)
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import JobSpec
from towpath.contracts.message import Command
from towpath.contracts.pipeline import ApplyState, PipelineSpec
from towpath.contracts.pipeline_commands import ApplyPipeline
from towpath.contracts.scenario import (
    Failover,
    Migration,
    Pace,
    ProcessRun,
    Removal,
    Scaling,
    SiteUpgrade,
    Step,
    Update,
)
from towpath.contracts.scenario_gateways import RollOut, ScenarioGateways
from towpath.contracts.scenario_load import ScenarioJob
from towpath.contracts.scenario_nodes import NodeStep, nodes_of
from towpath.contracts.scenario_strikes import HubTrouble, Interception, Strike
from towpath.contracts.standby import FailOverJob
from towpath.lab.harness.answers import EPOCH
from towpath.lab.harness.gateway_fleet import GatewayFleet, gateway_fleet
from towpath.lab.harness.held_rules import HeldRules
from towpath.lab.harness.judge import still_judged
from towpath.lab.harness.observer import ObservedJob, observed_job, subscriber_of
from towpath.lab.harness.report import MoveReport
from towpath.lab.harness.stage import Stage
from towpath.lab.harness.workload import spec_of
from towpath.lab.scenarios.foreseeable import announce, discharge
from towpath.lab.scenarios.hub_troubles import armed_trouble
from towpath.lab.scenarios.interception import armed_interception
from towpath.lab.scenarios.programs import run_program
from towpath.lab.scenarios.restoration import Restoration, check_applied
from towpath.lab.scenarios.sampler import Sampler
from towpath.lab.scenarios.strikes import Armed, armed_strike
from towpath.protocols.record import ENDED

log = logging.getLogger(__name__)

LOOK_EVERY_S = 0.3
ACCEPT_S = 3.0
"""Seconds for one attempt to have a migration accepted. Its end is not awaited."""

AGAIN_S = 2.0
"""Seconds before a migration that was refused or rolled back is requested again."""

APPLY_AGAIN = 2
"""Further applies of a pipeline, if operations of its jobs are undone because of a fault."""

UPGRADE_STEP_S = 120.0
"""Seconds for each part of an upgrade, before the command gives up and is called again."""

FIRST_VERSION = 1
"""Of what gateways run, before the timeline."""

NOT_NOW = (ErrorCode.BUSY, ErrorCode.SITE_DOWN, ErrorCode.FAILED)
"""Refusals of a migration that can be another answer later."""


@dataclass(frozen=True)
class BegunOperation:
    """An operation that was accepted."""

    operation: str
    job: str
    strategy: str
    """Of another operation than a migration, its kind."""


@dataclass
class Commands:
    """Executes the steps of a timeline."""

    stage: Stage
    restoration: Restoration
    """The undo log."""
    sampler: Sampler
    rules: HeldRules
    exits: AsyncExitStack
    """Closes the observers of jobs."""
    allow_process: bool = False
    seed: int = 0
    """Decides what nodes do by chance."""
    begun: list[BegunOperation] = field(default_factory=list)
    """Operations that were accepted, and whose end is reported; of migrations that were requested again, the
    last."""
    _turns: defaultdict[str, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))
    """Job → held while a step moves it."""
    fleet: GatewayFleet | None = None
    struck_until: float | None = None
    """End of the last strike, interception or trouble of the hub, Unix seconds."""
    _armed: dict[int, Armed] = field(default_factory=dict)
    """Strikes, interceptions and troubles, by their id."""

    async def arm(self, timeline: Sequence[Step]) -> None:
        """Prepare what the run itself does, so that they come at their moment. Raises `TowpathError`."""
        for step in timeline:
            if step.strike is not None:
                self._armed[id(step.strike)] = await armed_strike(self.stage, step.strike)
            if step.intercept is not None:
                self._armed[id(step.intercept)] = await armed_interception(
                    self.stage, step.intercept, self.exits
                )
            if step.hub is not None:
                self._armed[id(step.hub)] = await armed_trouble(self.stage, step.hub, self.exits)

    async def carry_out(self, step: Step) -> None:
        """Do what a step says. Raises `TowpathError` when it is refused or not answered in time."""
        handler, _ = ACTIONS[step.action]
        await handler(self, step.given)

    async def deploy(self, job: ScenarioJob) -> ObservedJob:
        """Deploy a job and hear its results. Raises `TowpathError` when it fails twice.

        The first deployment at a site starts its engine. A busy machine needs longer than that one waits.
        """
        spec = spec_of(job)
        try:
            await self.restoration.send(DeployJob(spec=spec))
        except TowpathError as error:
            if error.detail.code is not ErrorCode.FAILED:
                raise
            await self.restoration.send(DeployJob(spec=spec))
        self.sampler.jobs[spec.name] = observed = await self._observe(spec)
        return observed

    async def watch(self, job: str) -> None:
        """Hear the results of a job that runs already. Raises `TowpathError` when there is none."""
        views = {view.spec.name: view for view in await self.stage.ask_jobs()}
        if job not in views:
            raise TowpathError(
                ErrorCode.UNKNOWN_JOB, "no such job runs", field="mesh.jobs", value=job, allowed=sorted(views)
            )
        self.sampler.jobs[job] = observed = await self._observe(views[job].spec)
        # Its state is unknown, so its next results cannot be judged.
        observed.changed = True

    async def _observe(self, spec: JobSpec, heard: ResultCollector | None = None) -> ObservedJob:
        observing = observed_job(self.stage, spec, deploy=False, heard=heard)
        return await self.exits.enter_async_context(observing)

    async def apply(self, spec: PipelineSpec) -> None:
        """Apply a pipeline and hear the results of its jobs. Raises `TowpathError`.

        An apply that fails is repeated, as users do: it does what was undone because of a fault.
        """
        # Under a fault an apply takes long, and its new jobs publish meanwhile.
        heard = {
            job.name: await self.exits.enter_async_context(subscriber_of(self.stage, job, job.output_site))
            for job in spec.jobs
            if job.name not in self.sampler.jobs and job.output_site in self.stage.mesh.sites
        }
        applied = await self.restoration.send(ApplyPipeline(spec=spec))
        for _ in range(APPLY_AGAIN):
            if applied.state is ApplyState.FAILED:
                applied = await self.restoration.send(ApplyPipeline(spec=spec))
        check_applied(applied)
        for job in spec.jobs:
            known = self.sampler.jobs.get(job.name)
            if known is None:
                observed = await self._observe(job.job_spec(), heard.get(job.name))
                self.sampler.jobs[job.name] = observed
                # As in `watch`, if the job was there before the run.
                observed.changed = job.name in self.restoration.jobs_before
                self.sampler.know_sources()
            else:
                self._changes_to(known, job.job_spec())

    async def run_gateways(self, given: ScenarioGateways) -> None:
        """Start gateways, and roll the first version out to them. Raises `TowpathError`."""
        self.fleet = await self.exits.enter_async_context(gateway_fleet(self.stage, given))
        await self.fleet.roll_out(FIRST_VERSION)

    async def moves_ended(self, within_s: float) -> list[MoveReport]:
        """Wait until the begun operations end, and report them. Those not in time have no state."""
        end = asyncio.get_running_loop().time() + within_s
        return await asyncio.gather(*(self._ended(each, end) for each in self.begun))

    async def _strike(self, given: Strike | Interception | HubTrouble) -> None:
        await self._armed[id(given)]()
        self.struck_until = time.time()

    async def _migrate(self, move: Migration) -> None:
        async with self._turns[move.job]:
            if move.retry_within_s is None:
                await self._begin(move)
            else:
                await self._move_in_the_end(move, move.retry_within_s)

    async def _move_in_the_end(self, move: Migration, within_s: float) -> None:
        """Request a migration until one completes. Raises `TowpathError` when none does in time."""
        loop = asyncio.get_running_loop()
        end = loop.time() + within_s
        while True:
            try:
                begun = await self._begin(move)
            except TowpathError as error:
                if error.detail.code not in NOT_NOW or loop.time() > end:
                    raise
            else:
                report = await self._ended(begun, end)
                if report.state is OperationState.COMPLETED:
                    return
                if report.state is not OperationState.ROLLED_BACK or loop.time() > end:
                    why = f"the migration is {report.state or 'of unknown state'}: {report.note}"
                    raise TowpathError(ErrorCode.FAILED, why, field="migrate.job", value=move.job)
                self.begun.remove(begun)
            await asyncio.sleep(AGAIN_S)

    async def _ended(self, begun: BegunOperation, end: float) -> MoveReport:
        """Wait until an operation ends, or the time is over. Return how it stands."""
        loop = asyncio.get_running_loop()
        while True:
            report = await self._report_of(begun)
            if report.state in ENDED or loop.time() > end:
                return report
            await asyncio.sleep(LOOK_EVERY_S)

    async def _begin(self, move: Migration) -> BegunOperation:
        """Return a migration that was accepted. Raises `TowpathError` if it is refused."""
        command = MigrateJob(
            job=move.job,
            to=move.to or await self._elsewhere(move.job),
            strategy=move.strategy,
            check=move.check,
            factor=move.factor,
            hold_s=move.hold_s,
            wait=False,
        )
        return await self._accepted(command, move.job, move.strategy)

    async def _accepted(
        self, command: Command[OperationAnswer], job: str, strategy: str | None = None
    ) -> BegunOperation:
        """Send a command that does not wait for the end of its operation."""
        answer = await self.restoration.send(command, attempt_s=ACCEPT_S)
        begun = BegunOperation(answer.operation, job, strategy or answer.kind)
        self.begun.append(begun)
        return begun

    async def _elsewhere(self, job: str) -> str:
        view = await self.stage.find_job(job)
        others = [site for site in self.stage.mesh.sites if view is None or site != view.site]
        if len(others) != 1:
            raise TowpathError(
                ErrorCode.INVALID, "which site is not clear", field="migrate.to", allowed=others
            )
        return others[0]

    async def _update(self, update: Update) -> None:
        if update.wait:
            return await self._change(update.spec, drop_state=update.drop_state)
        known, spec = self._observed(update.spec.name), update.spec
        if (spec.output_site, spec.output.topic) != (known.view.output.site, known.view.output.topic):
            await known.also_hear(spec, self.exits)
        await self._accepted(UpdateJob(spec=spec, drop_state=update.drop_state, wait=False), spec.name)
        self._changes_to(known, spec)

    async def _scale(self, scaling: Scaling) -> None:
        changes = scaling.model_dump(exclude={"job"}, exclude_none=True)
        await self._change(self._observed(scaling.job).spec.model_copy(update=changes), keep_code=True)

    async def _pace(self, pace: Pace) -> None:
        for device in self.sampler.devices:
            if pace.site in (None, device.load.site):
                device.change_pace(pace.rate)

    async def _change(self, spec: JobSpec, *, drop_state: bool = False, keep_code: bool = False) -> None:
        known = self._observed(spec.name)
        await self.restoration.send(UpdateJob(spec=spec, drop_state=drop_state, keep_code=keep_code))
        self._changes_to(known, spec)

    def _changes_to(self, known: ObservedJob, spec: JobSpec) -> None:
        known.changed = known.changed or not still_judged(known.spec, spec)
        known.changed_by = max((device.newest_at for device in self.sampler.devices), default=EPOCH)
        known.spec = spec

    async def _remove(self, removal: Removal) -> None:
        if not removal.wait:
            command = RemoveJob(job=removal.job, drain=removal.drain, wait=False)
            await self._accepted(command, self._observed(removal.job).name)
            return
        # A job that was not drained cannot be judged: where it stopped is chance.
        self._observed(removal.job).changed = True
        await self.restoration.send(RemoveJob(job=removal.job, drain=removal.drain))

    async def _fail_over(self, given: Failover) -> None:
        async def ask(_: float) -> None:
            await self._accepted(FailOverJob(job=given.job, wait=False), given.job)

        # Not allowed as long as the site is not missed.
        await _repeated(ask, given.within_s, (ErrorCode.NOT_ALLOWED, *NOT_NOW), LOOK_EVERY_S)

    async def _upgrade(self, given: SiteUpgrade) -> None:
        to = ["--to", given.to] if given.to else []
        called = ["--home", str(self.stage.home.root), "upgrade", given.site, *to]
        arguments = ["-m", "towpath.cli", *called, "--within", f"{UPGRADE_STEP_S:g}"]

        async def call(left_s: float) -> None:
            await run_program(ProcessRun(path=sys.executable, arguments=arguments, timeout_s=left_s))

        await _repeated(call, given.within_s, (ErrorCode.FAILED,), AGAIN_S)

    async def _roll_out(self, given: RollOut) -> None:
        assert self.fleet is not None, "checked before the run"
        await self.fleet.roll_out(given.version, given.within_s)

    def _observed(self, job: str) -> ObservedJob:
        known = self.sampler.jobs.get(job)
        if known is None:
            allowed = list(self.sampler.jobs)
            raise TowpathError(
                ErrorCode.UNKNOWN_JOB, "not deployed yet", field="job", value=job, allowed=allowed
            )
        return known

    async def _process(self, run: ProcessRun) -> None:
        if not self.allow_process:
            raise TowpathError(
                ErrorCode.NOT_ALLOWED,
                "the scenario runs a program",
                field="process.path",
                value=run.path,
                allowed="with --allow-process",
            )
        await run_program(run)

    async def _node(self, given: NodeStep) -> None:
        if self.stage.emulation is None:
            raise TowpathError(
                ErrorCode.NOT_ALLOWED,
                "the sites of this mesh are no emulated nodes",
                field="mesh.topology",
                allowed="a scenario that names a topology",
            )
        await self.stage.emulation.carry_out(given, self.seed)

    async def _report_of(self, begun: BegunOperation) -> MoveReport:
        try:
            show = ShowOperation(operation=begun.operation)
            view = await self.stage.bus.request(show, deadline_s=4.0, attempt_s=2.0)
        except TowpathError as error:
            return MoveReport(job=begun.job, strategy=begun.strategy, note=str(error))
        return MoveReport.of(view)


ACTIONS: dict[str, tuple[Callable[[Commands, Any], Awaitable[Any]], Callable[[Any], str]]] = {
    "load": (lambda run, given: run.rules.load(given), lambda given: ", ".join(rule.name for rule in given)),
    "unload": (lambda run, given: run.rules.unload(given), ", ".join),
    "strike": (Commands._strike, lambda given: f"{given.fault} of {given.target} {given.name}"),
    "intercept": (Commands._strike, lambda given: f"{given.step} of {given.job}: {given.do}"),
    "hub": (Commands._strike, str),
    "migrate": (Commands._migrate, lambda given: f"{given.job}{_at('to', given.to)} by {given.strategy}"),
    "deploy": (Commands.deploy, attrgetter("name")),
    "update": (Commands._update, attrgetter("spec.name")),
    "scale": (Commands._scale, attrgetter("job")),
    "pace": (Commands._pace, lambda given: f"{given.rate:g} events/s{_at('of', given.site)}"),
    "apply": (Commands.apply, attrgetter("name")),
    "remove": (Commands._remove, attrgetter("job")),
    "fail_over": (Commands._fail_over, attrgetter("job")),
    "upgrade": (Commands._upgrade, attrgetter("site")),
    "roll_out": (Commands._roll_out, lambda given: f"version {given.version} to gateways"),
    "process": (Commands._process, attrgetter("path")),
    "node": (Commands._node, lambda given: f"{given.do} {', '.join(nodes_of(given))}".strip()),
    "announce": (lambda run, given: announce(run.stage, given), attrgetter("site")),
    "discharge": (lambda run, given: discharge(run.stage, given), attrgetter("site")),
}
"""Kinds of steps: how each is executed, and described in a few words."""


def what_of(step: Step) -> str:
    """Describe a step in a few words."""
    _, describe = ACTIONS[step.action]
    return describe(step.given)


async def _repeated(
    attempt: Callable[[float], Awaitable[None]], within_s: float, again: Collection[ErrorCode], pause_s: float
) -> None:
    """Try something until it succeeds. It is given the seconds that are left.

    Raises its `TowpathError` for another code, or when time is over.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + within_s
    while True:
        try:
            return await attempt(max(end - loop.time(), pause_s))
        except TowpathError as error:
            if error.detail.code not in again or loop.time() > end:
                raise
            log.info("tried again: %s", error.detail.message)
        await asyncio.sleep(pause_s)


def _at(word: str, site: str | None) -> str:
    return f" {word} {site}" if site else ""
