"""A site restarts under load with the version that is installed; its jobs are elsewhere meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from running.command_line import MESH_TIMEOUT_S, STEP_S
from running.under_load import working
from running.whole_mesh import WholeMesh
from towpath.contracts.site import SiteStatus
from towpath.lab.harness.stage import Stage, connected_stage
from towpath.mesh.version import installed_version

pytestmark = [pytest.mark.timeout(MESH_TIMEOUT_S), pytest.mark.kills]


async def jfk(stage: Stage) -> SiteStatus:
    return next(site for site in await stage.ask_sites() if site.site == "jfk")


async def test_site_when_it_is_upgraded_under_load_then_each_result_comes_once_and_jobs_are_back(
    shared_mesh: WholeMesh,
) -> None:
    async with connected_stage(shared_mesh.at) as stage, working(stage, "upgraded") as work:
        await work.grows()
        before, agent = await jfk(stage), shared_mesh.pids()["jfk-agent"]

        upgrade = ("upgrade", "jfk", "--to", "cloud", "--within", str(STEP_S))
        told = await asyncio.to_thread(shared_mesh.succeed, *upgrade)

        await work.grows()
        after = await jfk(stage)
        assert shared_mesh.pids()["jfk-agent"] != agent
        assert before.begun_at != after.begun_at
        assert after.version == installed_version()
        assert f"jfk runs version {after.version}" in told
        sites = {view.spec.name: view.site for view in await stage.ask_jobs()}
        assert {sites[job] for job in work.jobs} == {"jfk"}
