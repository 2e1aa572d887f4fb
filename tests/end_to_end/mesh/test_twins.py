"""A job has a twin at another site: results flow on when one of the two stands still, each of them once."""

from __future__ import annotations

import pytest

from running.command_line import MESH_TIMEOUT_S, STEP_S
from running.flow import KEYS, PER_SECOND, WINDOW, flowing, job, stored, windows
from running.stillness import still
from running.waiting import eventually
from running.whole_mesh import WholeMesh
from towpath.bus import Bus
from towpath.cli.connection import open_bus
from towpath.contracts.commands import (
    AbortMigration,
    DeployJob,
    FinishMigration,
    ListJobs,
    MigrateJob,
    OperationState,
    RemoveJob,
    StrategyName,
)
from towpath.contracts.job import JobSpec
from towpath.streams.pages import last_serial

pytestmark = pytest.mark.timeout(MESH_TIMEOUT_S)

NAME, TOPIC, STREAM = "with-twin", "site/with-twin", "OUT_with-twin"
SOME = 4 * KEYS
"""Results of some windows."""


async def more_results(bus: Bus) -> None:
    """Wait until there are results of some more windows."""
    wanted = await last_serial(bus.connection, "jfk", STREAM) + SOME

    async def are_there() -> bool:
        return await last_serial(bus.connection, "jfk", STREAM) >= wanted

    await eventually(are_there)


async def twin_of(bus: Bus) -> str:
    """Let the cloud run the job, too. Return the operation."""
    command = MigrateJob(job=NAME, to="cloud", strategy=StrategyName.TWIN)
    answer = await bus.request(command, deadline_s=STEP_S)
    assert answer.state is OperationState.RUNNING
    assert "both publish" in answer.note
    return answer.operation


async def site_of(bus: Bus) -> str:
    return (await bus.request(ListJobs(), deadline_s=STEP_S)).named(NAME).site


async def test_job_when_it_has_a_twin_and_either_stands_still_then_results_flow_on_each_once(
    shared_mesh: WholeMesh,
) -> None:
    async with open_bus(shared_mesh.at) as bus:
        spec = JobSpec.model_validate(job(NAME, TOPIC, "moved/with-twin", WINDOW))
        await bus.request(DeployJob(spec=spec), deadline_s=STEP_S)
        async with flowing(shared_mesh.state, TOPIC):
            await more_results(bus)
            first = await twin_of(bus)
            with still(shared_mesh.at.run, "jfk-engine"):
                await more_results(bus)
            with still(shared_mesh.at.run, "cloud-engine"):
                await more_results(bus)
            await more_results(bus)

            ended = await bus.request(AbortMigration(operation=first), deadline_s=STEP_S)
            assert (ended.state, await site_of(bus)) == (OperationState.ROLLED_BACK, "jfk")
            await more_results(bus)

            second = await twin_of(bus)
            with still(shared_mesh.at.run, "jfk-engine"):
                await more_results(bus)
            ended = await bus.request(FinishMigration(operation=second), deadline_s=STEP_S)
            assert (ended.state, await site_of(bus)) == (OperationState.COMPLETED, "cloud")
            await more_results(bus)

        results = await stored(bus, STREAM)
        await bus.request(RemoveJob(job=NAME, purge=True), deadline_s=STEP_S)

    assert set(windows(results).values()) == {1}
    assert {result["values"]["events"] for result in results} == {PER_SECOND // KEYS}
    assert {result["site"] for result in results} == {"jfk", "cloud"}
    starts = {start for start, _ in windows(results)}
    assert len(results) == len(starts) * KEYS, "a window lacks a key"
