"""The share of a machine that each node gets."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import psutil
import pytest

from towpath.contracts.errors import TowpathError
from towpath.contracts.topology import Node, Topology
from towpath.lab.topology.shares import Host, overcommitted, share_of, shares, this_host

HOST = Host(cores=2, clock_ghz=2.0, memory_mb=8192)


def topology(*nodes: Node, host_clock_ghz: float | None = None) -> Topology:
    return Topology(name="t", nodes=[*nodes], host_clock_ghz=host_clock_ghz)


def test_share_when_the_clock_is_half_the_hosts_then_is_half_a_core() -> None:
    assert share_of(Node(name="jfk", cores=1, clock_ghz=1.0), HOST).cpus == 0.5
    assert share_of(Node(name="jfk", cores=1.5, clock_ghz=2.0), HOST).cpus == 1.5


def test_share_when_the_node_names_no_clock_then_its_cores_are_the_hosts() -> None:
    assert share_of(Node(name="jfk", cores=1), HOST).cpus == 1.0


@pytest.mark.parametrize(
    ("node", "field"),
    [
        (Node(name="big", cores=1, clock_ghz=4.1), "nodes.1.cores"),
        (Node(name="big", cores=4, clock_ghz=1.1), "nodes.1.cores"),
        (Node(name="big", cores=1, memory_mb=9000), "nodes.1.memory_mb"),
    ],
)
def test_node_when_larger_than_the_machine_then_is_refused_with_what_there_is(node: Node, field: str) -> None:
    with pytest.raises(TowpathError) as refused:
        shares(topology(Node(name="jfk", cores=1), node), HOST)
    assert refused.value.detail.field == field
    assert refused.value.detail.allowed is not None
    assert "big" in refused.value.detail.message


def test_nodes_when_they_have_more_than_the_machine_together_then_it_is_told_and_not_refused() -> None:
    three = [Node(name=name, cores=1, memory_mb=3000) for name in ("a", "b", "c")]
    told = overcommitted(topology(*three), HOST)
    assert len(told) == 2
    assert "1.50" in told[0]
    assert overcommitted(topology(*three[:2]), HOST) == []


def test_nodes_when_spare_then_do_not_count_as_promised() -> None:
    given = [Node(name="a", cores=2), Node(name="b", cores=2, spare=True)]
    assert overcommitted(topology(*given), HOST) == []


def clocked(*cores: tuple[float, float]) -> Callable[..., list[SimpleNamespace]]:
    """Return what a machine says of its cores: the present clock and the highest one of each, in MHz."""
    return lambda percpu: [SimpleNamespace(current=current, max=highest) for current, highest in cores]


def test_host_when_cores_are_clocked_down_then_the_fastest_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "cpu_freq", clocked((800.021, 0.0), (3100.0, 0.0)))
    jfk = Node(name="jfk", cores=1)
    host = this_host(topology(jfk))
    assert (host.clock_ghz, host.memory_mb) == (3.1, psutil.virtual_memory().total // 1024**2)
    assert this_host(topology(jfk, host_clock_ghz=2.5)).clock_ghz == 2.5


@pytest.mark.parametrize("present", [800.021, 3100.0])
def test_host_when_the_kernel_knows_its_highest_clock_then_that_counts_however_idle_it_is(
    present: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(psutil, "cpu_freq", clocked((present, 3600.0), (present, 4200.0)))
    assert this_host(topology(Node(name="jfk", cores=1))).clock_ghz == 4.2


def test_host_when_it_says_no_clock_then_the_topology_has_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "cpu_freq", clocked())
    with pytest.raises(TowpathError) as refused:
        this_host(topology(Node(name="jfk", cores=1)))
    assert refused.value.detail.field == "host_clock_ghz"
