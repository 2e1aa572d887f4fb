"""A published query about the mesh itself, on a mesh to which nothing else is deployed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from running.command_line import MESH_TIMEOUT_S, STEP_S
from running.device_events import publish_events
from running.waiting import eventually
from running.whole_mesh import WholeMesh
from towpath.cli.connection import open_bus
from towpath.streams.pages import page

pytestmark = pytest.mark.timeout(MESH_TIMEOUT_S)

TEXT = """
cpu_stream = STREAM FROM storageFabric (metricID="cpu_ptc",
                                         entityType="POD",
                                         podNamespace="{namespace}",
                                         podName="{podName}");
avg_cpu = COMPUTE (
    AVG("cpu_ptc" FROM (cpu_stream), 60 SECONDS)
    WHEN >= 0.001
    ) EVERY 10 SECONDS;
robot_stream = STREAM FROM storageFabric (metricID="robot_%");
robot_delay_ratio = COMPUTE (
    100.0 *
    MAX("robot_publish_rate" FROM (robot_stream), 10 SECONDS) /
    MAX("robot_deliver_rate" FROM (robot_stream), 10 SECONDS)
) EVERY 5 SECONDS;
"""
"""Fig. 12 with a low threshold, and the half of Fig. 14."""

FILLED = ("--set", "namespace=towpath", "--set", "podName=engine")


async def test_published_query_when_nothing_else_runs_then_answers_from_what_sites_and_applications_publish(
    shared_mesh: WholeMesh, tmp_path: Path
) -> None:
    file = tmp_path / "slo.sight"
    file.write_text(TEXT)
    shared_mesh.json("query", "run", str(file), "--at", "cloud", *FILLED)
    found: dict[str, float] = {}

    robot = {"nodeID": "arm", "robot_publish_rate": 30, "robot_deliver_rate": 40}
    await publish_events(shared_mesh.state.sites["jfk"], "site/metrics", [robot])
    async with open_bus(shared_mesh.at) as bus:

        async def both() -> bool:
            for message in await page(bus.connection, "cloud", "OUT_slo", 1):
                answer = json.loads(message.body)
                found.setdefault(answer["key"]["query"], answer["values"]["value"])
            return len(found) == 2

        await eventually(both, within_s=STEP_S)
    shared_mesh.json("query", "remove", "slo", "--now", "--purge")

    assert found["robot_delay_ratio"] == 75
    assert 0 < found["avg_cpu"] <= 100
