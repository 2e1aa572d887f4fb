"""Gateway processes for tests, which kill and restart them, and packages to install."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from running.mosquitto import Foreign
from running.waiting import eventually
from towpath.contracts.gateway import PACKAGES
from towpath.gateways.client import Answer, DeviceOffline, GatewayClient
from towpath.gateways.packing import pack
from towpath.mqtt.broker_address import BrokerAddress
from towpath.mqtt.connection import MqttConnection


def address_of(broker: Foreign) -> BrokerAddress:
    return BrokerAddress("127.0.0.1", broker.server.port, "3.1.1", "plant", broker.password)


@dataclass
class GatewayProcess:
    """A gateway in a process of its own."""

    directory: Path
    device: str
    site: dict[str, Any]
    local: dict[str, Any] | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        content = {"device": self.device, "directory": str(self.directory / "data"), "site": self.site}
        content |= {} if self.local is None else {"local": self.local}
        config = self.directory / "gateway.yaml"
        config.write_text(json.dumps(content | self.settings))
        with (self.directory / "gateway.log").open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "towpath.gateway", "--config", str(config), stderr=log
            )

    async def kill(self) -> None:
        assert self.process is not None
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()

    async def end(self) -> int:
        assert self.process is not None
        self.process.terminate()
        return await self.process.wait()

    def children(self) -> list[int]:
        assert self.process is not None
        pid = self.process.pid
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
        return [int(child) for child in text.split()]


def broker_settings(broker: Foreign) -> dict[str, Any]:
    return {
        "host": "127.0.0.1",
        "port": broker.server.port,
        "user": "plant",
        "password_file": str(broker.password_file),
    }


@asynccontextmanager
async def running_gateway(
    directory: Path, site: dict[str, Any], local: dict[str, Any] | None = None, **settings: Any
) -> AsyncIterator[GatewayProcess]:
    """Run a gateway, and kill it in the end."""
    gateway = GatewayProcess(directory, "pi01", site, local, settings)
    await gateway.start()
    try:
        yield gateway
    finally:
        await gateway.kill()


def packed(directory: Path, version: str = "1", code: str | None = None, **changes: Any) -> dict[str, Any]:
    """Pack a package and return the body of the request that installs it."""
    manifest: dict[str, Any] = {
        "name": "thin",
        "version": version,
        "input": {"topics": ["sensors/#"]},
        "operators": [{"operator": "sample", "every": "$every"}],
        "output": "site/thin",
        "properties": {"every": 1},
        **changes,
    }
    source = directory / f"source-{manifest['name']}-{version}"
    source.mkdir(parents=True, exist_ok=True)
    (source / "manifest.json").write_text(json.dumps(manifest))
    if code is not None:
        (source / "own_code.py").write_text(code)
    read, path, digest = pack(source, directory)
    return {"name": read.name, "version": read.version, "url": path.as_uri(), "sha256": digest}


async def online(client: GatewayClient, device: str = "pi01", *, is_online: bool = True) -> None:
    """Wait until a gateway is there, or away."""
    async with asyncio.timeout(60), contextlib.aclosing(client.presence()) as changes:
        async for changed in changes:
            if changed == (device, is_online):
                return


async def requested(client: GatewayClient, *request: Any, **options: Any) -> Answer:
    """Send a request as soon as the gateway is there."""
    while True:
        try:
            return await client.request("pi01", *request, timeout_s=60, **options)
        except DeviceOffline as error:
            if error.sent:
                raise
        await online(client)


async def install(client: GatewayClient, body: dict[str, Any], **options: Any) -> Answer:
    return await requested(client, PACKAGES, "EXEC", "packages/install", body, **options)


async def applications(client: GatewayClient) -> dict[str, dict[str, Any]]:
    answer = await requested(client, PACKAGES, "GET", "applications")
    return {each["name"]: each for each in answer.body}


@asynccontextmanager
async def listening(address: BrokerAddress, *topics: str) -> AsyncIterator[list[dict[str, Any]]]:
    """Collect what comes on topics, in a session that survives the broker."""
    came: list[dict[str, Any]] = []
    ready = asyncio.Event()

    async def listen() -> None:
        while True:
            with contextlib.suppress(OSError):
                async with MqttConnection(address, "test-listener", session=True) as connection:
                    subscribed = connection.subscribe(topics)
                    while True:
                        for message in connection.take_arrived():
                            came.append({"topic": message.topic, **json.loads(message.payload)})
                            connection.acknowledge(message.mid)
                        if subscribed.done():
                            ready.set()
                        connection.flush()
                        connection.check()
                        await connection.wait_for_news(0.5)
            await asyncio.sleep(0.1)

    task = asyncio.create_task(listen())
    try:
        await eventually(ready.is_set)
        yield came
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def sense(address: BrokerAddress, events: list[dict[str, Any]], topic: str = "sensors/a") -> None:
    """Publish as a sensor does, with QoS 1. Return when the broker has all."""
    async with MqttConnection(address, f"sensor-{os.urandom(4).hex()}", session=False) as connection:
        sent = [connection.publish(topic, json.dumps(event).encode()) for event in events]
        while not all(each.done() for each in sent):
            connection.flush()
            connection.check()
            await connection.wait_for_news(0.5)
