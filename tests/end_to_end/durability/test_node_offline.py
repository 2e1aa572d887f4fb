"""A node far from anyone: its link is down, its power fails, and it works on. Later everything arrives.

TOWPATH_CUTS=50 makes a measurement of the test. It needs `fuse3` and `libfuse2` of Debian.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from nats.errors import Error as NatsError

from running.command_line import MESH_TIMEOUT_S, STEP_S
from running.flow import job, numbers
from running.mesh import answers_request
from running.power import PowerSafeMesh
from running.under_load import RECOVERED_S, Work, working
from running.waiting import eventually
from towpath.bus import Bus
from towpath.bus.connecting import Login, connect_once
from towpath.contracts.commands import DeployJob, RemoveJob
from towpath.contracts.data_plane import output_stream
from towpath.contracts.job import JobSpec
from towpath.contracts.links import LinkConditions, RestoreLink, ShapeLink
from towpath.lab.guard.machine import Machine
from towpath.lab.harness.stage import Stage, connected_stage
from towpath.streams.pages import last_serial

CUTS = int(os.environ.get("TOWPATH_CUTS", "3"))

pytestmark = pytest.mark.timeout(MESH_TIMEOUT_S + 60 * CUTS)

AT_THE_HUB = "cloud-copy"


async def test_node_when_its_power_fails_while_its_link_is_down_then_it_works_on_and_all_arrives_later(
    power_safe: PowerSafeMesh,
) -> None:
    chance, node = random.Random(6), Machine(power_safe.mesh.at, "jfk")
    async with connected_stage(power_safe.mesh.at) as stage, working(stage, "offline") as work:
        async with followed(stage.bus, work):
            async with link_down(stage.bus, "jfk"):
                for _ in range(CUTS):
                    await works_alone(stage, work)
                    await asyncio.sleep(chance.uniform(0, 3))
                    await asyncio.to_thread(node.cut_power)
                await works_alone(stage, work)
            made = await eventually(lambda: _results(stage, work), RECOVERED_S)
            await eventually(lambda: _has_followed(stage.bus, made), RECOVERED_S)
            followers = await numbers(stage.bus, output_stream(AT_THE_HUB), "cloud")
            assert followers == (await numbers(stage.bus, output_stream(work.copy)))[: len(followers)]
        print(f"{CUTS} power cuts of a node without link, {made:,} results arrived later, each once")


@asynccontextmanager
async def followed(bus: Bus, work: Work) -> AsyncIterator[None]:
    """Let a job at the cloud read the results of the node's job within the block."""
    reads = [{"site": "jfk", "topic": f"{work.name}/{work.copy}"}]
    output = {"topic": f"{work.name}/{AT_THE_HUB}", "site": "cloud"}
    spec = job(AT_THE_HUB, "", "", site="cloud", inputs=reads, output=output)
    await bus.request(DeployJob(spec=JobSpec.model_validate(spec)), deadline_s=STEP_S)
    yield
    await bus.request(RemoveJob(job=AT_THE_HUB, purge=True), deadline_s=STEP_S)


@asynccontextmanager
async def link_down(bus: Bus, site: str) -> AsyncIterator[None]:
    """Cut a site's link to the hub within the block."""
    await bus.request(ShapeLink(site=site, conditions=LinkConditions(cut=True)), deadline_s=STEP_S)
    is_down = f"$JS.{site}.API.STREAM.NAMES"

    async def does_not_answer() -> bool:
        return not await answers_request(bus.connection, is_down)

    await eventually(does_not_answer)
    try:
        yield
    finally:
        await bus.request(RestoreLink(site=site), deadline_s=STEP_S)


async def works_alone(stage: Stage, work: Work) -> None:
    """Wait until the node's job has published more than before, as seen at the node itself."""
    before = await eventually(lambda: _seen_at_the_node(stage, work), RECOVERED_S)

    async def has_grown() -> bool:
        return (await _seen_at_the_node(stage, work) or 0) > before

    await eventually(has_grown, RECOVERED_S)


async def _seen_at_the_node(stage: Stage, work: Work) -> int | None:
    """Return how many results the node's job has published; none while its server is down."""
    site = stage.mesh.site("jfk")
    login = site.login("agent")
    with contextlib.suppress(OSError, TimeoutError, NatsError):
        connection = await connect_once(Login(site.nats_url, login.user, login.password), "test")
        try:
            return await last_serial(connection, "jfk", output_stream(work.copy)) or None
        finally:
            await connection.close()
    return None


async def _results(stage: Stage, work: Work) -> int | None:
    """Return the same, as seen from the hub."""
    with contextlib.suppress(TimeoutError, NatsError):
        return await last_serial(stage.bus.connection, "jfk", output_stream(work.copy))
    return None


async def _has_followed(bus: Bus, made: int) -> bool:
    return await last_serial(bus.connection, "cloud", output_stream(AT_THE_HUB)) >= made
