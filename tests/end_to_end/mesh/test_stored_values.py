"""Stored values of a whole mesh: one answer, from copies where a site does not answer itself."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sqlite3
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from running.command_line import UP_S
from running.mesh import Mesh
from running.promises import promise
from running.stillness import still
from running.waiting import WITHIN_S, eventually
from towpath.bus import Bus
from towpath.cli.connection import open_bus
from towpath.cli.starting import wait_until_up
from towpath.contracts.site import MeshSpec, SiteSpec
from towpath.contracts.storage import QueryValues, StorageSpec, ValueSeriesList, Wanted
from towpath.mesh.home import Home
from towpath.mesh.lifecycle import down, up
from towpath.processes import find

SITES = ("jfk", "cloud")
TIMES = [1_767_225_600.0 + number for number in range(5)]
"""Long ago: a value is kept from when it came."""

PARTS = ("agent", "nats", "storage")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    yield Home(tmp_path / "mesh")
    down(Home(tmp_path / "mesh"))


@contextlib.asynccontextmanager
async def running(home: Home) -> AsyncIterator[tuple[Mesh, Bus]]:
    """Start a mesh that looks for sites that fail every second."""
    storage = StorageSpec(enabled=True, copies_every_s=1.0)
    spec = MeshSpec(sites=[SiteSpec(name=name) for name in SITES], storage=storage)
    state = await asyncio.to_thread(up, home, spec)
    await wait_until_up(home, SITES, UP_S, lambda _: None)
    async with open_bus(home) as bus:
        yield Mesh(state, home, {}), bus


async def asked(bus: Bus, wanted: Wanted = Wanted.RANGE, **selection: Any) -> ValueSeriesList:
    command = QueryValues(wanted=wanted, metrics=["delay_ms"], **selection)
    return await bus.request(command, deadline_s=WITHIN_S)


async def points(bus: Bus) -> list[tuple[str, str, list[tuple[float, float]]]]:
    return [(each.site, each.entity, each.points) for each in (await asked(bus)).series]


async def publish(mesh: Mesh, site: str, robot: str) -> None:
    async with mesh.device(site) as device:
        for number, at in enumerate(TIMES):
            event = {"entityID": robot, "delay_ms": float(number), "timestamp": at * 1000, "state": "well"}
            await device.publish("site/metrics", json.dumps(event).encode(), qos=1)


def pids(home: Home, *parts: str) -> list[int]:
    """Return the present processes of the site `jfk`."""
    records = [find(home.run, f"jfk-{part}") for part in parts]
    return [record.pid for record in records if record is not None]


@promise("stored values")
async def test_values_when_their_site_fails_again_then_come_from_its_copy_and_are_the_same(
    home: Home,
) -> None:
    numbers = [(at, float(number)) for number, at in enumerate(TIMES)]
    wanted = [("cloud", "robot2", numbers), ("jfk", "robot1", numbers)]
    async with running(home) as (mesh, bus):
        await publish(mesh, "jfk", "robot1")
        await publish(mesh, "cloud", "robot2")

        async def answered() -> bool:
            return await points(bus) == wanted

        async def lacks_jfk() -> bool:
            found = await asked(bus)
            return ([each.site for each in found.series], list(found.unreached)) == (["cloud"], ["jfk"])

        await eventually(answered)
        os.kill(*pids(home, "storage"), signal.SIGKILL)
        await eventually(answered)

        before = failures(home)
        with still(home.run, *(f"jfk-{part}" for part in PARTS)):
            if before == 0:  # Else there may be a copy already.
                await eventually(lacks_jfk)
            # Until the collector has noted the failure.
            await eventually(lambda: failures(home) > before)
        await eventually(lambda: copied(home) == len(TIMES))

        with still(home.run, *(f"jfk-{part}" for part in PARTS)):

            async def from_the_copy() -> bool:
                found = await asked(bus)
                whole = (await asked(bus, Wanted.AGGREGATE)).summary
                return (
                    found.copies == {"jfk": "cloud"}
                    and await points(bus) == wanted
                    and whole is not None
                    and (whole.count, whole.mean) == (10, 2.0)
                )

            await eventually(from_the_copy)


def failures(home: Home) -> int:
    return len(_record(home).get("failures_s", []))


def copied(home: Home) -> int:
    """Return how many of the values of `jfk` are at `cloud`."""
    path = home.storage("cloud") / "copies" / "jfk.db"
    counting = "SELECT count(*) FROM history JOIN series ON series = id WHERE metric = 'delay_ms'"
    try:
        with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as copy:
            return copy.execute(counting).fetchone()[0]
    except sqlite3.OperationalError:
        return 0  # It is just being made.


def _record(home: Home) -> dict[str, Any]:
    path = home.root / "sites.json"
    return json.loads(path.read_text()).get("jfk", {}) if path.exists() else {}
