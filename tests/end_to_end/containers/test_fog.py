"""A topology as containers: nodes have their shares of the machine, links are as bad as said, nodes return.

What a node does is measured by a job on a backlog, so that the processor is all that it waits for, and by a
program that only loops.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

import pytest
import yaml

from towpath.bus import Bus
from towpath.containers.daemon import daemon
from towpath.contracts.commands import DeployJob, RemoveJob
from towpath.contracts.job import Input
from towpath.contracts.scenario_load import StandardJob
from towpath.contracts.topology import NodeLink
from towpath.drill.events import DrillEvent
from towpath.emulation.bringing_up import Plan, bring_up, take_down
from towpath.emulation.project import Project
from towpath.emulation.status import node_statuses
from towpath.mesh.home import Home
from towpath.mesh.link_probe import probe
from towpath.mesh.names import output_stream
from towpath.scenarios.emulated import EmulatedStage, standing_emulation
from towpath.scenarios.jobs import spec_of
from towpath.scenarios.load import BEGIN, SentEvent
from towpath.scenarios.playing import Play, play_on
from towpath.streams.pages import last_serial
from towpath.streams.replay import Replay
from towpath.topology.reading import read

pytestmark = [pytest.mark.timeout(600), pytest.mark.usefixtures("docker_daemon")]

T = TypeVar("T")

CORES = 0.8
"""Of the node whose work is measured: the machine has two, and runs all else, too."""

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

BACKLOG = 400_000
MEASURED_S = 10.0
FULL_HALF_HALF_FULL = (1.0, 0.5, 0.5, 1.0)
"""Parts of the clock, so that what becomes faster or slower meanwhile does so for both."""
LOOP = "import time; e = time.time() + 4\nwhile time.time() < e: pass\nprint(time.process_time())"
"""A program that always has something to do says how much of a processor it had, in seconds.

How often it went round would say as much of the machine's other guests: a core does a third less in one
minute than in the next.
"""


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
async def standing(home: Home, topology: Path) -> AsyncIterator[EmulatedStage]:
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
    """Container → which one it is, and since when it has run."""
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


async def test_link_when_given_50_ms_and_10_mbit_s_then_is_measured_at_that_between_containers(
    home: Home, topology: Path
) -> None:
    async with standing(home, topology) as stage:
        access = stage.mesh.site("edge")
        agent = access.agent
        bus = await Bus.connect(access.nats_url, agent.user, agent.password, name="test", within_s=20)
        async with bus:
            perfect = await probed(bus)
            await stage.emulation.link("edge", NodeLink(delay_ms=50, bandwidth_mbit_s=10))
            given = await probed(bus)
        await stage.emulation.link("edge", None)
    # What servers and processes take comes on top of what the link does, with and without it.
    added_s = min(given["link.round_trip"]) - min(perfect["link.round_trip"])
    assert added_s == pytest.approx(0.1, rel=0.1)
    assert median(given["link.bandwidth"]) == pytest.approx(1_250_000, rel=0.1)


async def test_node_when_its_clock_is_half_then_does_half_the_work(home: Home, topology: Path) -> None:
    async with standing(home, topology) as stage:
        container = (await asyncio.to_thread(Project(home).containers))["edge"]
        # While the node has nothing else to do: a job that was removed leaves its engine work for a while.
        _, upkeep = await with_cores(stage, partial(asyncio.sleep, MEASURED_S))
        loop = partial(asyncio.to_thread, looped_s, container)
        looped = await at_both_clocks(stage, loop, FULL_HALF_HALF_FULL, upkeep)
        async with job_on_backlog(stage):
            await until_emitted(stage, BACKLOG // 20)  # Until the JVM has compiled what it runs.
            events = await at_both_clocks(stage, partial(rate, stage), FULL_HALF_HALF_FULL * 2, upkeep)
        await stage.emulation.settle()
    print(f"upkeep {upkeep:.2f} cores; part of the clock → looped {looped} s, events/s {events}")
    assert sum(looped[0.5]) / sum(looped[1.0]) == pytest.approx(0.5, rel=0.15)
    assert sum(events[0.5]) / sum(events[1.0]) == pytest.approx(0.5, rel=0.15)


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


@asynccontextmanager
async def job_on_backlog(stage: EmulatedStage) -> AsyncIterator[None]:
    """A job at the edge that has more to do than it can; each event makes a result of its own."""
    edge = stage.mesh.site("edge")
    user = edge.device
    device = Replay(edge.mqtt_host, edge.mqtt_port, user.user, user.password, "site/backlog", "backlog")
    async with stage.emulation.at_full_speed():
        await device.run(SentEvent(DrillEvent(n, "k", BEGIN, 1.0).payload, 0.0) for n in range(BACKLOG))
        spec = spec_of(StandardJob(name="backlog", workload="cleaned", site="edge", topic="site/backlog"))
        inputs = [Input(site="edge", topic="site/backlog", start=0)]
        changes = {"inputs": inputs, "trigger_s": 0.0, "max_events_per_batch": 2000}
        await stage.bus.request(DeployJob(spec=spec.model_copy(update=changes)), deadline_s=90, attempt_s=30)
        await until_emitted(stage, 1)
    try:
        yield
    finally:
        await stage.bus.request(RemoveJob(job="backlog", purge=True), deadline_s=90, attempt_s=30)


async def probed(bus: Bus) -> dict[str, list[float]]:
    """Metric → what the mesh's own probe of the way to the hub says, nine times."""
    await probe(bus, "hub")
    found: dict[str, list[float]] = {}
    for _ in range(9):
        for sample in await probe(bus, "hub"):
            found.setdefault(sample.metric, []).append(sample.value)
    return found


async def emitted(stage: EmulatedStage) -> int:
    return await last_serial(stage.bus.connection, "edge", output_stream("backlog"))


async def until_emitted(stage: EmulatedStage, count: int) -> None:
    async with asyncio.timeout(120):
        while await emitted(stage) < count:
            await asyncio.sleep(0.2)


async def rate(stage: EmulatedStage) -> float:
    """Results per second, from the end of one batch to the end of another."""
    begun, first = await end_of_batch(stage, 0.0)
    ended, last = await end_of_batch(stage, MEASURED_S)
    assert last < BACKLOG - 2000, "the job has nothing left to do"
    return (last - first) / (ended - begun)


async def end_of_batch(stage: EmulatedStage, behind_s: float) -> tuple[float, int]:
    """The next moment at which results begin to come again, and how many had come."""
    await asyncio.sleep(behind_s)
    before = await emitted(stage)
    async with asyncio.timeout(60):
        while (now := await emitted(stage)) == before:
            await asyncio.sleep(0.02)
    return time.monotonic(), now


async def at_both_clocks(
    stage: EmulatedStage, measure: Callable[[], Awaitable[float]], parts: Sequence[float], upkeep: float
) -> dict[float, list[float]]:
    """Part of the host's clock → what the node does per second with it, in the order of `parts`."""
    found: dict[float, list[float]] = {}
    for part in parts:
        await stage.emulation.resize("edge", clock_ghz=stage.emulation.host.clock_ghz * part)
        found.setdefault(part, []).append(await at_its_share(stage, measure, upkeep))
    return found


async def at_its_share(stage: EmulatedStage, measure: Callable[[], Awaitable[float]], upkeep: float) -> float:
    """What the node does while it gets what it is promised, its own upkeep counted as work of the same kind.

    Agent, broker and engine need `upkeep` cores whatever the clock. On a machine that is too busy with others
    a node gets less than its share, and what it does then says nothing of its clock.
    """
    share = stage.emulation.share("edge").cpus
    taken = 0.0
    for _ in range(10):
        measured, taken = await with_cores(stage, measure)
        if taken > 0.88 * share:
            return measured * taken / (taken - upkeep)
    pytest.fail(f"this machine is too busy: the node got {taken:.2f} of the {share:g} cores of its share")


async def with_cores(stage: EmulatedStage, measure: Callable[[], Awaitable[T]]) -> tuple[T, float]:
    """What is measured, and how many cores the node took meanwhile."""
    before, begun = await stage.emulation.nodes.cpu_s("edge") or 0.0, time.monotonic()
    measured = await measure()
    after = await stage.emulation.nodes.cpu_s("edge") or 0.0
    return measured, (after - before) / (time.monotonic() - begun)


def looped_s(container: str) -> float:
    with daemon(answer_s=60) as docker:
        ran = docker.containers.get(container).exec_run(["python", "-c", LOOP])
    assert ran.exit_code == 0
    return json.loads(ran.output)
