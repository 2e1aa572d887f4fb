"""A node far from anyone: its link is down, its power fails, and it works on. Later everything arrives.

Someone at the node changes a limit meanwhile. It holds after each power cut, and the hub adopts it later.

TOWPATH_CUTS=50 makes a measurement of the test. It needs `fuse3` and `libfuse2` of Debian.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeVar

import pytest
from nats.aio.client import Client
from nats.errors import Error as NatsError

from running.command_line import MESH_TIMEOUT_S, STEP_S
from running.flow import KEYS, job, numbers, stored
from running.mesh import answers_request
from running.power import PowerSafeMesh
from running.under_load import RECOVERED_S, Work, working
from running.waiting import eventually
from running.whole_mesh import WholeMesh
from towpath.bus import Bus
from towpath.bus.connecting import Login, connect_once
from towpath.contracts.commands import DeployJob, RemoveJob
from towpath.contracts.data_plane import output_stream
from towpath.contracts.job import JobSpec
from towpath.contracts.links import LinkConditions, RestoreLink, ShapeLink
from towpath.lab.guard.machine import Machine
from towpath.lab.harness.stage import Stage, connected_stage
from towpath.streams.pages import last_serial, read_after

CUTS = int(os.environ.get("TOWPATH_CUTS", "3"))

pytestmark = pytest.mark.timeout(MESH_TIMEOUT_S + 60 * CUTS)

FOLLOWER = "cloud-copy"

FIRST, AT_THE_NODE, AT_THE_HUB = 1000.0, 0.5, 2000.0
"""Limits of a data model, and where they were set. A result tells the limit that it was judged by."""

WINDOW_EVENTS = 50
"""A window that is full stays full, unless the state is lost."""

T = TypeVar("T")


async def test_node_when_its_power_fails_while_its_link_is_down_then_it_works_on_and_all_arrives_later(
    power_safe: PowerSafeMesh,
) -> None:
    chance, node = random.Random(6), Machine(power_safe.mesh.at, "jfk")
    async with connected_stage(power_safe.mesh.at) as stage, working(stage, "offline") as work:
        async with followed(stage.bus, work), watched(power_safe.mesh, stage, work) as model:
            async with link_down(stage.bus, "jfk"):
                await model.is_refused_another_key()
                await model.change_at_the_node(AT_THE_NODE)
                for _ in range(CUTS):
                    await works_alone(stage, work)
                    await model.has_limit(AT_THE_NODE)
                    await asyncio.sleep(chance.uniform(0, 3))
                    await asyncio.to_thread(node.cut_power)
                await works_alone(stage, work)
                await model.has_limit(AT_THE_NODE)
            await model.is_adopted(AT_THE_NODE)
            await model.change_at_the_hub(AT_THE_HUB)
            await model.judge()
            made = await eventually(lambda: _results(stage, work), RECOVERED_S)
            await eventually(lambda: _has_followed(stage.bus, made), RECOVERED_S)
            followers = await numbers(stage.bus, output_stream(FOLLOWER), "cloud")
            assert followers == (await numbers(stage.bus, output_stream(work.copy)))[: len(followers)]
        print(f"{CUTS} power cuts of a node without link, {made:,} results arrived later, each once")


@asynccontextmanager
async def followed(bus: Bus, work: Work) -> AsyncIterator[None]:
    """Let a job at the cloud read the results of the node's job within the block."""
    reads = [{"site": "jfk", "topic": f"{work.name}/{work.copy}"}]
    output = {"topic": f"{work.name}/{FOLLOWER}", "site": "cloud"}
    spec = job(FOLLOWER, "", "", site="cloud", inputs=reads, output=output)
    await bus.request(DeployJob(spec=JobSpec.model_validate(spec)), deadline_s=STEP_S)
    yield
    await bus.request(RemoveJob(job=FOLLOWER, purge=True), deadline_s=STEP_S)


@dataclass
class WatchedModel:
    """A data model at the node, which counts reports, and says with each if the count is above its limit."""

    mesh: WholeMesh
    stage: Stage
    work: Work

    @property
    def name(self) -> str:
        return f"{self.work.name}-model"

    def file(self, limit: float, key: str = "key") -> str:
        """Write the model into a file. Return its path."""
        fields = {"n": "long", "key": "string", "at": "string"}
        content = {
            "name": self.name,
            "node": "jfk",
            "input": {"topic": self.work.topic},
            "mapping": {"fields": fields},
            "key": [key],
            "windowing": {
                "shape": "rolling",
                "size_events": WINDOW_EVENTS,
                "aggregates": {"recent": {"function": "count"}},
            },
            "predictive": {
                "kind": "shewhart",
                "of": "recent",
                "mean": 0,
                "unit": "absolute",
                "limit": limit,
            },
            "output": {"topic": f"{self.work.name}/{self.name}"},
        }
        path = self.mesh.code.parent / "model.yaml"
        path.write_text(json.dumps(content))
        return str(path)

    async def change_at_the_hub(self, limit: float) -> None:
        """Apply the model as users do who reach the hub, and wait for the first result with its limit."""
        command = ("edge", "apply", self.file(limit), "--within", str(RECOVERED_S))
        await asyncio.to_thread(self.mesh.succeed, *command)
        await self.has_limit(limit)

    async def change_at_the_node(self, limit: float) -> None:
        """Do the same as someone at the node, who reaches only that."""
        command = ("edge", "apply", self.file(limit), "--here", "jfk", "--within", str(RECOVERED_S))
        (answer,) = await asyncio.to_thread(self.mesh.json, *command)
        assert answer["adjustments"] == 1
        await self.has_limit(limit)

    async def is_refused_another_key(self) -> None:
        """The node cannot give the model another key: it would need other state."""
        command = ("edge", "apply", self.file(FIRST, key="at"), "--here", "jfk")
        ended = await asyncio.to_thread(self.mesh.call, *command)
        assert ended.returncode == 2, ended.stderr
        assert "does not survive this change" in ended.stderr

    async def has_limit(self, limit: float) -> None:
        """Wait until the node publishes more results, and check that these were made with this limit."""
        before = await eventually(lambda: _newest_at_the_node(self.stage, self.name), RECOVERED_S)

        async def newer() -> dict[str, Any] | None:
            found = await _newest_at_the_node(self.stage, self.name)
            return found if found is not None and found["serial"] > before["serial"] else None

        newest = await eventually(newer, RECOVERED_S)
        assert newest["values"]["limit"] == limit, newest

    async def is_adopted(self, limit: float) -> None:
        """Wait until the registry has the limit, by an operation like any other."""

        async def has_it() -> bool:
            view = await asyncio.to_thread(self.mesh.job, self.name)
            return view is not None and view["spec"]["operator"]["steps"][-1]["model"]["limit"] == limit

        await eventually(has_it, RECOVERED_S)

    async def judge(self) -> None:
        """Check that each event came once, that the state was kept, and that each limit had its time."""
        results = await stored(self.stage.bus, output_stream(self.name))
        copied = await numbers(self.stage.bus, output_stream(self.work.copy))
        found = [result["values"]["n"] for result in results]
        shared = min(len(found), len(copied))
        assert found[:shared] == copied[:shared]
        counts = [result["values"]["recent"] for result in results]
        assert all(count == WINDOW_EVENTS for count in counts[KEYS * WINDOW_EVENTS :])
        limits = [limit for limit, _ in groupby(result["values"]["limit"] for result in results)]
        assert limits == [FIRST, AT_THE_NODE, AT_THE_HUB]
        print(f"{len(results):,} results of a model whose limit was changed at the node, and then at the hub")


@asynccontextmanager
async def watched(mesh: WholeMesh, stage: Stage, work: Work) -> AsyncIterator[WatchedModel]:
    """Let the node run a data model within the block."""
    model = WatchedModel(mesh, stage, work)
    await model.change_at_the_hub(FIRST)
    yield model
    await stage.bus.request(RemoveJob(job=model.name, purge=True), deadline_s=STEP_S)


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
    stream = output_stream(work.copy)
    return await _ask_node(stage, lambda node: last_serial(node, "jfk", stream)) or None


async def _newest_at_the_node(stage: Stage, job: str) -> dict[str, Any] | None:
    """Return a job's newest result, as seen at the node itself; none while its server is down."""
    stream = output_stream(job)

    async def newest(node: Client) -> dict[str, Any] | None:
        last = await last_serial(node, "jfk", stream)
        messages = await read_after(node, "jfk", stream, last - 1) if last else []
        return json.loads(messages[-1].body) if messages else None

    return await _ask_node(stage, newest)


async def _ask_node(stage: Stage, ask: Callable[[Client], Awaitable[T]]) -> T | None:
    """Return an answer of the node's server; none while it is down."""
    site = stage.mesh.site("jfk")
    login = site.login("agent")
    with contextlib.suppress(OSError, TimeoutError, NatsError):
        connection = await connect_once(Login(site.nats_url, login.user, login.password), "test")
        try:
            return await ask(connection)
        finally:
            await connection.close()
    return None


async def _results(stage: Stage, work: Work) -> int | None:
    """Return the same, as seen from the hub."""
    with contextlib.suppress(TimeoutError, NatsError):
        return await last_serial(stage.bus.connection, "jfk", output_stream(work.copy))
    return None


async def _has_followed(bus: Bus, made: int) -> bool:
    return await last_serial(bus.connection, "cloud", output_stream(FOLLOWER)) >= made
