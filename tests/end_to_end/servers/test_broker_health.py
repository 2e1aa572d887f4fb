"""A broker whose disk was full for a moment refuses everything from then on, so the agent restarts it."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Iterator
from pathlib import Path

import nats.errors
import pytest
from nats.aio.client import Client
from nats.js.errors import Error as JetStreamError

from running.mesh import Mesh, answers_request, limit_files, running_mesh
from running.waiting import WITHIN_S, eventually
from towpath.contracts.data_plane import output_stream, sink_subject
from towpath.mesh.broker_health import BrokerHealth, has_room
from towpath.mesh.names import SERVER_HEALTH

NATS = "jfk-nats"
STREAM, SUBJECT = output_stream("j"), sink_subject("jfk", "jfk", "j", 1)


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
    with running_mesh(tmp_path_factory.mktemp("mesh")) as running:
        yield running


async def stores(agent: Client) -> bool:
    try:
        await agent.jetstream().publish(SUBJECT, b"result", timeout=1, stream=STREAM)
    except (nats.errors.Error, JetStreamError, TimeoutError):
        return False
    return True


async def fill_and_make_room(mesh: Mesh, agent: Client) -> None:
    """Let one write fail."""
    limit_files(mesh, NATS, 0)
    assert not await stores(agent)
    limit_files(mesh, NATS, resource.RLIM_INFINITY)


async def test_broker_when_its_disk_was_full_then_stores_again_with_all_it_had(mesh: Mesh) -> None:
    async with mesh.agent("jfk") as agent:
        await agent.jetstream().add_stream(name=STREAM, subjects=[SUBJECT])
        await eventually(lambda: stores(agent))
        before = (await agent.jetstream().stream_info(STREAM)).state.messages
        await fill_and_make_room(mesh, agent)
        assert not await stores(agent), "the server recovers by itself now: it need not be restarted"

        async def restart() -> None:
            await mesh.stop(NATS)
            await mesh.start(NATS)

        health = BrokerHealth(agent, mesh.home.nats("jfk"), restart=restart)
        watching = asyncio.create_task(health.watch())
        try:
            await eventually(lambda: stores(agent))
            assert (await agent.jetstream().stream_info(STREAM)).state.messages > before
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)


async def test_broker_when_it_works_then_is_left_alone(mesh: Mesh) -> None:
    restarts: list[str] = []

    async def restart() -> None:
        restarts.append("restarted")

    async with mesh.agent("lga") as agent:
        asked = await agent.request(SERVER_HEALTH, b"", timeout=WITHIN_S)
        assert b'"ok"' in asked.data
        watching = asyncio.create_task(BrokerHealth(agent, mesh.home.nats("lga"), restart=restart).watch())
        await asyncio.wait({watching}, timeout=2.5)  # Two looks.
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    assert restarts == []


async def test_health_of_the_hub_when_the_operator_asks_then_is_told(mesh: Mesh) -> None:
    async with mesh.operator() as operator:
        asked = await operator.request(SERVER_HEALTH, b"", timeout=WITHIN_S)
        assert b'"ok"' in asked.data


async def test_health_of_a_site_when_asked_at_the_hub_then_is_not_told(mesh: Mesh) -> None:
    async with mesh.coordinator() as coordinator:
        assert not await answers_request(coordinator, SERVER_HEALTH)


def test_room_when_nothing_can_be_written_then_there_is_none(tmp_path: Path) -> None:
    assert has_room(tmp_path)
    assert not has_room(tmp_path / "missing")
