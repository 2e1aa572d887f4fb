"""A job moves by each strategy while it reads events, and every result is judged."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any

import pytest

from running.command_line import MESH_TIMEOUT_S, STEP_S
from running.flow import BY_ARRIVAL, KEYS, PER_SECOND, WINDOW, flowing, job, move, numbers, stored, windows
from running.promises import promise
from running.waiting import eventually
from running.whole_mesh import WholeMesh
from towpath.bus import Bus
from towpath.cli.connection import open_bus
from towpath.contracts.commands import DeployJob, RemoveJob, StrategyName
from towpath.contracts.job import JobSpec
from towpath.streams.pages import last_serial

pytestmark = pytest.mark.timeout(MESH_TIMEOUT_S)

CLOSED_BY = 6 * PER_SECOND
"""Events that a window waits for, beside its own: the watermark's delay, and a second to pass it."""

Finished = Callable[[Bus, int], Awaitable[bool]]
"""Returns true once the job has published all results of this many events."""


async def move_under_load(
    mesh: WholeMesh, strategy: StrategyName, operator: dict[str, Any] | None, finished: Finished
) -> tuple[int, list[dict[str, Any]], list[int]]:
    """Deploy a job and move it while events flow.

    Return the number of events sent, the job's results, and the events' numbers if it passes them on.
    """
    name, topic = f"by-{strategy}", f"site/by-{strategy}"
    async with open_bus(mesh.at) as bus:
        spec = JobSpec.model_validate(job(name, topic, f"moved/{strategy}", operator))
        await bus.request(DeployJob(spec=spec), deadline_s=STEP_S)

        async def publishes() -> bool:
            return await last_serial(bus.connection, "jfk", f"OUT_{name}") > KEYS

        async with flowing(mesh.state, topic) as load:
            await eventually(publishes)
            await move(bus, name, "cloud", strategy)
            moment = load.sent + CLOSED_BY + PER_SECOND

            async def flows_on() -> bool:
                return load.sent > moment

            await eventually(flows_on)
        await eventually(lambda: finished(bus, load.sent))
        results = await stored(bus, f"OUT_{name}")
        passed_on = await numbers(bus, f"OUT_{name}") if operator is None else []
        await bus.request(RemoveJob(job=name, purge=True), deadline_s=STEP_S)
    assert {result["site"] for result in results} == {"jfk", "cloud"}
    return load.sent, results, passed_on


def closed(sent: int) -> int:
    """Return the number of one-second windows that must have closed after `sent` events."""
    return (sent - CLOSED_BY) // PER_SECOND


@promise("strategies")
@promise("exactly once")
@pytest.mark.parametrize("strategy", [StrategyName.HANDOVER, StrategyName.GENERAL])
async def test_windows_when_their_job_moves_then_each_comes_once_with_all_its_events(
    shared_mesh: WholeMesh, strategy: StrategyName
) -> None:
    async def finished(bus: Bus, sent: int) -> bool:
        return await last_serial(bus.connection, "jfk", f"OUT_by-{strategy}") >= closed(sent) * KEYS

    sent, results, _ = await move_under_load(shared_mesh, strategy, WINDOW, finished)

    assert set(windows(results).values()) == {1}
    assert {result["values"]["events"] for result in results} == {PER_SECOND // KEYS}
    assert len(results) >= closed(sent) * KEYS


async def test_processing_windows_when_their_job_runs_twice_in_parallel_then_partition_the_events(
    shared_mesh: WholeMesh,
) -> None:
    async def finished(bus: Bus, sent: int) -> bool:
        return sum(result["values"]["events"] for result in await stored(bus, "OUT_by-parallel")) >= sent

    sent, results, _ = await move_under_load(shared_mesh, StrategyName.PARALLEL, BY_ARRIVAL, finished)

    assert sum(result["values"]["events"] for result in results) == sent
    assert all(one["through"] == following["after"] for one, following in pairwise(results))


@promise("strategies")
async def test_stateless_job_when_it_is_restarted_elsewhere_then_passes_each_event_on_once(
    shared_mesh: WholeMesh,
) -> None:
    async def finished(bus: Bus, sent: int) -> bool:
        return await last_serial(bus.connection, "jfk", "OUT_by-restart") >= sent

    sent, _, passed_on = await move_under_load(shared_mesh, StrategyName.RESTART, None, finished)

    assert passed_on == list(range(sent))
