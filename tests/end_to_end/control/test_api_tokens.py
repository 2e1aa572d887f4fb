"""Tokens of people on a real mesh: made and revoked while it runs, and named in all changes."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import aiohttp
import pytest

from running.api import JOB, WAIT, Api
from running.waiting import WITHIN_S
from towpath.contracts.pipeline import PipelineSpec
from towpath.contracts.pipeline_commands import ApplyPipeline

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def towpath(api: Api, *arguments: str) -> Any:
    """Run the command line on the mesh. Return the JSON that it prints."""
    command = (
        sys.executable,
        "-m",
        "towpath.cli",
        "--home",
        str(api.running.home.root),
        *arguments,
        "--json",
    )
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    output, _ = await asyncio.wait_for(process.communicate(), WITHIN_S)
    assert process.returncode == 0
    return json.loads(output)


def client_of(api: Api, token: str) -> aiohttp.ClientSession:
    headers = {"Authorization": f"Bearer {token}"}
    return aiohttp.ClientSession(api.running.state.api_url, headers=headers)


async def test_token_when_added_used_and_revoked_then_acts_at_once(api: Api) -> None:
    viewer = (await towpath(api, "token", "add", "eve", "--role", "view", "--expires", "1h"))["token"]
    async with client_of(api, viewer) as client:
        async with client.get("/jobs") as response:
            assert response.status == 200
        async with client.post("/jobs", json=JOB) as response:
            assert (response.status, (await response.json(content_type=None))["allowed"]) == (
                403,
                ["operate", "admin"],
            )
        async with client.get("/events") as stream:
            await stream.content.readuntil(b"\n\n")
            await towpath(api, "token", "revoke", "eve")
            async with asyncio.timeout(5):
                await stream.content.read()
        async with client.get("/jobs") as response:
            assert response.status == 401
    assert viewer not in api.running.home.log("api").read_text()


async def test_change_when_asked_for_by_rest_or_the_command_line_then_bears_the_name_of_who_asked(
    api: Api,
) -> None:
    names = [token["name"] for token in await towpath(api, "token", "list")]
    operator = (await towpath(api, "token", "add", "ada", "--role", "operate"))["token"]
    assert names == ["owner"]
    async with client_of(api, operator) as client, api.events("?subject=operation.*.begun") as events:
        async with client.post("/jobs", json=JOB, headers=WAIT) as response:
            deployed = await response.json()
        assert (await anext(events))[2]["asked_by"] == "ada"
        [moved] = await towpath(api, "migrate", JOB["name"], "--to", "lga", "--strategy", "general")
        person = (await anext(events))[2]["asked_by"]

    assert "@" in person
    shown = await towpath(api, "operation", deployed["operation"])
    assert shown["asked_by"] == "ada"
    async with asyncio.timeout(WITHIN_S):
        while not (spans := (await api.send("GET", f"/traces/{deployed['operation']}"))[1].get("spans")):
            await asyncio.sleep(0.2)
    assert [(s["name"], s["attributes"]["towpath.asked_by"]) for s in spans[:1]] == [("POST /jobs", "ada")]
    [migration] = (await api.send("GET", "/migrations"))[1]["operations"]
    assert (migration["operation"], migration["asked_by"]) == (moved["operation"], person)


async def test_pipeline_when_another_client_says_who_asks_then_its_version_and_operations_say_so(
    api: Api,
) -> None:
    spec = PipelineSpec.model_validate({"name": "delays", "jobs": [JOB]})
    applied = await api.trial.ask(ApplyPipeline(spec=spec, asked_by="erp", wait=True))
    [version] = (await api.send("GET", "/pipelines/delays/versions"))[1]["versions"]
    [operation] = applied.changes[0].operations
    _, shown = await api.send("GET", f"/operations/{operation}")
    assert (applied.asked_by, version["asked_by"], shown["asked_by"]) == ("erp", "erp", "erp")
