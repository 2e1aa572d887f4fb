"""`towpath compose` and `towpath demo-containers`: what they write, what they refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from towpath.cli import connection
from towpath.cli.__main__ import app
from towpath.cli.container_meshes import compose_instead
from towpath.contracts.errors import TowpathError
from towpath.contracts.topology import Node, Topology
from towpath.lab.demonstration.containers import ContainersDemonstration
from towpath.lab.emulation.project import Project
from towpath.lab.topology.reading import read
from towpath.mesh.home import Home
from towpath.mesh.provisioning import provision
from towpath.mesh.settings import spec_of_sites
from towpath.mesh.state import MeshState

TOPOLOGY = "name: one\nnodes:\n  - {name: jfk, cores: 1}\n"
FREE_PORTS = ("--hub-port=0", "--redis-port=0", "--api-port=0")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "topology.yaml").write_text(TOPOLOGY)
    return tmp_path


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["--home", "mesh", "compose", *arguments])


def test_compose_when_called_then_writes_a_file_that_finds_its_secrets(here: Path) -> None:
    ended = run("topology.yaml", *FREE_PORTS, "--json")
    assert ended.exit_code == 0, ended.stderr
    said = json.loads(ended.stdout)
    assert said["start"] == "docker compose --file docker-compose.yml up --detach"
    described = yaml.safe_load(Path(said["file"]).read_text())
    for secret in described["secrets"].values():
        assert (here / secret["file"]).is_file()
    mesh = MeshState.load(Home(here / "mesh"))
    assert f"127.0.0.1:{mesh.spec.hub_port}:{mesh.spec.hub_port}" in described["services"]["hub"]["ports"]
    assert mesh.spec.emulate_links
    assert mesh.spec.addresses.hub is None  # This machine finds the hub at its published port.


def test_compose_when_called_again_then_everything_stays_as_it_is(here: Path) -> None:
    def content() -> dict[str, bytes]:
        files = [
            here / "docker-compose.yml",
            *(here / "mesh").rglob("*.json"),
            *(here / "mesh").rglob("*.conf"),
        ]
        return {str(path): path.read_bytes() for path in files}

    run("topology.yaml", *FREE_PORTS)
    before = content()
    assert len(before) >= 10
    run("topology.yaml", *FREE_PORTS)
    assert content() == before


def test_compose_when_the_file_lies_elsewhere_then_its_paths_are_absolute(here: Path) -> None:
    (here / "elsewhere").mkdir()
    run("topology.yaml", "--file", "elsewhere/mesh.yml", *FREE_PORTS)
    text = (here / "elsewhere" / "mesh.yml").read_text()
    assert yaml.safe_load(text)["secrets"]["jfk"]["file"] == str(here / "mesh" / "secrets" / "jfk.json")
    assert "docker compose --file mesh.yml up --detach" in text


@pytest.mark.parametrize(("option", "source"), [((), "."), (("--artefact-root", "code"), "./code")])
def test_compose_when_jobs_may_bring_code_then_the_coordinator_finds_what_this_machine_names(
    here: Path, option: tuple[str, ...], source: str
) -> None:
    (here / "code").mkdir()
    assert run("topology.yaml", *option, *FREE_PORTS).exit_code == 0
    assert MeshState.load(Home(here / "mesh")).spec.artefact_root == str((here / source).resolve())
    described = yaml.safe_load((here / "docker-compose.yml").read_text())
    coordinator = described["services"]["coordinator"]
    assert f"{source}:{coordinator['environment']['TOWPATH_ARTEFACTS']}:ro" in coordinator["volumes"]


@pytest.mark.parametrize("given", ["missing.yaml", "no-such-topology"])
def test_compose_when_there_is_no_such_topology_then_says_so_and_writes_nothing(
    here: Path, given: str
) -> None:
    ended = run(given)
    assert ended.exit_code == 2
    assert given in ended.stderr
    assert not (here / "docker-compose.yml").exists()
    assert not (here / "mesh").exists()


def demonstration_on(directory: Path, *sites: str) -> ContainersDemonstration:
    topology = Topology(name="some", nodes=[Node(name=site, cores=1) for site in sites])
    path = directory / "some.yaml"
    path.write_text(topology.model_dump_json())
    return ContainersDemonstration(directory, str(path), lambda text: None)


@pytest.mark.parametrize("names", [["jfk", "cloud"], ["jfk", "lga"], ["lga", "ewr", "cloud"]])
def test_demonstration_when_sites_are_missing_then_says_which_it_needs(
    tmp_path: Path, names: list[str]
) -> None:
    with pytest.raises(TowpathError, match="needs other sites"):
        demonstration_on(tmp_path, *names)


def test_demonstration_when_three_sites_are_there_then_the_other_airport_is_the_one_to_lose(
    tmp_path: Path,
) -> None:
    demonstration = demonstration_on(tmp_path, "cloud", "lga", "jfk")
    assert (demonstration.edges, demonstration.killed) == (("jfk", "lga"), "lga")


def call(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["--home", "mesh", *arguments])


@pytest.mark.parametrize(
    ("command", "instead"),
    [("up", "up --detach"), ("down", "stop"), ("logs", "logs"), ("status", "ps"), ("sites", "up --detach")],
)
def test_command_for_processes_when_the_mesh_runs_as_containers_then_names_that_of_compose(
    here: Path, command: str, instead: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "CONNECT_WITHIN_S", 0.1)
    run("topology.yaml", *FREE_PORTS)
    ended = call(command)
    assert ended.exit_code != 0
    assert f"`docker compose {instead}`" in ended.stderr
    assert not list((here / "mesh" / "run").iterdir())


def test_command_when_the_containers_are_those_of_a_fog_then_names_its_own(here: Path) -> None:
    home = Home(here / "a mesh" / "fog")
    topology = read("topology.yaml")
    Project(home).write(topology, "local")
    assert compose_instead(home, "up") == f"towpath --home '{here}/a mesh' fog up"
    file = f"--file '{home.root}/docker-compose.yml' --project-name {Project(home).name}"
    assert compose_instead(home, "logs") == f"docker compose {file} logs"


def test_compose_when_there_is_a_mesh_of_processes_then_leaves_it_alone(here: Path) -> None:
    provision(Home(here / "mesh"), spec_of_sites("jfk"))
    ended = run("topology.yaml")
    assert ended.exit_code != 0
    assert "own processes" in ended.stderr
    assert not (here / "mesh" / "secrets").exists()
    assert not (here / "docker-compose.yml").exists()
