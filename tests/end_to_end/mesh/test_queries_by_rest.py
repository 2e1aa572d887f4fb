"""Queries by REST on a running mesh: run, follow and resume the answers, have them POSTed, and remove."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from running.command_line import MESH_TIMEOUT_S, STEP_S
from running.device_events import publish_events
from running.waiting import eventually
from running.webhook_receiver import Receiver, receiving
from running.whole_mesh import WholeMesh
from towpath.mesh.state import SiteAccess

pytestmark = pytest.mark.timeout(MESH_TIMEOUT_S)

TEXT = """
s = STREAM FROM topic(topic="site/by-rest", time="at", value="v");
total = COMPUTE SUM(s, 10 SECONDS) EVERY 10 SECONDS;
"""
URL = "/queries/by-rest"


@pytest.fixture
async def client(shared_mesh: WholeMesh) -> AsyncIterator[aiohttp.ClientSession]:
    headers = {"Authorization": f"Bearer {shared_mesh.state.api_token}"}
    timeout = aiohttp.ClientTimeout(total=STEP_S)
    async with aiohttp.ClientSession(shared_mesh.state.api_url, headers=headers, timeout=timeout) as made:
        yield made


async def publish(site: SiteAccess, values: dict[int, float]) -> None:
    """Publish events: second of the minute → value."""
    events = [{"at": f"2026-01-01T00:00:{second:02}Z", "v": value} for second, value in values.items()]
    await publish_events(site, "site/by-rest", events)


async def answers(response: aiohttp.ClientResponse, count: int) -> list[tuple[int, Any, float]]:
    """Return serial number, key and value of the next answers."""
    assert (response.status, response.content_type) == (200, "text/event-stream")
    found: list[tuple[int, Any, float]] = []
    serial = 0
    while len(found) < count:
        name, _, value = (await response.content.readline()).decode().rstrip("\n").partition(": ")
        if name == "id":
            serial = int(value)
        elif name == "data":
            answer = json.loads(value)
            found.append((serial, answer["key"], answer["values"]["value"]))
    return found


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as made:
        yield made


async def test_queries_when_run_by_rest_then_answers_are_followed_and_resumed_until_removed(
    shared_mesh: WholeMesh, client: aiohttp.ClientSession, receiver: Receiver
) -> None:
    jfk, key = shared_mesh.state.sites["jfk"], {"query": "total"}
    receiver.refused_first = 1
    body = {"name": "by-rest", "at": "jfk", "text": TEXT, "webhook": receiver.url}
    async with client.post("/queries", json=body, headers={"Prefer": f"wait={STEP_S}"}) as response:
        assert (response.status, response.headers["Location"]) == (201, URL)
    assert [each["name"] for each in shared_mesh.json("query", "list")] == ["by-rest"]

    async with client.get(f"{URL}/answers") as response:
        await publish(jfk, {1: 1.0, 9: 2.0, 12: 4.0})
        assert await answers(response, 1) == [(1, key, 3.0)]
    await publish(jfk, {22: 8.0, 32: 16.0})
    async with client.get(f"{URL}/answers", headers={"Last-Event-ID": "1"}) as response:
        assert await answers(response, 2) == [(2, key, 4.0), (3, key, 8.0)]
    async with client.get(f"{URL}/answers?newest=1&follow=false") as response:
        newest = await asyncio.wait_for(response.text(), STEP_S)
        assert newest.count("\nid: ") == 1
        assert "\nid: 3\n" in newest

    async def all_taken() -> bool:
        return [json.loads(body)["values"]["value"] for body in receiver.taken] == [3.0, 4.0, 8.0]

    await eventually(all_taken)
    assert receiver.keys[0] == receiver.keys[1]
    assert len(set(receiver.keys)) == 3

    removal = client.delete(f"{URL}?now=true&purge=true", headers={"Prefer": f"wait={STEP_S}"})
    async with removal as response:
        assert (response.status, (await response.json())["state"]) == (200, "completed")
    async with client.get(URL) as response:
        assert response.status == 404
