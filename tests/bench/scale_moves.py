"""Jobs of scripted agents, and moves of these at a steady rate."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

from running.coordinator import spec
from towpath.bus import Bus
from towpath.contracts.commands import DeployJob, MigrateJob, OperationState, StrategyName
from towpath.contracts.errors import TowpathError

DEPLOYED_AT_ONCE = 8
MOST_JOBS = 200
"""As many as there are moves in a minute, so that no job moves twice in it."""
MOVE_S = 120.0
ATTEMPT_S = 30.0


@dataclass
class MovingJob:
    """A job that moves between two sites, one move at a time."""

    name: str
    at: str
    next: str
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass
class Moves:
    """Moves that were asked for."""

    asked: int = 0
    taken_s: list[float] = field(default_factory=list[float])
    """From the command to the answer that the move has ended, of those that succeeded."""
    failures: list[str] = field(default_factory=list[str])


async def deploy(client: Bus, pairs: Sequence[tuple[str, str]]) -> list[MovingJob]:
    """Deploy a job at the first site of each pair, up to `MOST_JOBS`. Raises `TowpathError`."""
    slots = asyncio.Semaphore(DEPLOYED_AT_ONCE)

    async def one(pair: tuple[str, str]) -> MovingJob:
        site, other = pair
        name = f"job-{site}"
        described = spec(name, site=site, inputs=[{"site": site, "topic": "site/departures"}])
        async with slots:
            await client.request(DeployJob(spec=described), deadline_s=MOVE_S, attempt_s=ATTEMPT_S)
        return MovingJob(name, site, other)

    return list(await asyncio.gather(*(one(pair) for pair in pairs[:MOST_JOBS])))


async def move(client: Bus, jobs: Sequence[MovingJob], per_minute: float, seconds: float) -> Moves:
    """Ask for moves at a rate, whatever the earlier ones do, and wait until all have ended."""
    moves, begun, every_s = Moves(), time.monotonic(), 60 / per_minute
    async with asyncio.TaskGroup() as moving:
        while moves.asked * every_s < seconds:
            await asyncio.sleep(max(0.0, begun + moves.asked * every_s - time.monotonic()))
            moving.create_task(_move(client, jobs[moves.asked % len(jobs)], moves))
            moves.asked += 1
    return moves


async def _move(client: Bus, job: MovingJob, moves: Moves) -> None:
    begun = time.perf_counter()
    async with job.lock:
        command = MigrateJob(job=job.name, to=job.next, strategy=StrategyName.GENERAL)
        try:
            answer = await client.request(command, deadline_s=MOVE_S, attempt_s=ATTEMPT_S)
        except TowpathError as error:
            moves.failures.append(f"{job.name}: {error}")
            return
        if answer.state is not OperationState.COMPLETED:
            moves.failures.append(f"{job.name}: {answer.state}, {answer.note}")
            return
        job.at, job.next = job.next, job.at
    moves.taken_s.append(time.perf_counter() - begun)
