"""Topics that an uplink forwards, in a whole mesh: on the command line, as inputs of jobs, and as metrics."""

from __future__ import annotations

from pathlib import Path

import pytest

from running.command_line import MESH_TIMEOUT_S, STEP_S
from running.flow import job, numbers
from running.uplinks import publish_to
from running.waiting import eventually
from running.whole_mesh import WholeMesh
from towpath.cli.connection import open_bus
from towpath.contracts.commands import DeployJob, RemoveJob
from towpath.contracts.job import JobSpec
from towpath.contracts.metrics import QueryMetrics

pytestmark = pytest.mark.timeout(MESH_TIMEOUT_S)

UPLINKS = """
uplinks:
  - {name: wheels, site: jfk, topic: site/wheels, to: cloud}
  - {name: wheel-results, site: jfk, topic: wheels/passed, to: cloud, order: kept, publish: train/wheels}
"""


async def test_forwarded_topics_when_jobs_of_the_destination_read_them_then_they_get_each_event(
    shared_mesh: WholeMesh, tmp_path: Path
) -> None:
    file = tmp_path / "uplinks.yaml"
    file.write_text(UPLINKS)
    at_origin = job("passing", "site/wheels", "wheels/passed")
    of_reports = job(
        "of-reports", "", "", site="cloud", inputs=[{"site": "cloud", "topic": "from/jfk/wheels"}]
    )
    of_results = job("of-results", "", "", site="cloud", inputs=[{"site": "cloud", "topic": "train/wheels"}])
    for spec in (of_reports, of_results):
        spec["output"] = {"topic": f"wheels/{spec['name']}", "site": "cloud"}
    async with open_bus(shared_mesh.at) as bus:
        await bus.request(DeployJob(spec=JobSpec.model_validate(at_origin)), deadline_s=STEP_S)
        assert {u["uplink"]["spec"]["name"] for u in shared_mesh.json("uplink", "apply", str(file))} == {
            "wheels",
            "wheel-results",
        }
        for spec in (of_reports, of_results):
            await bus.request(DeployJob(spec=JobSpec.model_validate(spec)), deadline_s=STEP_S)
        await publish_to(shared_mesh.state, "site/wheels", range(300))

        async def all_there(name: str) -> bool:
            return await numbers(bus, f"OUT_{name}", "cloud") == list(range(300))

        await eventually(lambda: all_there("of-reports"))
        await eventually(lambda: all_there("of-results"))
        for name in ("wheels", "wheel-results"):
            assert shared_mesh.json("uplink", "show", name)["complete"]

        async def is_measured() -> bool:
            query = QueryMetrics(metrics=["uplink.forwarded"], entities=["uplink:wheels"])
            found = (await bus.request(query, deadline_s=STEP_S)).series
            return bool(found) and found[0].points[-1][1] == 300

        await eventually(is_measured)
        for name in ("of-reports", "of-results", "passing"):
            await bus.request(RemoveJob(job=name, purge=True), deadline_s=STEP_S)
        for name in ("wheels", "wheel-results"):
            shared_mesh.succeed("uplink", "remove", name, "--purge")
        assert shared_mesh.json("uplink", "list") == []


def test_uplink_when_its_topic_is_unknown_then_it_is_refused_with_those_there_are(
    shared_mesh: WholeMesh, tmp_path: Path
) -> None:
    file = tmp_path / "uplink.yaml"
    file.write_text("{name: none, site: jfk, topic: never/written, to: cloud}")

    ended = shared_mesh.run("uplink", "apply", str(file))

    assert ended.returncode == 2
    assert "uplinks.0.topic" in ended.stderr
