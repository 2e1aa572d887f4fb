"""A hub of three servers, or of others: its servers find each other, and all that connects to it finds it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import ValidationError

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.joining import Bundle
from towpath.contracts.site import HubSpec, MeshSpec, SiteSpec
from towpath.contracts.tls import TlsSpec
from towpath.lab.links.settings import LinkSettings
from towpath.mesh.home import Home
from towpath.mesh.joining import invited, joining_mesh
from towpath.mesh.nats_config import hub_config, site_config
from towpath.mesh.provisioning import new_mesh, provision
from towpath.mesh.service_table import processes_of
from towpath.mesh.state import MeshState
from towpath.supervisor.app import children

AT = datetime(2026, 1, 1, tzinfo=UTC)
NODES = ["hub", "hub-2", "hub-3"]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def spec(**settings: Any) -> MeshSpec:
    return MeshSpec(sites=[SiteSpec(name="jfk")], **{"hub": HubSpec(nodes=3), **settings})


def configs(state: MeshState, home: Home) -> dict[str, Any]:
    return {node.name: json.loads(hub_config(state, home, node)) for node in state.hub_nodes}


def leaf_ports(state: MeshState, site: str, home: Home) -> list[int]:
    """Return the ports to which a site's server may connect."""
    [remote] = json.loads(site_config(state, site, home))["leafnodes"]["remotes"]
    return [int(url.rpartition(":")[2]) for url in remote["urls"]]


def test_servers_of_the_hub_when_there_are_three_then_each_is_its_own_and_finds_the_others(
    home: Home,
) -> None:
    state = provision(home, spec(tls=TlsSpec(enabled=True)))

    found = configs(state, home)
    ports = {name: config["cluster"]["port"] for name, config in found.items()}
    taken = [c[part]["port"] for c in found.values() for part in ("cluster", "leafnodes")]
    taken += [config["port"] for config in found.values()]
    assert (list(found), len({*taken, 0})) == (NODES, 10)
    assert [config["server_name"] for config in found.values()] == NODES
    assert len({config["jetstream"]["store_dir"] for config in found.values()}) == 3
    assert {config["jetstream"]["domain"] for config in found.values()} == {"hub"}
    assert len({config["cluster"]["name"] for config in found.values()} - set(NODES)) == 1
    for name, config in found.items():
        routes = {int(route.rpartition(":")[2]) for route in config["cluster"]["routes"]}
        assert routes == set(ports.values()) - {ports[name]}
        assert config["cluster"]["authorization"]["password"] in config["cluster"]["routes"][0]
        assert config["cluster"]["tls"]["verify"] is True


def test_hub_when_it_has_one_server_then_is_no_cluster(home: Home) -> None:
    state = provision(home, spec(hub=HubSpec()))

    assert (list(configs(state, home)), state.routes) == (["hub"], None)
    assert "cluster" not in configs(state, home)["hub"]


def test_hub_when_it_has_three_servers_then_all_that_connects_knows_each(home: Home) -> None:
    state = provision(home, spec(emulate_links=True))

    direct = state.model_copy(update={"spec": spec()})
    leaves = [node.leaf_port for node in state.hub_nodes]
    [to_hub, _] = LinkSettings.from_home(home.root).routes["jfk"]
    assert [int(url.rpartition(":")[2]) for url in state.hub_url.split(",")] == [
        node.port for node in state.hub_nodes
    ]
    assert leaf_ports(direct, "jfk", home) == leaves
    assert [port for _, port in to_hub.far] == leaves
    assert leaf_ports(state, "jfk", home) == [state.site("jfk").link_port]


def test_machine_when_it_joins_a_mesh_of_three_servers_then_knows_each(home: Home) -> None:
    hub = new_mesh(spec(listen="0.0.0.0"))
    invitation = invited(hub, SiteSpec(name="barge"), "192.0.2.10", 3600, AT)

    own = joining_mesh(Bundle.from_json(invitation[1].model_dump_json()))

    assert [url.rpartition(":")[2] for url in own.hub_url.split(",")] == [
        str(node.port) for node in hub.hub_nodes
    ]
    assert leaf_ports(own, "barge", home) == [node.leaf_port for node in hub.hub_nodes]
    assert hub.routes is not None
    assert hub.routes.password not in own.to_text()


def test_mesh_when_it_exists_then_its_hub_keeps_its_servers_and_their_ports(home: Home) -> None:
    before = provision(home, spec())

    after = provision(home, MeshSpec(sites=[SiteSpec(name="lga")]))

    assert (after.hub_nodes, after.routes) == (before.hub_nodes, before.routes)


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1)])
def test_mesh_when_it_exists_then_another_number_of_servers_is_refused(
    home: Home, before: Any, after: Any
) -> None:
    kept = provision(home, spec(hub=HubSpec(nodes=before)))

    with pytest.raises(TowpathError, match="would lose what it has stored") as refused:
        provision(home, spec(hub=HubSpec(nodes=after)))

    assert (refused.value.detail.code, refused.value.detail.field) == (ErrorCode.NOT_ALLOWED, "hub.nodes")
    assert MeshState.load(home) == kept


def elsewhere(host: str) -> HubSpec:
    return HubSpec(
        urls=[f"nats://{host}:4222", f"nats://{host}:4223"], leaf_urls=[f"nats-leaf://{host}:7422"]
    )


def test_hub_when_others_run_it_then_is_found_there_and_is_given_an_account(home: Home) -> None:
    state = provision(home, spec(hub=elsewhere("localhost")))

    started = {child.name for child in children(state, home)}
    account = json.loads((home.hub / "account.conf").read_text())
    assert {*started, "jfk-nats", "jfk-engine"} == set(processes_of(state.spec, ["jfk"]))
    assert not started & set(NODES)
    assert (state.hub_url, state.hub_tls()) == ("nats://localhost:4222,nats://localhost:4223", None)
    assert leaf_ports(state, "jfk", home) == [7422]
    assert {"hub.coordinator", "jfk.leaf"} <= {user["user"] for user in account["users"]}


def test_hub_when_others_run_it_on_another_machine_then_must_be_encrypted(home: Home) -> None:
    with pytest.raises(TowpathError, match="unencrypted") as refused:
        provision(home, spec(hub=elsewhere("nats.example.org")))

    assert refused.value.detail.field == "hub.urls"
    assert provision(home, spec(hub=elsewhere("nats.example.org"), tls=TlsSpec(allow_plain=True)))


def test_mesh_when_it_has_a_hub_of_its_own_then_that_of_others_is_refused(home: Home) -> None:
    provision(home, spec(hub=HubSpec()))

    with pytest.raises(TowpathError, match="has not what this mesh has stored"):
        provision(home, spec(hub=elsewhere("localhost")))


def test_link_when_its_site_is_beside_the_hub_then_is_not_compressed(home: Home) -> None:
    beside, emulated = provision(home, spec()), provision(home, spec(emulate_links=True))

    [direct] = json.loads(site_config(beside, "jfk", home))["leafnodes"]["remotes"]
    [slow] = json.loads(site_config(emulated, "jfk", home))["leafnodes"]["remotes"]
    assert direct["compression"] == "off"
    assert "compression" not in slow


@pytest.mark.parametrize(("chosen", "written"), [("off", "off"), ("auto", None)])
def test_hub_when_it_is_configured_then_compresses_links_as_chosen(
    home: Home, chosen: Literal["auto", "off"], written: str | None
) -> None:
    state = provision(home, spec(hub=HubSpec(nodes=3, compression=chosen)))

    assert {each["leafnodes"].get("compression") for each in configs(state, home).values()} == {written}


@pytest.mark.parametrize(
    "further",
    [
        {},
        {"leaf_urls": ["nats-leaf://a:7422"], "nodes": 3},
        {"leaf_urls": ["nats-leaf://a:7422"], "compression": "off"},
    ],
)
def test_hub_when_its_settings_do_not_fit_then_are_refused(further: Any) -> None:
    with pytest.raises(ValidationError, match="urls"):
        HubSpec(urls=["nats://a:4222"], **further)


def test_processes_when_the_hub_has_three_servers_then_all_are_started(home: Home) -> None:
    started = [child.name for child in children(provision(home, spec()), home)]

    assert started[:3] == NODES
    assert {*started, "jfk-nats", "jfk-engine"} == set(processes_of(spec(), ["jfk"]))
