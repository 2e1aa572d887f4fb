"""A site takes no event before its agent has made the stream that keeps it."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiomqtt
import pytest

from running.mesh import Mesh
from running.waiting import WITHIN_S, eventually
from towpath.contracts.data_plane import IN_STREAM
from towpath.contracts.site import MeshSpec, SiteSpec
from towpath.mesh.home import Home
from towpath.mesh.provisioning import provision
from towpath.streams.pages import last_serial


@pytest.fixture
def mesh(tmp_path: Path) -> Mesh:
    """A site alone: its hub does not run."""
    home = Home(tmp_path / "mesh")
    return Mesh(provision(home, MeshSpec(sites=[SiteSpec(name="jfk")])), home, {})


@contextlib.asynccontextmanager
async def agent(mesh: Mesh) -> AsyncIterator[None]:
    command = [sys.executable, "-m", "towpath.agent", "--home", str(mesh.home.root), "--site", "jfk"]
    with mesh.home.log("jfk-agent").open("ab") as log:
        process = await asyncio.create_subprocess_exec(*command, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        await asyncio.wait_for(process.wait(), WITHIN_S)


async def first_acknowledgement(mesh: Mesh) -> bool:
    """Publish an event with QoS 1, as soon as anyone listens, and wait for its acknowledgement."""

    async def acknowledged() -> bool:
        try:
            async with mesh.device("jfk") as device:
                await device.publish("site/first", b"1", qos=1, timeout=5)
        except (aiomqtt.MqttError, OSError):
            return False
        return True

    return bool(await eventually(acknowledged))


async def test_event_when_a_site_starts_for_the_first_time_or_comes_back_empty_then_is_kept_if_acknowledged(
    mesh: Mesh,
) -> None:
    for _ in range(2):
        async with agent(mesh):
            await first_acknowledgement(mesh)
            async with mesh.agent("jfk") as client:
                kept = await last_serial(client, "jfk", IN_STREAM)
                assert (await client.jetstream().get_msg(IN_STREAM, kept)).data == b"1"
        shutil.rmtree(mesh.home.nats("jfk"))
