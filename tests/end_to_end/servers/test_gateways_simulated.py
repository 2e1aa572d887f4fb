"""Many gateways in few processes, commanded at once, and the command line for it."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from running.gateways import (
    address_of,
    broker_settings,
    packed,
)
from running.mosquitto import Foreign, foreign_mosquitto
from towpath.contracts.gateway import ACCOUNT, PACKAGES
from towpath.gateways.client import GatewayClient

COUNT = 20


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Foreign]:
    async with foreign_mosquitto(tmp_path / "broker") as running:
        yield running


async def towpath(*arguments: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "towpath.cli.__main__", "gateway", *arguments, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode()


async def test_gateways_when_many_are_simulated_then_all_install_at_once_and_leave_together(
    tmp_path: Path, broker: Foreign
) -> None:
    config = tmp_path / "gateway.yaml"
    settings = {"device": "pi", "directory": str(tmp_path / "gateways"), "site": broker_settings(broker)}
    config.write_text(json.dumps(settings))
    command = [sys.executable, "-m", "towpath.gateway.simulation", "--config", str(config), "--inside"]
    process = await asyncio.create_subprocess_exec(
        *command, "--count", str(COUNT), "--per-process", "10", stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"20 gateways are online in 2 processes\n"
        devices = [f"pi-{n:03d}" for n in range(1, COUNT + 1)]
        body = packed(tmp_path)
        async with GatewayClient(address_of(broker), ACCOUNT) as client:
            asked = (
                client.request(device, PACKAGES, "EXEC", "packages/install", body, timeout_s=60)
                for device in devices
            )
            assert [answer.code for answer in await asyncio.gather(*asked)] == [200] * COUNT

            login = ("--broker", f"127.0.0.1:{broker.server.port}", "--user", "plant")
            login += ("--password-file", str(broker.password_file))
            _, listed = await towpath("list", *login, "--json")
            assert json.loads(listed) == [{"device": device, "online": True} for device in devices]
            code, answers = await towpath("request", "all", PACKAGES, "GET", "packages", *login, "--json")
            assert (code, [each["body"][0]["name"] for each in json.loads(answers)]) == (0, ["thin"] * COUNT)

            process.terminate()
            assert await process.wait() == 0
            _, listed = await towpath("list", *login, "--json")
            assert {each["online"] for each in json.loads(listed)} == {False}
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
