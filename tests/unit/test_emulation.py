"""Changes of nodes and links, and their order, with doubles of containers and hub that only remember."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from running.waiting import eventually
from towpath.contracts.commands import ListSites, SiteList
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.links import LinkConditions, ShapeLink
from towpath.contracts.message import now
from towpath.contracts.scenario_nodes import FailNodes, Outages, ResizeNode, Travel
from towpath.contracts.site import SiteState, SiteStatus
from towpath.contracts.topology import CoverageWindow, Node, NodeLink, Topology
from towpath.lab.emulation import emulation as emulation_module
from towpath.lab.emulation.emulation import Emulation
from towpath.lab.emulation.nodes import Nodes
from towpath.lab.topology.shares import Host, Share

SLOW, CUT = NodeLink(delay_ms=20), NodeLink(cut=True)

NODES = [
    Node(name="train", cores=1, clock_ghz=1.0, link=SLOW, coverage=[]),
    Node(name="hall", cores=1),
    Node(name="reserve", cores=1, spare=True),
]


class RememberedNodes(Nodes):
    """Containers that change at once."""

    def __init__(self, done: list[str]) -> None:
        super().__init__({node.name: f"x_{node.name}_1" for node in NODES})
        self.running: set[str] = set()
        self._done = done

    async def start(self, node: str) -> None:
        self.running.add(node)
        self._done.append(f"start {node}")

    async def stop(self, node: str) -> None:
        self.running.discard(node)
        self._done.append(f"stop {node}")

    async def kill(self, node: str) -> None:
        self.running.discard(node)
        self._done.append(f"kill {node}")

    async def limit(self, node: str, share: Share) -> None:
        self._done.append(f"limit {node} {share.cpus:g}")

    async def unleash(self, node: str, share: Share) -> None:
        self._done.append(f"unleash {node}")

    async def cpu_s(self, node: str) -> float | None:
        return 1.0 if node in self.running else None


class RememberingHub:
    """Knows the sites of containers that run, after `starts_after` questions, and what links were told."""

    def __init__(self, nodes: RememberedNodes, done: list[str]) -> None:
        self.links: list[tuple[str, LinkConditions]] = []
        self.starts_after = 1
        self._nodes, self._done = nodes, done

    async def request(self, command: Any, *, deadline_s: float, attempt_s: float | None = None) -> Any:
        await asyncio.sleep(0)
        if isinstance(command, ShapeLink):
            self.links.append((command.site, command.conditions))
            return None
        assert isinstance(command, ListSites)
        self.starts_after -= 1
        if self.starts_after > 0:
            raise TowpathError(ErrorCode.UNREACHABLE, "not there yet")
        self._done.append("up")
        return SiteList(sites=[self._status(node.name) for node in NODES])

    def _status(self, name: str) -> SiteStatus:
        state = SiteState.UP if name in self._nodes.running else SiteState.DOWN
        return SiteStatus(site=name, state=state, at=now(), nats_url="", mqtt_host="", mqtt_port=0)


@pytest.fixture
def done() -> list[str]:
    return []


@pytest.fixture
def running(done: list[str], monkeypatch: pytest.MonkeyPatch) -> Emulation:
    monkeypatch.setattr(emulation_module, "LOOK_EVERY_S", 0.001)
    nodes = RememberedNodes(done)
    hub: Any = RememberingHub(nodes, done)
    topology = Topology(name="t", nodes=NODES)
    return Emulation(topology, Host(cores=2, clock_ghz=2.0, memory_mb=8192), nodes, hub)


def links(running: Emulation) -> list[tuple[str, LinkConditions]]:
    hub: Any = running.bus
    return hub.links


def with_journey(running: Emulation, *windows: CoverageWindow) -> None:
    running.sizes["train"] = running.node("train").model_copy(update={"coverage": list(windows)})


async def test_node_when_started_then_has_the_whole_machine_until_its_site_is_up(
    running: Emulation, done: list[str]
) -> None:
    running.away.add("train")
    hub: Any = running.bus
    hub.starts_after = 3
    await running.start(["train"])
    assert done == ["unleash train", "start train", "up", "limit train 0.5"]
    assert running.away == set()


async def test_nodes_when_they_are_more_than_the_machine_has_cores_then_are_started_in_turns(
    running: Emulation, done: list[str]
) -> None:
    await running.start(["train", "hall", "reserve"])
    assert [entry.split()[0] for entry in done if "unleash" not in entry] == [
        *("start", "start", "up", "limit", "limit"),
        *("start", "up", "limit"),
    ]


async def test_node_when_it_runs_already_then_is_neither_started_nor_let_loose(
    running: Emulation, done: list[str]
) -> None:
    await running.start(["train"])
    done.clear()
    await running.start(["train"])
    assert done == ["up", "limit train 0.5"]


async def test_node_when_its_site_does_not_come_up_then_says_which(running: Emulation) -> None:
    hub: Any = running.bus
    hub.starts_after = 10**9
    with pytest.raises(TowpathError) as late:
        await running.start(["train", "hall"], within_s=0.05)
    assert (late.value.detail.code, late.value.detail.value) == (ErrorCode.DEADLINE, ["train", "hall"])


async def test_topology_when_settled_then_all_but_spare_nodes_run_with_sizes_and_links_as_described(
    running: Emulation, done: list[str]
) -> None:
    await running.start(["reserve"])
    await running.resize("hall", cores=2)
    done.clear()
    await running.settle()
    assert done[0] == "stop reserve"
    assert {"limit train 0.5", "limit hall 1"} <= set(done)
    assert links(running) == [(node.name, node.link.conditions) for node in NODES]
    assert running.away == {"reserve"}


async def test_node_when_it_fails_for_a_time_then_is_killed_and_returns(
    running: Emulation, done: list[str]
) -> None:
    await running.start(["train"])
    done.clear()
    await running.carry_out(FailNodes(do="fail", nodes=["train"], for_s=0.01))
    assert done == ["kill train", "unleash train", "start train", "up", "limit train 0.5"]


async def test_node_when_it_failed_for_good_then_is_meant_to_be_away_until_it_is_revived(
    running: Emulation,
) -> None:
    await running.start(["train", "hall"])
    await running.carry_out(FailNodes(do="fail", nodes=["train"]))
    assert (running.away, running.failed) == ({"train"}, {"train"})
    await running.stop(["hall"])
    await running.revive()
    assert running.away == {"hall"}


async def test_node_when_resized_then_its_share_follows_and_a_larger_one_than_the_machine_is_refused(
    running: Emulation, done: list[str]
) -> None:
    await running.carry_out(ResizeNode(do="resize", node="train", cores=2))
    assert done == ["limit train 1"]
    with pytest.raises(TowpathError) as refused:
        await running.carry_out(ResizeNode(do="resize", node="train", clock_ghz=9))
    assert refused.value.detail.field == "cores"
    assert running.share("train").cpus == 1.0


async def test_train_when_it_travels_then_its_link_is_what_each_window_says_and_in_the_end_as_before(
    running: Emulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_journey(running, CoverageWindow(for_s=0.5), CoverageWindow(for_s=0.5, link=CUT))
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(emulation_module.asyncio, "sleep", sleep)
    await running.carry_out(Travel(do="travel", node="train", rounds=2))
    wanted = [SLOW, CUT, SLOW, CUT, SLOW]
    assert links(running) == [("train", link.conditions) for link in wanted]
    assert [round(seconds, 1) for seconds in slept if seconds] == [0.5, 1.0, 1.5, 2.0]


async def test_train_when_its_journey_is_cancelled_in_a_tunnel_then_does_not_stay_there(
    running: Emulation,
) -> None:
    with_journey(running, CoverageWindow(for_s=3600, link=CUT))
    travelling = asyncio.create_task(running.travel("train", 1))
    await eventually(lambda: links(running))
    travelling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await travelling
    assert links(running) == [("train", CUT.conditions), ("train", SLOW.conditions)]


async def test_nodes_when_they_fail_by_chance_then_only_those_that_run_and_all_return(
    running: Emulation, done: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    await running.start(["train", "hall"])
    for name in ("train", "reserve"):
        running.sizes[name] = running.node(name).model_copy(update={"stability": 0.5})
    running.away.add("reserve")
    done.clear()

    async def sleep(seconds: float) -> None:
        return None

    monkeypatch.setattr(emulation_module.asyncio, "sleep", sleep)
    await running.carry_out(Outages(do="outages", nodes=["train", "reserve"], for_s=100), seed=3)
    killed = [entry for entry in done if entry.startswith("kill")]
    assert set(killed) == {"kill train"}
    assert len([entry for entry in done if entry == "limit train 0.5"]) == len(killed)
    assert running.away == {"reserve"}


async def test_node_when_its_start_takes_longer_than_its_outages_then_is_up_as_often_as_it_says_all_the_same(
    running: Emulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_s, within_s, now = 20.0, 200_000.0, 0.0
    away: list[float] = []

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    async def fail(names: list[str], for_s: float) -> None:
        nonlocal now
        assert now < within_s
        away.append(for_s + start_s)
        now += for_s + start_s

    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
    monkeypatch.setattr(emulation_module.asyncio, "sleep", sleep)
    monkeypatch.setattr(running, "fail", fail)
    changes = {"stability": 0.9, "outage_s": 6.0}
    running.sizes["train"] = running.node("train").model_copy(update=changes)
    await running.let_fail(["train"], within_s, seed=1)
    assert 1 - sum(away) / now == pytest.approx(0.9, abs=0.01)


async def test_jobs_when_prepared_at_full_speed_then_nodes_have_their_shares_again_also_after_a_failure(
    running: Emulation, done: list[str]
) -> None:
    await running.start(["train"])
    running.away |= {"hall", "reserve"}
    done.clear()
    with pytest.raises(ZeroDivisionError):
        async with running.at_full_speed():
            raise ZeroDivisionError
    assert done == ["unleash train", "limit train 0.5"]


async def test_node_when_the_topology_has_none_of_that_name_then_is_refused_with_those_it_has(
    running: Emulation,
) -> None:
    for work in (running.stop(["ghost"]), running.fail(["ghost"], None), running.link("ghost", None)):
        with pytest.raises(TowpathError) as refused:
            await work
        assert refused.value.detail.allowed == ["train", "hall", "reserve"]
