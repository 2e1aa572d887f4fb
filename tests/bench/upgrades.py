"""The cost of an upgrade under load: a site with jobs restarts, and the hub's services do."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field

from accounted_flow import Account, Flow, flowing
from benchmark import CLOUD, EDGE, Benchmark, Say, Scale
from figures import Case, Measured, Target, Value, rounded
from measured_mesh import MeasuredMesh, temporary_home

from towpath.contracts.errors import TowpathError
from towpath.contracts.message import HUB_SCOPE
from towpath.contracts.site import MeshSpec
from towpath.lab.harness.stage import Stage, stage
from towpath.tasks import end

RATE = 300.0
JOBS = 2
STEADY_S = {Scale.QUICK: 5.0, Scale.DEFAULT: 20.0, Scale.FULL: 60.0}
"""Ordinary work before and after."""

UPGRADE_S = 400.0
LOOK_EVERY_S = 0.1
NEVER = Target(at_most=0)
LOST, TWICE = "lost", "twice"


@dataclass
class Told:
    """The progress that the command tells, and the seconds after its begin at which it does."""

    lines: list[tuple[float, str]] = field(default_factory=list)

    def at(self, text: str) -> float | None:
        """Return when it told this last; None if it did not."""
        return next((seconds for seconds, line in reversed(self.lines) if text in line), None)


async def measure(mesh: MeasuredMesh | None, scale: Scale, say: Say, measured: Measured) -> None:
    """Upgrade a site, and then the hub, while events flow."""
    measured.upright = True
    measured.notes += [
        f"{JOBS} jobs at {EDGE.name} pass {RATE:g} events/s each on; their results are kept at {CLOUD.name}, "
        f"where they move",
        "silent: longest time between two results of a job, or between two stored events of its device",
        "no answer: longest time for which the coordinator answers no command",
    ]
    with temporary_home() as home:
        async with stage(home, MeshSpec(sites=[EDGE, CLOUD]), say=say) as up:
            for name, options in ((EDGE.name, ["--to", CLOUD.name]), (HUB_SCOPE, [])):
                say(f"towpath upgrade {name}")
                measured.cases.append(await _upgraded(up, name, options, STEADY_S[scale]))


async def _upgraded(up: Stage, name: str, options: list[str], steady_s: float) -> Case:
    async with AsyncExitStack() as exits:
        flows = [
            await exits.enter_async_context(
                flowing(up, f"{name}-{number}", RATE, site=EDGE.name, output=CLOUD.name)
            )
            for number in range(JOBS)
        ]
        for flow in flows:
            await flow.until_ready()
        await asyncio.sleep(steady_s)
        async with _asking(up) as unanswered_s:
            begun = time.monotonic()
            told = await _command(up, ["upgrade", name, *options])
            total_s = time.monotonic() - begun
        await asyncio.sleep(steady_s)
        accounts = [await _account(flow) for flow in flows]
        lost, twice = (sum(each.lost for each in accounts), sum(each.twice for each in accounts))
        figures: dict[str, Value] = {
            "total, s": rounded(total_s, 1),
            **_parts(told, name),
            "results silent, s": rounded(max(each.silent_s for each in accounts), 1),
            "devices silent, s": rounded(max(each.input_silent_s for each in accounts), 1),
            "no answer, s": rounded(max(unanswered_s), 1),
            "acknowledged": sum(each.acknowledged for each in accounts),
            LOST: lost,
            TWICE: twice,
        }
        return Case(f"upgrade {name}", figures, {LOST: NEVER, TWICE: NEVER}, lost + twice)


def _parts(told: Told, name: str) -> dict[str, Value]:
    """Return the seconds of a site's upgrade: its jobs move away, it restarts, they come back."""
    away, back = told.at(f"restarting {name}"), told.at(f"{name} is up again")
    if away is None or back is None:
        return {}
    last = told.lines[-1][0]
    return {
        "jobs move away, s": rounded(away, 1),
        "restart, s": rounded(back - away, 1),
        "jobs come back, s": rounded(last - back, 1),
    }


async def _account(flow: Flow) -> Account:
    await flow.stop()
    return await flow.account(input_is_kept=True)


async def _command(up: Stage, arguments: list[str]) -> Told:
    """Run a `towpath` command. Raises `RuntimeError` if it fails."""
    begun, told = time.monotonic(), Told()
    command = [sys.executable, "-m", "towpath.cli", "--home", str(up.home.root), *arguments, "--json"]
    program = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    assert program.stderr is not None
    assert program.stdout is not None
    try:
        async with asyncio.timeout(UPGRADE_S):
            async for line in program.stderr:
                told.lines.append((time.monotonic() - begun, line.decode().strip()))
            said = await program.stdout.read()
            code = await program.wait()
    finally:
        if program.returncode is None:
            program.kill()
            await program.wait()
    if code:
        raise RuntimeError("; ".join(line for _, line in told.lines))
    assert json.loads(said)
    return told


@asynccontextmanager
async def _asking(up: Stage) -> AsyncIterator[list[float]]:
    """Ask for all jobs again and again within the block. Yields the seconds that each answer took."""
    took = [0.0]

    async def ask() -> None:
        begun = time.monotonic()
        while True:
            with suppress(TowpathError):
                await up.ask_jobs()
                took.append(time.monotonic() - begun)
                await asyncio.sleep(LOOK_EVERY_S)
                begun = time.monotonic()

    task = asyncio.create_task(ask(), name="asking")
    try:
        yield took
    finally:
        await end([task])


BENCHMARK = Benchmark("upgrades", "an upgrade of a site and of the hub, under load", (), measure, True)
