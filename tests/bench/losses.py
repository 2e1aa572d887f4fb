"""Loss by cause: an engine, a machine, its disk, its link or the hub fails under load.

An event counts as lost if the site's broker had acknowledged it and no result has it in the end.
"""

from __future__ import annotations

import asyncio
import signal
import time
from dataclasses import dataclass
from functools import partial

from accounted_flow import Flow, flowing
from benchmark import CLOUD, EDGE, Benchmark, Say, Scale
from figures import Case, Measured, Target, rounded
from measured_mesh import MeasuredMesh, temporary_home

from towpath.contracts.commands import OperationState
from towpath.contracts.links import LinkConditions, ShapeLink
from towpath.contracts.message import HUB_SCOPE
from towpath.contracts.site import MeshSpec
from towpath.contracts.standby import FailOverJob, ForecastFailover, StandbyView
from towpath.lab.guard.machine import Machine
from towpath.lab.harness.stage import ASK_S, ATTEMPT_S, Stage, stage
from towpath.mesh.names import engine_process
from towpath.processes import find
from towpath.tasks import to_the_end, until

RATE = 300.0
STEADY_S = {Scale.QUICK: 5.0, Scale.DEFAULT: 15.0, Scale.FULL: 60.0}
"""Ordinary work before the failure."""

OFF_S = 10.0
"""For so long a machine is off that comes back by itself."""

CUT_S = 20.0
MISSED_S, FAIL_OVER_S, ORDINARY_S = 60.0, 180.0, 240.0
LOOK_EVERY_S = 0.2

LOST, TWICE = "lost", "twice"


@dataclass(frozen=True)
class Cause:
    """A failure, and what is done about it."""

    name: str
    machine: str = EDGE.name
    engine_only: bool = False
    cut_s: float = 0.0
    """Seconds without a link before it."""
    loses_disk: bool = False
    """The site's disk: acknowledged events may be on no other."""
    fails_over: bool = False
    output: str = CLOUD.name
    """Site of the results."""


CAUSES = (
    Cause("the engine is killed", engine_only=True),
    Cause("the site's machine is off for 10 s"),
    Cause("the hub's machine is off for 10 s", machine=HUB_SCOPE),
    Cause("the site's machine dies, failover, it returns", fails_over=True),
    Cause("the same, cut off for 20 s before", fails_over=True, cut_s=CUT_S),
    Cause("the site's disk is lost, failover", fails_over=True, loses_disk=True),
    Cause("the same, its output was there", fails_over=True, loses_disk=True, output=EDGE.name),
    Cause("the same, cut off for 20 s before", fails_over=True, loses_disk=True, cut_s=CUT_S),
    Cause("the site's disk is lost, no standby", loses_disk=True),
)


async def measure(mesh: MeasuredMesh | None, scale: Scale, say: Say, measured: Measured) -> None:
    """Let one failure after the other happen to a mesh of two sites."""
    measured.notes += [
        f"{RATE:g} events/s pass a job at {EDGE.name}; its standby, where there is one, is {CLOUD.name}, and "
        f"so is the site of its results, unless a row says otherwise",
        "foreseen: lost events by `towpath failover --dry-run`, as the site had said last, so long ago",
        "silent: longest time between two results",
    ]
    spec = MeshSpec(sites=[EDGE, CLOUD], emulate_links=True)
    with temporary_home() as home:
        async with stage(home, spec, say=say) as up:
            for number, cause in enumerate(CAUSES):
                say(cause.name)
                measured.cases.append(await _Trial(up, cause, f"losses-{number}").run(STEADY_S[scale]))


class _Trial:
    """One failure under load."""

    def __init__(self, up: Stage, cause: Cause, name: str) -> None:
        self._stage = up
        self._cause = cause
        self._name = name
        self._machine = Machine(up.home, cause.machine)
        self._forecast: StandbyView | None = None
        self._failover_s: float | None = None

    async def run(self, steady_s: float) -> Case:
        """Return the figures of the failure. Raises `TowpathError`."""
        cause = self._cause
        standby = CLOUD.name if cause.fails_over else None
        async with flowing(
            self._stage, self._name, RATE, site=EDGE.name, output=cause.output, standby=standby
        ) as flow:
            await flow.until_ready()
            await asyncio.sleep(steady_s)
            try:
                await self._fail()
                if not cause.loses_disk:
                    self._machine.let_start()
                    await self._stage.until_settled(self._name, ORDINARY_S)
                    await asyncio.sleep(steady_s)
                return await self._judged(flow)
            finally:
                # With its disk lost, it must not return before the account: it would be another site.
                self._machine.let_start()
                await self._stage.until_settled(None, ORDINARY_S)

    async def _judged(self, flow: Flow) -> Case:
        cause = self._cause
        if cause.loses_disk:
            await flow.device.cancel()
        else:
            await flow.stop()
        found = await flow.account(input_is_kept=not cause.loses_disk)
        figures = {
            "acknowledged": found.acknowledged,
            "foreseen": self._forecast and self._forecast.lost_events,
            "not heard, s": self._forecast and self._forecast.unheard_s,
            LOST: found.lost,
            "lost, s of events": rounded(found.lost / RATE, 2),
            TWICE: found.twice,
            "failover, s": None if self._failover_s is None else rounded(self._failover_s, 2),
            "silent, s": rounded(found.silent_s, 2),
        }
        never = Target(at_most=0)
        targets = {TWICE: never} if cause.loses_disk else {LOST: never, TWICE: never}
        return Case(cause.name, figures, targets, found.twice + (0 if cause.loses_disk else found.lost))

    async def _fail(self) -> None:
        cause = self._cause
        if cause.engine_only:
            record = find(self._stage.home.run, engine_process(EDGE.name))
            assert record is not None
            assert record.process is not None
            record.process.send_signal(signal.SIGKILL)
            return
        if cause.cut_s:
            # So the machine is off by the time that the link is back.
            command = ShapeLink(
                site=EDGE.name, conditions=LinkConditions(cut=True, for_s=cause.cut_s + OFF_S)
            )
            await self._stage.bus.request(command, deadline_s=ASK_S, attempt_s=ATTEMPT_S)
            await asyncio.sleep(cause.cut_s)
        await to_the_end(asyncio.to_thread(self._machine.switch_off, lose_disks=cause.loses_disk))
        if cause.fails_over:
            await self._fail_over()
        elif not cause.loses_disk:
            await asyncio.sleep(OFF_S)

    async def _fail_over(self) -> None:
        bus = self._stage.bus
        await until(partial(self._stage.is_missed, EDGE.name), MISSED_S, LOOK_EVERY_S)
        question = ForecastFailover(job=self._name)
        self._forecast = await bus.request(question, deadline_s=ASK_S, attempt_s=ATTEMPT_S)
        begun = time.monotonic()
        command = FailOverJob(job=self._name)
        answer = await bus.request(command, deadline_s=FAIL_OVER_S, attempt_s=ATTEMPT_S)
        self._failover_s = time.monotonic() - begun
        if answer.state is not OperationState.COMPLETED:
            raise RuntimeError(f"{self._name} did not go on: {answer.state}, {answer.note}")


BENCHMARK = Benchmark("losses", "what is lost by what cause", (), measure, True)
