"""A site and the hub restart under load with the version that is installed; jobs run on."""

from __future__ import annotations

import asyncio

import pytest

from running.command_line import MESH_TIMEOUT_S, UP_S
from running.under_load import working
from running.whole_mesh import WholeMesh
from towpath.contracts.commands import OperationState
from towpath.contracts.site import SiteStatus
from towpath.lab.harness.stage import Stage, connected_stage
from towpath.mesh.version import installed_version

pytestmark = [pytest.mark.timeout(MESH_TIMEOUT_S), pytest.mark.kills]


async def jfk(stage: Stage) -> SiteStatus:
    return next(site for site in await stage.ask_sites() if site.site == "jfk")


async def upgraded(mesh: WholeMesh) -> str:
    """Upgrade jfk. Call it again, as users do, if a move did not end in time on a busy machine."""
    while True:
        ended = await asyncio.to_thread(mesh.call, "upgrade", "jfk", "--to", "cloud", "--within", str(UP_S))
        if ended.returncode == 0:
            return ended.stdout
        assert OperationState.ROLLED_BACK in ended.stderr, ended.stderr


async def test_site_when_it_is_upgraded_without_jobs_then_another_agent_and_another_server_run(
    shared_mesh: WholeMesh,
) -> None:
    async with connected_stage(shared_mesh.at) as stage:
        before, pids = await jfk(stage), shared_mesh.pids()

        told = await upgraded(shared_mesh)

        after, pids_after = await jfk(stage), shared_mesh.pids()
    assert before.begun_at != after.begun_at
    assert {name for name in pids if pids[name] != pids_after[name]} == {"jfk-agent", "jfk-nats"}
    assert f"jfk runs version {installed_version()}" in told
    assert not shared_mesh.at.upgrade("jfk").exists()


async def test_site_when_it_is_upgraded_under_load_then_each_result_comes_once_and_jobs_are_back(
    shared_mesh: WholeMesh,
) -> None:
    async with connected_stage(shared_mesh.at) as stage, working(stage, "upgraded") as work:
        before, agent = await jfk(stage), shared_mesh.pids()["jfk-agent"]

        await upgraded(shared_mesh)

        await work.grows()
        after = await jfk(stage)
        assert shared_mesh.pids()["jfk-agent"] != agent
        assert before.begun_at != after.begun_at
        sites = {view.spec.name: view.site for view in await stage.ask_jobs()}
        assert {sites[job] for job in work.jobs} == {"jfk"}


async def test_hub_when_it_is_upgraded_under_load_then_its_services_are_new_and_each_result_comes_once(
    shared_mesh: WholeMesh,
) -> None:
    async with connected_stage(shared_mesh.at) as stage, working(stage, "carried") as work:
        before = shared_mesh.pids()

        told = await asyncio.to_thread(shared_mesh.succeed, "upgrade", "hub", "--within", str(UP_S))

        await work.grows()
        after = shared_mesh.pids()
    kept = {"hub", "redis", *(name for name in before if name.startswith(("jfk-", "cloud-")))}
    assert {name for name in before if before[name] == after[name]} == kept
    assert f"the hub runs version {installed_version()}" in told
