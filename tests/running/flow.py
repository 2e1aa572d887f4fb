"""Devices that publish numbered events, and the results that jobs made of them."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiomqtt

from running.command_line import STEP_S
from running.waiting import WITHIN_S
from towpath.bus import Bus
from towpath.cli.connection import CHANGE_ATTEMPT_S
from towpath.contracts.commands import MigrateJob, OperationState, StrategyName
from towpath.contracts.errors import TowpathError
from towpath.mesh.state import MeshState
from towpath.mesh.tls_files import client_context
from towpath.streams.pages import read_after

KEYS, PER_SECOND = 5, 200
"""Events in one second of event time: each key has `PER_SECOND / KEYS` in each window of a second."""

FORWARD: dict[str, Any] = {"kind": "forward"}
WINDOW: dict[str, Any] = {
    "kind": "window",
    "fields": {"key": "string", "at": "timestamp"},
    "event_time": "at",
    "watermark_s": 5,
    "size_s": 1,
    "key": ["key"],
    "aggregates": {"events": {"function": "count"}},
}
"""An operator that counts the events of each key and second of event time."""

BY_ARRIVAL: dict[str, Any] = {
    "kind": "processing_window",
    "fields": {"key": "string"},
    "size_s": 1,
    "aggregates": {"events": {"function": "count"}},
}
"""An operator that counts the events of each second in which they are processed."""


def job(name: str, reads: str, writes: str, operator: Any = None, **changes: Any) -> dict[str, Any]:
    """Return the specification of a job at jfk."""
    body = {
        "name": name,
        "site": "jfk",
        "inputs": [{"site": "jfk", "topic": reads}],
        "output": {"topic": writes, "site": "jfk"},
        "operator": operator or FORWARD,
        "trigger_s": 1.0,
    }
    return {**body, **changes}


def event(number: int) -> bytes:
    """Return the event of this number: `PER_SECOND` for each second of event time, with keys in rotation."""
    seconds, thousandths = divmod(number * 1000 // PER_SECOND, 1000)
    at = f"2026-01-01T{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{thousandths:03d}Z"
    return json.dumps({"n": number, "key": f"k{number % KEYS}", "at": at}).encode()


class Load:
    """A device at a site that publishes numbered events to a topic until it is told to stop."""

    def __init__(self, topic: str, site: str = "jfk") -> None:
        self.topic = topic
        self.site = site
        self.sent = 0
        self._stop = asyncio.Event()

    async def run(self, state: MeshState) -> None:
        """Publish a few hundred events per second."""
        site = state.site(self.site)
        async with aiomqtt.Client(
            site.mqtt_host,
            site.mqtt_port,
            username=site.device.user,
            password=site.device.password,
            tls_context=client_context(site.mqtt_authority) if site.mqtt_is_encrypted else None,
            timeout=WITHIN_S,
        ) as client:
            for number in itertools.count():
                if self._stop.is_set():
                    return
                await client.publish(self.topic, event(number), qos=1)
                self.sent = number + 1
                await asyncio.sleep(0.002)

    def stop(self) -> None:
        """Stop after the event under way."""
        self._stop.set()


@asynccontextmanager
async def flowing(state: MeshState, topic: str = "site/raw", site: str = "jfk") -> AsyncIterator[Load]:
    """Let events flow within the block. At its end the last one has been acknowledged."""
    load = Load(topic, site)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(load.run(state))
        try:
            yield load
        finally:
            load.stop()
            await task


async def move(bus: Bus, name: str, to: str, strategy: StrategyName) -> None:
    """Move a job. Repeat it, as users do, if the target did not catch up on a busy machine."""
    while True:
        try:
            command = MigrateJob(job=name, to=to, strategy=strategy)
            await bus.request(command, deadline_s=STEP_S, attempt_s=CHANGE_ATTEMPT_S)
            return
        except TowpathError as error:
            said = error.detail.message
            if OperationState.ROLLED_BACK not in said or "does not take the state" in said:
                raise


async def stored(bus: Bus, stream: str, site: str = "jfk") -> list[dict[str, Any]]:
    """Return all results in a job's OUT stream."""
    return [json.loads(m.body) for m in await read_after(bus.connection, site, stream, 0)]


async def numbers(bus: Bus, stream: str, site: str = "jfk") -> list[int]:
    """Return the events' numbers in the results of a job that passes events on."""
    return [result["values"]["n"] for result in await stored(bus, stream, site)]


def windows(results: list[dict[str, Any]]) -> Counter[tuple[str, str]]:
    """Return the number of results for each window and key."""
    return Counter((r["window"]["start"], r["key"]["key"]) for r in results)
