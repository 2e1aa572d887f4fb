"""Topology files: what is read, and what is refused with its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.links import LinkConditions
from towpath.contracts.topology import NodeLink, Topology
from towpath.lab.topology.reading import LIBRARY, parse, read
from towpath.lab.topology.sites import fitting_engine, mesh_spec, site_spec


def topology(*nodes: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {"name": "two", "nodes": [*nodes] or [{"name": "jfk", "cores": 1}], **changes}


def parsed(*nodes: dict[str, Any], **changes: Any) -> Topology:
    return parse(yaml.safe_dump(topology(*nodes, **changes)))


def refusal(*nodes: dict[str, Any], **changes: Any) -> TowpathError:
    with pytest.raises(TowpathError) as refused:
        parsed(*nodes, **changes)
    return refused.value


def test_library_when_listed_then_has_city_traffic_railway_and_a_factory_of_ten() -> None:
    assert LIBRARY.names() == ["city-traffic", "factory", "railway"]
    assert [read(name).name for name in LIBRARY.names()] == LIBRARY.names()
    assert len(read("factory").nodes) == 10
    assert [node.name for node in read("railway").nodes if node.coverage] == ["train"]


@pytest.mark.parametrize("name", LIBRARY.names())
def test_library_topology_when_read_then_every_node_has_power_and_a_heap_inside_its_memory(name: str) -> None:
    for node in read(name).nodes:
        engine = site_spec(node).engine
        assert node.power is not None
        assert int(engine.memory.removesuffix("m")) < node.memory_mb / 2


@pytest.mark.parametrize(
    ("node", "field"),
    [
        ({"name": "jfk", "cores": 0}, "nodes.0.cores"),
        ({"name": "jfk", "cores": 1, "memory_mb": 100}, "nodes.0.memory_mb"),
        ({"name": "jfk", "cores": 1, "power": {"idle_w": 9, "active_w": 3}}, "nodes.0.power"),
        ({"name": "jfk", "cores": 1, "stability": 1.2}, "nodes.0.stability"),
        ({"name": "jfk", "cores": 1, "coverage": [{"for_s": 0}]}, "nodes.0.coverage.0.for_s"),
        ({"name": "jfk", "cores": 1, "link": {"bandwidth_mbit_s": 0}}, "nodes.0.link.bandwidth_mbit_s"),
        ({"name": "hub", "cores": 1}, "nodes.0.name"),
        ({"name": "jfk", "cores": 1, "colour": "red"}, "nodes.0.colour"),
    ],
)
def test_node_when_it_makes_no_sense_then_is_refused_with_its_place(node: dict[str, Any], field: str) -> None:
    assert refusal(node).detail.field == field


def test_nodes_when_two_have_one_name_or_all_are_spare_then_are_refused() -> None:
    jfk = {"name": "jfk", "cores": 1}
    assert "same name" in refusal(jfk, jfk).detail.message
    assert "spare" in refusal({**jfk, "spare": True}).detail.message


def test_file_when_there_is_none_then_says_where_names_come_from(tmp_path: Path) -> None:
    with pytest.raises(TowpathError) as refused:
        read(str(tmp_path / "none.yaml"))
    assert "towpath fog list" in str(refused.value.detail.allowed)
    with pytest.raises(TowpathError) as refused:
        read("raleway")
    assert refused.value.detail.allowed == LIBRARY.names()


def test_link_when_bandwidth_is_in_megabits_then_conditions_have_bytes() -> None:
    link = NodeLink(delay_ms=50, bandwidth_mbit_s=10)
    assert link.conditions == LinkConditions(delay_ms=50, bandwidth_bytes_per_s=1_250_000)
    assert NodeLink().conditions.perfect


def test_mesh_when_made_of_a_topology_then_every_node_is_a_site_behind_an_emulated_link() -> None:
    spec = mesh_spec(read("railway"))
    assert [site.name for site in spec.sites] == ["train", "station", "control"]
    assert spec.emulate_links
    assert spec.sites[0].capacity.memory_mb == 1536


def test_disk_when_it_is_small_then_streams_drop_what_is_oldest_before_it_is_full() -> None:
    [node] = parsed({"name": "jfk", "cores": 1, "disk_mb": 512}).nodes
    assert 2 * site_spec(node).retention.max_bytes <= 512 * 1024**2


def test_engine_when_a_node_names_none_then_has_a_thread_for_each_core() -> None:
    small, large = parsed(
        {"name": "small", "cores": 0.5, "memory_mb": 1024}, {"name": "large", "cores": 3.5, "memory_mb": 8192}
    ).nodes
    assert fitting_engine(small).spark_master == "local[1]"
    assert fitting_engine(large).spark_master == "local[4]"


def test_code_when_a_topology_is_unknown_then_is_the_inputs_fault() -> None:
    with pytest.raises(TowpathError) as refused:
        read("raleway")
    assert refused.value.detail.code is ErrorCode.INVALID
