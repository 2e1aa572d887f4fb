"""The compose file of a mesh: networks, secrets of each container, and that it is up to date."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from towpath.contracts.autopilot import AutopilotMode, AutopilotSpec
from towpath.contracts.site import EngineSpec, FaultSettings
from towpath.contracts.topology import Node, Topology
from towpath.lab.cli.compose import API_PORT, HUB_PORT, REDIS_PORT, Files, spec_of, text_of
from towpath.lab.topology.compose import ComposeSettings, compose, compose_text
from towpath.lab.topology.reading import read
from towpath.lab.topology.secrets import digest_name, secret_name, secrets_of, write_secrets
from towpath.mesh.home import Home
from towpath.mesh.provisioning import new_mesh, provision
from towpath.mesh.service_table import SERVERS, hub_services
from towpath.mesh.settings import spec_of_sites
from towpath.mesh.state import MeshState

ROOT = Path(__file__).resolve().parents[2]
SITES = ("jfk", "cloud")
SERVICES = [service.name for service in hub_services()]
EVERY_SERVICE = {
    "emulate_links": True,
    "faults": FaultSettings(enabled=True),
    "autopilot": AutopilotSpec(mode=AutopilotMode.ACT),
}
TOPOLOGY = Topology(
    name="two",
    nodes=[Node(name="jfk", cores=1, memory_mb=1024), Node(name="cloud", cores=1, spare=True)],
)


@pytest.fixture(scope="module")
def mesh() -> MeshState:
    return new_mesh(spec_of_sites("jfk,cloud").model_copy(update=EVERY_SERVICE))


@pytest.fixture(scope="module")
def parts(mesh: MeshState) -> dict[str, Any]:
    return compose(mesh, ComposeSettings.of(TOPOLOGY, "./secrets", "local"))["services"]


def credentials(text: str) -> dict[str, str]:
    """User → password, of a mesh's state."""
    return dict(re.findall(r'"user": "([^"]+)",\s+"password": "([^"]+)"', text))


def test_site_when_described_then_shares_a_network_with_the_links_alone(parts: dict[str, Any]) -> None:
    for site in SITES:
        [network] = parts[site]["networks"]
        assert {name for name, part in parts.items() if network in part["networks"]} == {site, "links"}


def test_services_when_described_then_share_one_network_without_sites(parts: dict[str, Any]) -> None:
    inside = {name for name, part in parts.items() if "services" in part["networks"]}
    assert inside == parts.keys() - set(SITES)


def test_process_when_the_machine_sets_how_it_tells_of_itself_then_is_given_that(
    parts: dict[str, Any],
) -> None:
    told = {"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_HEADERS", "TOWPATH_LOG"}
    for name in {"coordinator", "collector", *SITES}:
        given = parts[name]["environment"]
        assert {variable: given[variable] for variable in told} == {v: f"${{{v}:-}}" for v in told}


def test_container_when_described_then_has_no_more_rights_than_it_needs(parts: dict[str, Any]) -> None:
    for name, part in parts.items():
        assert part["read_only"], name
        assert part["cap_drop"] == ["ALL"], name
        assert part["security_opt"] == ["no-new-privileges:true"], name
        assert part["init"], name
        assert part["restart"] == "unless-stopped", name
        assert part["healthcheck"]["test"], name
        assert part["pids_limit"], name


def test_process_of_ours_when_described_then_logs_and_exports_telemetry_as_the_caller_of_compose_asks(
    parts: dict[str, Any],
) -> None:
    for name in {*SERVICES, *SITES}:
        environment = parts[name]["environment"]
        assert environment["TOWPATH_LOG"] == "${TOWPATH_LOG:-}"
        assert environment["OTEL_EXPORTER_OTLP_ENDPOINT"] == "${OTEL_EXPORTER_OTLP_ENDPOINT:-}"


def test_container_when_described_then_is_given_its_own_secret_alone(parts: dict[str, Any]) -> None:
    for name, part in parts.items():
        assert part["secrets"] == [{"source": name, "target": secret_name(name)}]


def test_ports_when_published_then_on_this_machine_only_under_the_same_number(
    parts: dict[str, Any], mesh: MeshState
) -> None:
    published = {name: part["ports"] for name, part in parts.items() if "ports" in part}
    numbers = {
        "hub": [mesh.spec.hub_port],
        "api": [mesh.spec.api_port],
        **{site: [mesh.site(site).spec.nats_port, mesh.site(site).spec.mqtt_port] for site in SITES},
    }
    assert published == {name: [f"127.0.0.1:{n}:{n}" for n in own] for name, own in numbers.items()}


def test_node_when_it_has_memory_then_it_is_the_containers_limit_and_nothing_is_swapped(
    parts: dict[str, Any],
) -> None:
    assert parts["jfk"]["mem_limit"] == parts["jfk"]["memswap_limit"] == "1024m"


def test_node_when_spare_then_is_not_started_with_the_others(parts: dict[str, Any]) -> None:
    assert {name for name, part in parts.items() if "profiles" in part} == {"cloud"}


def test_volumes_when_mounted_then_are_declared_and_belong_to_one_container_but_for_fault_rules(
    mesh: MeshState,
) -> None:
    description = compose(mesh, ComposeSettings())
    mounted = [v.split(":")[0] for part in description["services"].values() for v in part["volumes"]]
    assert set(mounted) == set(description["volumes"])
    assert {name for name in mounted if mounted.count(name) > 1} == {"faults"}


@pytest.mark.parametrize(("seen", "source"), [(None, "/srv/code"), ("./code", "./code")])
def test_user_code_when_a_root_is_given_then_the_coordinator_alone_may_read_it(
    mesh: MeshState, seen: str | None, source: str
) -> None:
    spec = mesh.spec.model_copy(update={"artefact_root": "/srv/code"})
    settings = ComposeSettings(artefacts=seen)
    described = compose(mesh.model_copy(update={"spec": spec}), settings)["services"]
    mounted = {name: [v for v in part["volumes"] if v.endswith(":ro")] for name, part in described.items()}
    assert {name: volumes for name, volumes in mounted.items() if volumes} == {
        "coordinator": [f"{source}:/var/lib/towpath/artefacts:ro"]
    }
    assert described["coordinator"]["environment"]["TOWPATH_ARTEFACTS"] == "/var/lib/towpath/artefacts"


def test_text_when_read_back_then_is_the_description_without_references(mesh: MeshState) -> None:
    description = compose(mesh, ComposeSettings())
    text = compose_text(description, "# head\n")
    assert text.startswith("# head\n")
    assert yaml.safe_load(text) == description
    assert not re.search(r"[&*]id\d", text)


def test_secrets_when_made_then_no_container_has_those_of_another(mesh: MeshState) -> None:
    secrets = secrets_of(mesh)
    own = {
        name: {user for user, password in credentials(mesh.to_text()).items() if password in text}
        for name, text in secrets.items()
    }
    assert own["jfk"] == {
        "jfk",
        "jfk.agent",
        "jfk.engine",
        "jfk.device",
        "jfk.gateway",
        "jfk.leaf",
        "jfk.operator",
        "jfk.storage",
    }
    assert own["cloud"] == {
        "cloud",
        "cloud.agent",
        "cloud.engine",
        "cloud.device",
        "cloud.gateway",
        "cloud.leaf",
        "cloud.operator",
        "cloud.storage",
    }
    assert own["coordinator"] == {"coordinator", "hub.coordinator"}
    assert own["redis"] == set()  # It knows digests.
    assert not any(user.endswith((".engine", ".device")) for user in own["hub"])
    for service in ("monitor", "injector", "collector", "api", "links"):
        assert own[service] == {f"hub.{service}"}


def test_secrets_when_made_then_parts_listen_everywhere_and_find_each_other_by_name(mesh: MeshState) -> None:
    secrets = secrets_of(mesh)
    hub = json.loads(secrets["hub"])
    assert (hub["host"], hub["leafnodes"]["host"]) == ("0.0.0.0", "0.0.0.0")
    assert "bind 0.0.0.0" in secrets["redis"]
    site = MeshState.model_validate_json(secrets["jfk"])
    access = site.site("jfk")
    assert access.spec.listen == "0.0.0.0"
    assert site.leaf_remotes(access) == [("links", access.link_port)]
    assert site.redis_remote(access) == ("links", access.link_redis_port)
    assert MeshState.model_validate_json(secrets["links"]).hub_host == "hub"


def test_secrets_when_written_then_others_cannot_enter_and_what_is_outdated_goes(
    mesh: MeshState, tmp_path: Path
) -> None:
    directory = tmp_path / "secrets"
    for _ in range(2):  # Again, over what is there.
        write_secrets(mesh, directory)
        (directory / "mars.json").write_text("of a site that is gone")
    write_secrets(mesh, directory)
    assert directory.stat().st_mode & 0o777 == 0o700
    found = {path.name: path.stat().st_mode & 0o777 for path in directory.iterdir()}
    assert found == {file(name): 0o444 for name in secrets_of(mesh) for file in (secret_name, digest_name)}


def changed(directory: Path, *meshes: MeshState) -> set[str]:
    """Return the containers that compose would replace for the second of two meshes."""
    digests: list[dict[str, str]] = []
    for mesh in meshes:
        write_secrets(mesh, directory)
        digests.append({name: (directory / digest_name(name)).read_text() for name in secrets_of(mesh)})
    first, second = digests
    return {name for name in second if first.get(name) != second[name]}


def test_container_when_described_then_its_environment_is_that_of_its_secret(parts: dict[str, Any]) -> None:
    for name, part in parts.items():
        assert part["env_file"] == [f"./secrets/{digest_name(name)}"]


def test_digest_when_the_description_stays_then_stays(mesh: MeshState, tmp_path: Path) -> None:
    assert changed(tmp_path, mesh, MeshState.model_validate_json(mesh.to_text())) == set()


def test_digest_when_a_site_has_another_engine_then_its_and_the_services_change(
    mesh: MeshState, tmp_path: Path
) -> None:
    access = mesh.site("jfk")
    spec = access.spec.model_copy(update={"engine": EngineSpec(memory="1g")})
    sites = {**mesh.sites, "jfk": access.model_copy(update={"spec": spec})}
    assert changed(tmp_path, mesh, mesh.model_copy(update={"sites": sites})) == {"jfk", *SERVICES}


def test_digest_when_a_site_comes_then_those_change_who_know_all_sites(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    meshes = [
        provision(home, spec_of_sites(names).model_copy(update=EVERY_SERVICE))
        for names in ("jfk,cloud", "jfk,cloud,lga")
    ]
    assert changed(tmp_path / "secrets", *meshes) == {"lga", *SERVERS, *SERVICES}


def test_digest_when_code_comes_from_elsewhere_then_the_coordinators_alone_changes(
    mesh: MeshState, tmp_path: Path
) -> None:
    spec = mesh.spec.model_copy(update={"artefact_root": "/srv/code"})
    assert changed(tmp_path, mesh, mesh.model_copy(update={"spec": spec})) == {"coordinator"}


def test_digest_when_credentials_are_new_then_all_change(mesh: MeshState, tmp_path: Path) -> None:
    assert changed(tmp_path, mesh, new_mesh(mesh.spec)) == secrets_of(mesh).keys()


def test_committed_compose_file_when_written_again_then_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    topology = read("infra/docker/topology.yaml")
    state = new_mesh(spec_of(topology, HUB_PORT, REDIS_PORT, API_PORT, str(ROOT)))
    files = Files(ROOT / "docker-compose.yml", Home(ROOT / ".towpath/compose"), "infra/docker/topology.yaml")
    written = text_of(topology, state, files, "local")
    assert (ROOT / "docker-compose.yml").read_text() == written, "write it again: `make docker-images`"
