"""Hundreds of migrations in a row, under load and under kills.

TOWPATH_MIGRATIONS=300 makes a measurement of the test.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from running.command_line import MESH_TIMEOUT_S
from running.under_load import RECOVERED_S, Work, working
from running.waiting import eventually
from running.whole_mesh import WholeMesh, whole_mesh
from towpath.bus import Bus
from towpath.contracts.commands import (
    ListJobs,
    MigrateJob,
    OperationAnswer,
    OperationState,
    OperationView,
    ShowOperation,
    StrategyName,
)
from towpath.contracts.errors import TowpathError
from towpath.lab.harness.stage import connected_stage

MIGRATIONS = int(os.environ.get("TOWPATH_MIGRATIONS", "9"))

pytestmark = pytest.mark.timeout(MESH_TIMEOUT_S + 60 * MIGRATIONS)

VICTIMS = (
    *(f"{site}-{part}" for site in ("jfk", "cloud") for part in ("agent", "engine", "nats")),
    *("hub", "redis", "coordinator", "monitor"),
)
KILL_EVERY = 3
SEED = 12
ASK_S = 5.0
"""For an answer. It may be lost with the process that was killed, and is asked for again."""
LATEST_KILL_S = 3.0
"""Most seconds from the beginning of a migration to the kill."""

UNDER_WAY = (OperationState.RUNNING, OperationState.ROLLING_BACK)


@pytest.fixture
def mesh(tmp_path: Path) -> Iterator[WholeMesh]:
    with whole_mesh(tmp_path) as running:
        yield running


async def test_jobs_when_they_move_many_times_while_processes_are_killed_then_each_result_comes_once(
    mesh: WholeMesh,
) -> None:
    chance, began, outcomes = random.Random(SEED), time.monotonic(), Counter[str]()
    async with (
        connected_stage(mesh.at) as stage,
        working(stage, "moving", counts_arrivals=True) as work,
    ):
        await work.grows()
        for number in range(MIGRATIONS):
            victim = chance.choice(VICTIMS) if number % KILL_EVERY == 0 else None
            job, strategy = chance.choice(list(_moves(work)))
            asked = asyncio.create_task(move(stage.bus, job, strategy))
            if victim is not None:
                await asyncio.sleep(chance.uniform(0, LATEST_KILL_S))
                await asyncio.to_thread(kill, mesh, victim)
            ended = await asked
            outcomes[str(ended.state)] += 1
            struck = f", {victim} killed" if victim else ""
            told = f"{number} {job} {strategy}{struck}: {ended.state} {ended.note}".rstrip()
            print(f"{time.monotonic() - began:.0f} s {told}", flush=True)
            assert ended.state is not OperationState.NEEDS_OPERATOR, told
    print(f"{MIGRATIONS} migrations in {time.monotonic() - began:.0f} s: {dict(outcomes)}")


def _moves(work: Work) -> Iterator[tuple[str, StrategyName]]:
    """Yield each job with each strategy that moves it."""
    for job in (work.copy, work.counts):
        yield from ((job, strategy) for strategy in (StrategyName.HANDOVER, StrategyName.GENERAL))
    yield work.arrivals, StrategyName.PARALLEL


def kill(mesh: WholeMesh, name: str) -> None:
    """Kill a process, unless it is just being started after an earlier kill."""
    if pid := mesh.pids().get(name):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


async def move(bus: Bus, name: str, strategy: StrategyName) -> OperationView:
    """Move a job to the site where it is not. Return how that ended."""

    async def where() -> str | None:
        with suppress(TowpathError, TimeoutError):
            return (await bus.request(ListJobs(), deadline_s=ASK_S)).named(name).site
        return None

    to = "cloud" if await eventually(where, RECOVERED_S) == "jfk" else "jfk"
    # The same id at each attempt: a repeated command is carried out once.
    asked = MigrateJob(job=name, to=to, strategy=strategy, wait=False)

    async def begun() -> OperationAnswer | None:
        with suppress(TowpathError, TimeoutError):
            return await bus.request(asked, deadline_s=ASK_S)
        return None

    answer = await eventually(begun, RECOVERED_S)

    async def ended() -> OperationView | None:
        with suppress(TowpathError, TimeoutError):
            seen = await bus.request(ShowOperation(operation=answer.operation), deadline_s=ASK_S)
            return seen if seen.state not in UNDER_WAY else None
        return None

    return await eventually(ended, RECOVERED_S)
