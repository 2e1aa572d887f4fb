"""An uplink drains over a narrow link while its agent is killed, and its machine loses its power."""

from __future__ import annotations

import asyncio
import os
import random
import signal

import pytest

from running.command_line import MESH_TIMEOUT_S, STEP_S
from running.power import PowerSafeMesh
from running.uplinks import numbers_of, proof_of, publish_to
from running.waiting import eventually
from towpath.bus import Bus
from towpath.cli.connection import open_bus
from towpath.contracts.data_plane import uplink_stream
from towpath.contracts.links import LinkConditions, RestoreLink, ShapeLink
from towpath.contracts.uplink import ApplyUplinks, ListUplinks, RemoveUplink, UplinkSpec
from towpath.lab.guard.machine import Machine
from towpath.streams.pages import read_after

EVENTS = 6000
CUTS = int(os.environ.get("TOWPATH_CUTS", "3"))
RECOVERED_S = 180.0

pytestmark = pytest.mark.timeout(MESH_TIMEOUT_S + 60 * CUTS)

UPLINK = UplinkSpec.model_validate(
    {"name": "journey", "site": "jfk", "topic": "site/journey", "to": "cloud", "late": "topic"}
)


async def test_uplink_when_agent_and_power_of_its_site_fail_in_the_drain_then_each_event_arrives_once(
    power_safe: PowerSafeMesh,
) -> None:
    mesh, chance = power_safe.mesh, random.Random(8)
    node = Machine(mesh.at, "jfk")
    async with open_bus(mesh.at) as bus:
        await bus.request(ApplyUplinks(uplinks=[UPLINK]), deadline_s=STEP_S)
        await shape(bus, LinkConditions(cut=True))
        await publish_to(mesh.state, UPLINK.topic, range(EVENTS))
        await shape(bus, LinkConditions(bandwidth_bytes_per_s=40_000))
        for _ in range(CUTS):
            before = await forwarded(bus)
            await eventually(lambda before=before: grows(bus, before), RECOVERED_S)
            await asyncio.sleep(chance.uniform(0, 2))
            os.kill(mesh.pids()["jfk-agent"], signal.SIGKILL)
            await asyncio.sleep(chance.uniform(0, 2))
            await asyncio.to_thread(node.cut_power)
        await bus.request(RestoreLink(site="jfk"), deadline_s=STEP_S)
        await eventually(lambda: grows(bus, EVENTS - 1), RECOVERED_S)

        messages = await read_after(bus.connection, "cloud", uplink_stream(UPLINK.name), 0)
        assert sorted(numbers_of(messages)) == list(range(EVENTS))
        assert proof_of(messages).is_complete
        await bus.request(RemoveUplink(uplink=UPLINK.name, purge=True), deadline_s=STEP_S)


async def shape(bus: Bus, conditions: LinkConditions) -> None:
    await bus.request(ShapeLink(site="jfk", conditions=conditions), deadline_s=STEP_S)


async def forwarded(bus: Bus) -> int:
    """Return how many events have arrived, as the site knows it; 0 while it does not answer."""
    found = await bus.request(ListUplinks(), deadline_s=STEP_S)
    return next((v.status.forwarded for v in found.uplinks if v.uplink.spec.name == UPLINK.name), 0)


async def grows(bus: Bus, before: int) -> bool:
    return await forwarded(bus) > before
