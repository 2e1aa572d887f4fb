"""A job that is well goes on when the site of its results is lost, and they are sent elsewhere."""

from __future__ import annotations

import pytest

from running.command_line import MESH_TIMEOUT_S, STEP_S
from running.flow import flowing, job, numbers
from running.waiting import eventually
from running.whole_mesh import WholeMesh
from towpath.cli.connection import open_bus
from towpath.contracts.commands import DeployJob, ListSites, RemoveJob, UpdateJob
from towpath.contracts.job import JobSpec
from towpath.contracts.site import SiteState
from towpath.streams.pages import last_serial

pytestmark = pytest.mark.timeout(MESH_TIMEOUT_S)

BACK_S = 180.0
"""Time limit for a site to be missed, or to be an ordinary one again, while other tests run."""


async def test_results_when_their_site_is_lost_and_they_go_elsewhere_then_none_is_missing(
    shared_mesh: WholeMesh,
) -> None:
    places = {"site": "jfk", "output": {"topic": "kept/out", "site": "cloud"}}
    spec = JobSpec.model_validate(job("kept", "site/kept", "kept/out", **places))
    at_home = spec.output.model_copy(update={"site": "jfk"})
    async with open_bus(shared_mesh.at) as bus:
        await bus.request(DeployJob(spec=spec), deadline_s=STEP_S)

        async def cloud_is(state: SiteState) -> bool:
            found = (await bus.request(ListSites(), deadline_s=STEP_S)).sites
            return next(each.state for each in found if each.site == "cloud") is state

        async with flowing(shared_mesh.state, "site/kept") as load:

            async def publishes() -> bool:
                return await last_serial(bus.connection, "cloud", "OUT_kept") > 100

            await eventually(publishes, BACK_S)
            shared_mesh.succeed("link", "cloud", "--cut")
            try:
                await eventually(lambda: cloud_is(SiteState.DOWN), BACK_S)
                moved = UpdateJob(spec=spec.model_copy(update={"output": at_home}), force=True)
                await bus.request(moved, deadline_s=BACK_S)
            finally:
                shared_mesh.succeed("link", "cloud", "--restore")
            await eventually(lambda: cloud_is(SiteState.UP), BACK_S)

        async def all_are_there() -> bool:
            return max(await numbers(bus, "OUT_kept_1"), default=0) == load.sent - 1

        await eventually(all_are_there, BACK_S)
        former, present = await numbers(bus, "OUT_kept", "cloud"), await numbers(bus, "OUT_kept_1")
        await bus.request(RemoveJob(job="kept"), deadline_s=STEP_S)
    assert former == [*range(len(former))]
    assert present == [*range(present[0], load.sent)]
    assert present[0] <= len(former), "nothing is missing between the two"
