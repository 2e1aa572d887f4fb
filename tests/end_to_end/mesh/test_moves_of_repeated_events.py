"""A device of a real mesh sends its events again: after the job was told what repeats, and after it moved."""

from __future__ import annotations

from collections.abc import Iterable

import aiomqtt
import pytest

from running.command_line import MESH_TIMEOUT_S, STEP_S
from running.flow import event, job, numbers
from running.waiting import eventually
from running.whole_mesh import WholeMesh
from towpath.cli.connection import open_bus
from towpath.contracts.commands import DeployJob, MigrateJob, RemoveJob, UpdateJob
from towpath.contracts.job import JobSpec
from towpath.mesh.state import MeshState

pytestmark = pytest.mark.timeout(MESH_TIMEOUT_S)

TOPIC = "site/sent-twice"


async def send(state: MeshState, events: Iterable[int]) -> None:
    site = state.site("jfk")
    login = {"username": site.device.user, "password": site.device.password}
    async with aiomqtt.Client(site.mqtt_host, site.mqtt_port, **login) as device:
        for number in events:
            await device.publish(TOPIC, event(number), qos=1)


async def test_events_when_sent_again_over_an_update_and_a_move_then_count_once(
    shared_mesh: WholeMesh,
) -> None:
    unaware = job("sent-twice", TOPIC, "sent/twice")
    aware = unaware | {"inputs": [{"site": "jfk", "topic": TOPIC, "identity": ["n"]}]}
    async with open_bus(shared_mesh.at) as bus:

        async def passed_on(expected: list[int]) -> None:
            async def are_there() -> bool:
                return await numbers(bus, "OUT_sent-twice") == expected

            await eventually(are_there)

        await bus.request(DeployJob(spec=JobSpec.model_validate(unaware)), deadline_s=STEP_S)
        await send(shared_mesh.state, [0, 1, 2, 1])
        await passed_on([0, 1, 2, 1])
        await bus.request(UpdateJob(spec=JobSpec.model_validate(aware)), deadline_s=STEP_S)
        await send(shared_mesh.state, [0, 2, 3, 3])
        await passed_on([0, 1, 2, 1, 3])
        await bus.request(MigrateJob(job="sent-twice", to="cloud"), deadline_s=STEP_S)
        await send(shared_mesh.state, [1, 3, 4, 4, 5])
        await passed_on([0, 1, 2, 1, 3, 4, 5])
        await bus.request(RemoveJob(job="sent-twice", purge=True), deadline_s=STEP_S)
