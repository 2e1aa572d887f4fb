"""One job for each strategy: all move at the same time, while events flow that all of them read."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
import pytest_asyncio

from running.command_line import MESH_TIMEOUT_S, STEP_S
from running.flow import KEYS, PER_SECOND, WINDOW, flowing, job, numbers, stored, windows
from running.promises import promise
from running.waiting import eventually
from running.whole_mesh import WholeMesh
from towpath.bus import Bus
from towpath.cli.connection import open_bus
from towpath.contracts.commands import DeployJob, MigrateJob, OperationState, RemoveJob, StrategyName
from towpath.contracts.job import JobSpec
from towpath.streams.pages import last_serial

pytestmark = [pytest.mark.timeout(MESH_TIMEOUT_S), promise("strategies"), promise("exactly once")]

TOPIC = "site/moving"
BY_ARRIVAL: dict[str, Any] = {
    "kind": "processing_window",
    "fields": {"key": "string"},
    "size_s": 1,
    "aggregates": {"events": {"function": "count"}},
}
OPERATORS = {
    StrategyName.HANDOVER: WINDOW,
    StrategyName.GENERAL: WINDOW,
    StrategyName.PARALLEL: BY_ARRIVAL,
    StrategyName.RESTART: None,
}
CLOSED_BY = 6 * PER_SECOND
"""Events that a window waits for, beside its own: the watermark's delay, and a second to pass it."""


@dataclass
class Moved:
    """What came of the moves."""

    sent: int
    states: dict[StrategyName, OperationState]
    results: dict[StrategyName, list[dict[str, Any]]]
    forwarded: list[int]
    """The events' numbers, as the job that passes them on published them."""


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def moved(shared_mesh: WholeMesh) -> Moved:
    """Four jobs have moved from jfk to cloud, each by its strategy, and have finished what was sent."""
    async with open_bus(shared_mesh.at) as bus:
        for strategy, operator in OPERATORS.items():
            spec = job(f"by-{strategy}", TOPIC, f"moved/{strategy}", operator)
            await bus.request(DeployJob(spec=JobSpec.model_validate(spec)), deadline_s=STEP_S)
        async with flowing(shared_mesh.state, TOPIC) as load:

            async def all_publish() -> bool:
                return all([await last_serial(bus.connection, "jfk", stream(s)) > KEYS for s in OPERATORS])

            await eventually(all_publish)
            states = await asyncio.gather(*(move(bus, strategy) for strategy in OPERATORS))
            moment = load.sent + CLOSED_BY + 2 * PER_SECOND

            async def flows_on() -> bool:
                return load.sent > moment

            await eventually(flows_on)

        async def finished() -> bool:
            return await is_finished(bus, load.sent)

        await eventually(finished)
        results = {strategy: await stored(bus, stream(strategy)) for strategy in OPERATORS}
        forwarded = await numbers(bus, stream(StrategyName.RESTART))
        for strategy in OPERATORS:
            await bus.request(RemoveJob(job=f"by-{strategy}", purge=True), deadline_s=STEP_S)
    return Moved(load.sent, dict(zip(OPERATORS, states, strict=True)), results, forwarded)


def stream(strategy: StrategyName) -> str:
    """The OUT stream of the job that moves by the strategy."""
    return f"OUT_by-{strategy}"


async def move(bus: Bus, strategy: StrategyName) -> OperationState:
    """Move the strategy's job; return how the migration ended."""
    command = MigrateJob(job=f"by-{strategy}", to="cloud", strategy=strategy)
    return (await bus.request(command, deadline_s=STEP_S, attempt_s=30)).state


def closed(sent: int) -> int:
    """How many windows of a second must have closed after so many events."""
    return (sent - CLOSED_BY) // PER_SECOND


async def is_finished(bus: Bus, sent: int) -> bool:
    """Whether every job has published what it can of the events sent."""
    counted = [len(await stored(bus, stream(s))) for s in (StrategyName.HANDOVER, StrategyName.GENERAL)]
    arrived = sum(r["values"]["events"] for r in await stored(bus, stream(StrategyName.PARALLEL)))
    forwarded = await last_serial(bus.connection, "jfk", stream(StrategyName.RESTART))
    return min(counted) >= closed(sent) * KEYS and arrived >= sent and forwarded >= sent


@pytest.mark.parametrize("strategy", OPERATORS)
async def test_job_when_it_moves_while_events_flow_then_its_migration_completes(
    moved: Moved, strategy: StrategyName
) -> None:
    assert moved.states[strategy] is OperationState.COMPLETED
    assert {result["site"] for result in moved.results[strategy]} == {"jfk", "cloud"}


@pytest.mark.parametrize("strategy", [StrategyName.HANDOVER, StrategyName.GENERAL])
async def test_windows_when_their_job_moves_then_each_comes_once_with_all_its_events(
    moved: Moved, strategy: StrategyName
) -> None:
    results = moved.results[strategy]

    assert set(windows(results).values()) == {1}
    assert {result["values"]["events"] for result in results} == {PER_SECOND // KEYS}
    assert len(results) >= closed(moved.sent) * KEYS


async def test_processing_windows_when_their_job_runs_twice_in_parallel_then_partition_the_events(
    moved: Moved,
) -> None:
    results = moved.results[StrategyName.PARALLEL]

    assert sum(result["values"]["events"] for result in results) == moved.sent
    assert all(one["through"] == next_one["after"] for one, next_one in pairwise(results))


async def test_stateless_job_when_it_is_restarted_elsewhere_then_passes_each_event_on_once(
    moved: Moved,
) -> None:
    assert moved.forwarded == list(range(moved.sent))
