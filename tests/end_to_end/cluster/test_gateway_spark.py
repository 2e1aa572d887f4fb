"""Spark jobs on devices: scaled while they run, killed part by part, and nothing is left of them."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from running.gateways import (
    GatewayProcess,
    address_of,
    applications,
    broker_settings,
    install,
    listening,
    online,
    packed,
    requested,
    running_gateway,
    sense,
)
from running.mosquitto import Foreign, foreign_mosquitto
from running.places import ROOT
from running.servers import free_port
from running.waiting import eventually
from towpath.contracts.gateway import ACCOUNT, CONFIGURATIONS, PACKAGES
from towpath.gateway.app import memory_kb
from towpath.gateways.client import GatewayClient
from towpath.gateways.packing import pack

NAME = "timeseries-forecast"
START_S = 240.0
"""Time limit for three JVMs to start, one after the other, on a machine with two busy cores."""

MOST_KB = 40_000

pytestmark = pytest.mark.timeout(1200)


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Foreign]:
    async with foreign_mosquitto(tmp_path / "broker") as running:
        yield running


class Forecasts:
    """The newest forecast of each sensor and window, and how many readings were sent and counted."""

    def __init__(self, broker: Foreign, came: list[dict[str, Any]]) -> None:
        self._broker = broker
        self._came = came
        self.sent = 0

    async def send(self, count: int) -> None:
        events = [
            {"sensor": "a", "celsius": 20 + number / 100, "time": float(number)}
            for number in range(self.sent, self.sent + count)
        ]
        self.sent += count
        await sense(address_of(self._broker), events, topic="site/temp-readings")

    def counted(self) -> int:
        return max((each["readings"] for each in self._came), default=0)

    async def follow(self) -> None:
        """Send readings, and wait until the job has counted each of them once."""
        await self.send(10)
        await eventually(lambda: self.counted() >= self.sent, within_s=START_S)
        assert self.counted() == self.sent


async def seen(client: GatewayClient, condition: Any) -> dict[str, Any]:
    """Return the processes of the application once they fulfil a condition."""
    found: dict[str, Any] = {}

    async def holds() -> bool:
        nonlocal found
        found = (await applications(client))[NAME].get("processes", {})
        return bool(found) and condition(found)

    await eventually(holds, within_s=START_S)
    return found


def body_of(directory: Path, **properties: Any) -> dict[str, Any]:
    """Pack the example, and return the body of the request that installs it."""
    manifest, archive, digest = pack(ROOT / "examples/gateways" / NAME, directory)
    small = {"slide.seconds": 86400, "spark.sql.shuffle.partitions": 2}
    own = {name.replace("_", "."): value for name, value in properties.items()}
    identity = {"name": NAME, "version": manifest.version, "url": archive.as_uri(), "sha256": digest}
    return {**identity, "properties": small | own}


async def scale(client: GatewayClient, workers: int) -> None:
    body = {"properties": {"spark.workers": workers}}
    answer = await requested(client, CONFIGURATIONS, "PUT", f"configurations/{NAME}", body)
    assert answer.code == 200


def uses(workers: int) -> Any:
    """Return a condition: so many workers are there, and the job has the core of each."""
    return lambda found: (found.get("workers"), found.get("cores_used")) == (workers, workers)


def kill(found: dict[str, Any], name: str) -> Any:
    """Kill a process, and return a condition: another one has its place."""
    os.kill(found["pids"][name], signal.SIGKILL)
    return lambda later: later["pids"][name] not in (None, found["pids"][name])


def descendants(gateway: GatewayProcess) -> list[psutil.Process]:
    assert gateway.process is not None
    return psutil.Process(gateway.process.pid).children(recursive=True)


def left(gateway: GatewayProcess) -> list[str]:
    """Return what a gateway has of packages and their states."""
    data = gateway.directory / "data"
    return [str(path) for name in ("states", "packages", "installed") for path in (data / name).iterdir()]


async def test_job_when_scaled_and_killed_part_by_part_then_goes_on_exactly_and_leaves_nothing(
    tmp_path: Path, broker: Foreign
) -> None:
    async with (
        running_gateway(tmp_path / "gateway", broker_settings(broker)) as gateway,
        GatewayClient(address_of(broker), ACCOUNT) as client,
        listening(address_of(broker), "site/forecasts") as came,
    ):
        await online(client)
        forecasts = Forecasts(broker, came)
        answer = await install(client, body_of(tmp_path, spark_workers=1))
        assert answer.code == 200, answer.body
        await forecasts.follow()

        one = await seen(client, uses(1))
        await scale(client, 2)
        two = await seen(client, uses(2))
        await forecasts.follow()
        await scale(client, 1)
        again = await seen(client, uses(1))
        await forecasts.follow()
        assert one["pids"]["job"] == two["pids"]["job"] == again["pids"]["job"]
        assert one["pids"]["worker-1"] == two["pids"]["worker-1"] == again["pids"]["worker-1"]

        for name in ("worker-1", "job", "master"):
            replaced = kill(again, name)
            await forecasts.send(5)
            again = await seen(client, replaced)
            await forecasts.follow()

        assert gateway.process is not None
        assert memory_kb(gateway.process.pid) < MOST_KB
        before = descendants(gateway)
        await gateway.kill()
        await forecasts.send(5)
        await eventually(lambda: not [each for each in before if each.is_running()], within_s=30)
        await gateway.start()
        await seen(client, uses(1))
        await forecasts.follow()

        before = descendants(gateway)
        removed = await requested(client, PACKAGES, "EXEC", "packages/uninstall", {"name": NAME})
        assert removed.code == 200
        assert not [each for each in before if each.is_running()]
        assert left(gateway) == []


async def test_cluster_when_it_has_two_devices_then_loses_and_regains_one_and_the_job_goes_on(
    tmp_path: Path, broker: Foreign
) -> None:
    first = GatewayProcess(tmp_path / "first", "pi01", broker_settings(broker))
    second = GatewayProcess(tmp_path / "second", "vm-2", broker_settings(broker))
    await asyncio.gather(first.start(), second.start())
    try:
        async with (
            GatewayClient(address_of(broker), ACCOUNT) as client,
            listening(address_of(broker), "site/forecasts") as came,
        ):
            await online(client)
            forecasts = Forecasts(broker, came)
            devices = "pi01=127.0.0.1, vm-2=127.0.0.1"
            body = body_of(tmp_path, spark_workers=2, spark_devices=devices, spark_master_port=free_port())
            body["properties"]["spark.directory"] = str(tmp_path / "shared")
            wanted = (PACKAGES, "EXEC", "packages/install", body)
            answers = await asyncio.gather(
                client.request("pi01", *wanted, timeout_s=START_S),
                client.request("vm-2", *wanted, timeout_s=START_S),
            )
            assert [answer.code for answer in answers] == [200, 200], answers
            found = await seen(client, uses(2))
            assert [*found["pids"]] == ["master", "worker-1", "job"]
            await forecasts.follow()

            await second.kill()
            await forecasts.send(5)
            await seen(client, uses(1))
            await forecasts.follow()
            await second.start()
            found_again = await seen(client, uses(2))
            await forecasts.follow()
            assert found["pids"] == found_again["pids"]

            for device in ("pi01", "vm-2"):
                removed = await client.request(
                    device, PACKAGES, "EXEC", "packages/uninstall", {"name": NAME}, timeout_s=60
                )
                assert removed.code == 200
            assert (left(first), left(second), [*(tmp_path / "shared").iterdir()]) == ([], [], [])
    finally:
        await asyncio.gather(first.kill(), second.kill())


async def test_job_when_its_script_fails_then_the_answer_says_why_and_nothing_is_left(
    tmp_path: Path, broker: Foreign
) -> None:
    body = packed(
        tmp_path, kind="spark", script="own_code.py", operators=[], code="import nothing_there", properties={}
    )
    async with (
        running_gateway(tmp_path / "gateway", broker_settings(broker)) as gateway,
        GatewayClient(address_of(broker), ACCOUNT) as client,
    ):
        await online(client)
        answer = await install(client, body | {"properties": {"spark.workers": 1}})
        assert answer.code == 500
        assert "No module named 'nothing_there'" in answer.body["errors"][0]["message"]
        assert (left(gateway), descendants(gateway)) == ([], [])
