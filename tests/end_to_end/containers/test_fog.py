"""A topology as containers: nodes have their shares, links are as bad as said, nodes return."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from running.waiting import WITHIN_S, eventually
from towpath.bus import Bus
from towpath.containers.daemon import daemon
from towpath.contracts.topology import NodeLink
from towpath.lab.emulation.bringing_up import Plan, bring_up, take_down
from towpath.lab.emulation.project import Project
from towpath.lab.emulation.status import node_statuses
from towpath.lab.harness.stage import Stage
from towpath.lab.scenarios.playing import Play, play_on, standing_emulation
from towpath.lab.topology.reading import read
from towpath.mesh.home import Home
from towpath.mesh.link_probe import probe

pytestmark = [pytest.mark.timeout(600), pytest.mark.usefixtures("docker_daemon")]

CORES = 0.8
"""Cores of the node that changes: the machine has two, and runs everything else, too."""

TOPOLOGY = {
    "name": "trial",
    "nodes": [
        {
            "name": "edge",
            "cores": CORES,
            "memory_mb": 1792,
            "engine": {"spark_master": "local[1]", "memory": "640m"},
            "power": {"idle_w": 5, "active_w": 15},
            "coverage": [
                {"for_s": 2, "link": {"delay_ms": 80, "jitter_ms": 20, "bandwidth_mbit_s": 2}},
                {"for_s": 4, "link": {"cut": True}},
                {"for_s": 2, "link": {"delay_ms": 80, "jitter_ms": 20, "bandwidth_mbit_s": 2}},
            ],
        },
        {"name": "cloud", "cores": 1.0, "memory_mb": 1792, "power": {"idle_w": 40, "active_w": 100}},
    ],
}

SCENARIO: dict[str, Any] = {
    "name": "through-a-tunnel",
    "jobs": [
        {"name": "counted", "workload": "windows", "site": "edge", "output_site": "cloud", "trigger_s": 1}
    ],
    "load": [{"site": "edge", "rate": 30}],
    "steady_state": [
        {"probe": "output_gap", "job": "counted", "at_most_s": 5},
        {"probe": "site_up", "site": "edge"},
        {"probe": "site_up", "site": "cloud"},
    ],
    "phases": {"before_s": 1, "during_s": 12, "after_s": 120, "steady_s": 2},
    "timeline": [
        {"at": 0, "node": {"do": "travel", "node": "edge"}},
        {"at": 9, "node": {"do": "fail", "nodes": ["edge"], "for_s": 2}},
    ],
    "expect": {"deviates": "must", "recovers_within_s": 100},
}


@pytest.fixture(scope="module")
def topology(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("topology") / "trial.yaml"
    path.write_text(yaml.safe_dump(TOPOLOGY))
    return path


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    home = Home(tmp_path_factory.mktemp("fog") / "home")
    yield home
    asyncio.run(take_down(home))  # Where a test failed; the last one does it else.


async def up(home: Home, topology: Path) -> None:
    await bring_up(home, Plan.of(read(str(topology))), print)


@asynccontextmanager
async def standing(home: Home, topology: Path) -> AsyncIterator[Stage]:
    async with standing_emulation(home, str(topology)) as stage:
        yield stage


def left_behind(project: str) -> list[str]:
    labelled = {"label": f"com.docker.compose.project={project}"}
    with daemon() as docker:
        containers = [str(c.name) for c in docker.containers.list(all=True, filters=labelled)]
        networks = [str(n.name) for n in docker.networks.list(filters=labelled)]
        volumes = [str(v.name) for v in docker.volumes.list(filters=labelled)]
    return [*containers, *networks, *volumes]


def runs_since(home: Home) -> dict[str, tuple[str, str]]:
    """Return container → its id and the time of its start."""
    with daemon() as docker:
        found = [docker.containers.get(name) for name in Project(home).containers().values()]
    return {str(each.name): (str(each.id), each.attrs["State"]["StartedAt"]) for each in found}


async def test_topology_when_brought_up_twice_then_stays_as_it_is_with_shares_and_links_as_described(
    home: Home, topology: Path
) -> None:
    await up(home, topology)
    async with standing(home, topology) as stage:
        before = await asyncio.to_thread(runs_since, home)
        await stage.emulation.resize("edge", cores=0.3)
        await stage.emulation.link("edge", NodeLink(delay_ms=5))
    await up(home, topology)
    assert await asyncio.to_thread(runs_since, home) == before
    async with standing(home, topology) as stage:
        statuses = {status.node: status for status in await node_statuses(stage.emulation)}
    assert {name: status.cpus for name, status in statuses.items()} == {"edge": CORES, "cloud": 1.0}
    assert all(status.running and status.memory_mb == 1792 for status in statuses.values())
    assert all(status.link is not None and status.link.perfect for status in statuses.values())


async def test_link_when_given_a_delay_then_takes_it_both_ways_between_containers(
    home: Home, topology: Path
) -> None:
    async with standing(home, topology) as stage:
        access = stage.mesh.site("edge")
        user = access.login("agent")
        async with await Bus.connect(
            access.nats_url, user.user, user.password, name="test", within_s=WITHIN_S
        ) as bus:
            await stage.emulation.link("edge", NodeLink(delay_ms=50, bandwidth_mbit_s=10))
            given = {sample.metric: sample.value for sample in await eventually(lambda: probe(bus, "hub"))}
        await stage.emulation.link("edge", None)
    assert given["link.round_trip"] >= 0.1


async def test_node_when_its_clock_is_half_then_its_container_has_half_the_processor_until_it_settles(
    home: Home, topology: Path
) -> None:
    async with standing(home, topology) as stage:
        await stage.emulation.resize("edge", clock_ghz=stage.emulation.host.clock_ghz / 2)
        halved = (await stage.emulation.nodes.limits("edge")).cpus
        await stage.emulation.settle()
        settled = (await stage.emulation.nodes.limits("edge")).cpus
    assert (halved, settled) == (pytest.approx(CORES / 2), pytest.approx(CORES))


async def test_scenario_when_a_node_goes_through_a_tunnel_and_fails_and_returns_then_is_judged_clean(
    home: Home, topology: Path, tmp_path: Path
) -> None:
    document = {**SCENARIO, "mesh": {"topology": str(topology)}}
    async with standing(home, topology) as stage:
        report = await play_on(stage, Play(document, "test", seed=0), tmp_path)
        assert stage.emulation.away == set()
        assert stage.emulation.share("edge").cpus == CORES
    assert report.problems == []
    assert report.verdicts["counted"].expected > 50
    assert report.energy["edge"].up_s < report.energy["cloud"].up_s
    assert 5 <= report.energy["edge"].mean_w <= 15
    assert report.energy_j == pytest.approx(sum(node.energy_j for node in report.energy.values()))
    assert "## Energy" in (tmp_path / "report.md").read_text()


async def test_topology_when_taken_down_then_leaves_nothing(home: Home) -> None:
    project = Project(home).name
    assert await asyncio.to_thread(left_behind, project), "there is something to take away"
    assert await take_down(home)
    assert await asyncio.to_thread(left_behind, project) == []
    assert not home.root.exists()
    assert not await take_down(home)
