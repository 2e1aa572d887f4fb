"""Any process may be killed at any moment: the main job recovers by itself, and every result is right."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from dataclasses import replace

import pytest

from running.waiting import WITHIN_S, eventually
from towpath.cli.starting import wait_until_up
from towpath.contracts.commands import StrategyName
from towpath.contracts.errors import TowpathError
from towpath.contracts.site import EngineSpec, MeshSpec, SiteSpec
from towpath.lab.demonstration.pipeline import MOVING_JOB, SITES
from towpath.lab.demonstration.scenario import MIGRATE_S, DemonstrationOptions, moving_scenario
from towpath.lab.harness.journal import Entry, Journal
from towpath.lab.harness.report import Judgement
from towpath.lab.harness.stage import Stage, connected_stage
from towpath.lab.scenarios.report import RunReport
from towpath.lab.scenarios.run import Run
from towpath.mesh import lifecycle
from towpath.mesh.home import Home
from towpath.processes import find

OPTIONS = DemonstrationOptions(per_airport=4_000, rate=200.0, malformed_every=150)
VICTIMS = {
    ("jfk-engine", "cloud-engine"): StrategyName.HANDOVER,
    ("jfk-agent", "coordinator"): StrategyName.GENERAL,
    ("jfk-nats", "redis"): StrategyName.HANDOVER,
}
"""Processes to kill, and how: the first while the job moves away, the second while it comes back."""
RESTARTED_S = 3 * WITHIN_S
"""Long enough even for a process whose supervisor was killed with it."""

MID_MIGRATION_S = 0.5
"""Time after the command: a migration takes one to three seconds."""

pytestmark = pytest.mark.timeout(420)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """One mesh for all runs; each run deploys and removes its own jobs."""
    home = Home(tmp_path_factory.mktemp("mesh"))
    engine = EngineSpec(memory="640m", state_memory_mb=64)
    lifecycle.up(home, MeshSpec(sites=[SiteSpec(name=name, engine=engine) for name in SITES]))
    try:
        asyncio.run(wait_until_up(home, SITES, 240, lambda text: None))
        yield home
    finally:
        lifecycle.down(home)


def kill(home: Home, name: str) -> int:
    """Send SIGKILL to the process alone, not to its children, as the kernel does when memory is short."""
    record = find(home.run, name)
    assert record is not None, f"{name} does not run"
    os.kill(record.pid, signal.SIGKILL)
    return record.pid


async def restarted(home: Home, name: str, killed: int) -> None:

    async def is_another() -> bool:
        record = await asyncio.to_thread(find, home.run, name)
        return record is not None and record.pid != killed

    await eventually(is_another, within_s=RESTARTED_S)


async def under_load(stage: Stage) -> None:
    """Return when the moving job has processed some events."""

    async def has_processed_some() -> bool:
        try:
            jobs = await stage.ask_jobs()
        except TowpathError:
            return False
        status = next((job.status for job in jobs if job.spec.name == MOVING_JOB), None)
        return status is not None and status.events > 200

    await eventually(has_processed_some, within_s=RESTARTED_S)


async def run_while_killing(home: Home, victims: tuple[str, str]) -> RunReport:
    """Run the demonstration. Each victim dies once in steady flow, and once in the migration that follows."""
    begun: asyncio.Queue[str] = asyncio.Queue()

    def hear(text: str) -> None:
        if text.startswith("migrate"):
            begun.put_nowait(text)

    scenario = moving_scenario(replace(OPTIONS, strategy=VICTIMS[victims]))
    journal = Journal(None)
    async with connected_stage(home) as stage:

        def phases() -> list[str]:
            return [line["phase"] for line in journal.of(Entry.PHASE)]

        async def killer() -> None:
            await eventually(lambda: "during" in phases(), within_s=RESTARTED_S)
            await under_load(stage)
            for number, victim in enumerate(victims, 1):
                await restarted(home, victim, kill(home, victim))
                await begun.get()
                await asyncio.sleep(MID_MIGRATION_S)
                await restarted(home, victim, kill(home, victim))
                await eventually(lambda n=number: len([*journal.of(Entry.STEP)]) >= n, within_s=MIGRATE_S)

        killing = asyncio.create_task(killer())
        try:
            report = await Run(stage, scenario, journal, say=hear).play()
            assert killing.done(), f"the victims were not killed twice: {report.problems}"
            await killing
            return report
        finally:
            killing.cancel()
            await asyncio.gather(killing, return_exceptions=True)


@pytest.mark.parametrize("victims", VICTIMS, ids=" and ".join)
async def test_main_job_when_processes_are_killed_then_every_result_arrives_once_and_right(
    home: Home, victims: tuple[str, str]
) -> None:
    report = await run_while_killing(home, victims)
    found = Judgement.together(report.verdicts.values())
    assert found.clean, report
    assert not report.broken, report.problems
    assert found.results == found.expected + found.redelivered
    assert [(m.source, m.target) for m in report.migrations] == [("jfk", "cloud"), ("cloud", "jfk")]
