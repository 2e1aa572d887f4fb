"""A mesh of containers as people run it: from a topology to a compose file, up, judged, and gone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from running_docker import ROOT
from running_mesh import eventually

from towpath.containers.daemon import daemon, find
from towpath.emulation.project import compose_command
from towpath.mesh.home import Home
from towpath.mesh.state import MeshState
from towpath.topology.health import PROJECT_LABEL, parts, until_healthy

IMAGES_S, COMPOSE_S, DEMONSTRATION_S, HEALTHY_S = 900, 120, 600, 240
ASK_S = 30

TOPOLOGY = """
name: pair
nodes:
  - {name: jfk, cores: 1, memory_mb: 2048}
  - {name: cloud, cores: 1, memory_mb: 2048}
"""

SERVICES = {"hub", "redis", "coordinator", "monitor", "injector", "collector", "api", "links"}

ALL = "-1"
"""What a signal goes to: everything in the container but the one who sends it, and the first process."""

pytestmark = pytest.mark.timeout(IMAGES_S + DEMONSTRATION_S)


@dataclass
class Running:
    """A compose file whose containers run, the second site's excepted."""

    project: str
    home: Path
    mesh: MeshState

    def inside(self, service: str, script: str) -> subprocess.CompletedProcess[str]:
        """What a shell in a container makes of a script."""
        container = parts(self.project)[service].container
        command = ["docker", "exec", container, "bash", "-c", script]
        return subprocess.run(command, capture_output=True, text=True, timeout=ASK_S)

    def reaches(self, service: str, host: str, port: int) -> bool:
        """Whether somebody listens there, as seen from a container."""
        return self.inside(service, f"timeout 2 bash -c 'exec 3<>/dev/tcp/{host}/{port}'").returncode == 0

    def attributes(self, service: str) -> dict[str, Any]:
        """What the daemon knows of a container."""
        with daemon() as docker:
            return find(docker, parts(self.project)[service].container).attrs

    def addresses(self, service: str) -> list[str]:
        networks = self.attributes(service)["NetworkSettings"]["Networks"]
        return [network["IPAddress"] for network in networks.values()]


@pytest.fixture(scope="module")
def images(docker_daemon: str) -> None:
    """Those of this clone, under the usual tag."""
    command = [ROOT / "infra" / "docker" / "images.sh"]
    built = subprocess.run(command, capture_output=True, text=True, timeout=IMAGES_S)
    assert built.returncode == 0, built.stderr


def towpath(*arguments: str, timeout_s: float = ASK_S) -> Any:
    """What a command says as JSON."""
    command = [sys.executable, "-m", "towpath.cli", *arguments, "--json"]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=timeout_s)
    assert ended.stdout, ended.stderr
    return json.loads(ended.stdout)


def left_of(project: str) -> list[str]:
    """Everything that the daemon still has of a project."""
    label = {"label": f"{PROJECT_LABEL}={project}"}
    with daemon() as docker:
        found = docker.containers.list(all=True, filters={**label}), docker.networks.list(filters={**label})
        volumes = docker.volumes.list(filters={**label})
    return [str(thing.name) for kind in (*found, volumes) for thing in kind]


@pytest.fixture(scope="module")
def running(images: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    directory = tmp_path_factory.mktemp("composed")
    (directory / "topology.yaml").write_text(TOPOLOGY)
    file, home, project = directory / "docker-compose.yml", directory / "mesh", directory.name
    ports = ("--hub-port=0", "--redis-port=0", "--api-port=0")
    towpath("--home", str(home), "compose", str(directory / "topology.yaml"), "--file", str(file), *ports)
    compose = [*compose_command(), "--file", str(file), "--project-name", project]
    try:
        subprocess.run([*compose, "up", "--detach", *SERVICES, "jfk"], check=True, timeout=COMPOSE_S)
        until_healthy(project, HEALTHY_S)
        yield Running(project, home, MeshState.load(Home(home)))
    finally:
        subprocess.run([*compose, "down", "--volumes"], check=True, timeout=COMPOSE_S)
    assert left_of(project) == []


def test_demonstration_when_a_container_is_killed_then_nothing_is_lost_and_nothing_stays(
    images: None, tmp_path: Path
) -> None:
    size = ("--events", "2400", "--rate", "120")
    report = towpath("demo-containers", *size, "--output", str(tmp_path), timeout_s=DEMONSTRATION_S)
    main, left = report["main"], report["evacuation"]
    assert [(m["source"], m["target"], m["strategy"]) for m in main["migrations"]] == [
        ("jfk", "cloud", "handover"),
        ("cloud", "jfk", "handover"),
    ]
    assert main["results"] == main["expected_results"] > 2400
    assert (main["lost"], main["duplicated"], main["wrong"]) == (0, 0, 0)
    assert (left["source"], left["target"], left["strategy"]) == ("lga", "cloud", "handover")
    assert left["results_afterwards"] > 0
    assert left["results"] == left["expected_results"] > left["results_afterwards"]
    assert (left["lost"], left["duplicated"], left["wrong"]) == (0, 0, 0)
    with daemon() as docker:
        names = [str(container.name) for container in docker.containers.list(all=True)]
    assert not [name for name in names if name.endswith("_lga_1") or "-lga-1" in name]
    assert not (tmp_path / "mesh").exists()


def test_site_when_it_runs_then_reaches_the_links_and_nobody_else(running: Running) -> None:
    access, mesh = running.mesh.site("jfk"), running.mesh
    assert running.reaches("jfk", "links", access.link_port)
    assert running.reaches("jfk", "links", access.link_redis_port)
    there = {"hub": mesh.spec.hub_port, "redis": mesh.spec.redis_port, "api": mesh.spec.api_port}
    for service, port in there.items():
        assert running.reaches("links", service, port)
        assert not running.reaches("jfk", service, port)
        for address in running.addresses(service):
            assert not running.reaches("jfk", address, port)


@pytest.mark.parametrize("service", ["hub", "redis", "coordinator", "jfk"])
def test_container_when_it_runs_then_has_no_rights_and_its_own_secret_alone(
    running: Running, service: str
) -> None:
    who = running.inside(service, "id -u; grep CapEff /proc/self/status; ls /run/secrets; touch /etc/x")
    user, capabilities, *secrets = who.stdout.split("\n")[:-1]
    assert user == "10001"
    assert int(capabilities.split()[1], 16) == 0
    assert [name.split(".")[0] for name in secrets] == [service]
    assert "Read-only file system" in who.stderr


async def test_service_when_its_process_is_killed_then_its_container_starts_anew(running: Running) -> None:
    async def works_again() -> bool:
        restarts = running.attributes("monitor")["RestartCount"]
        return restarts == before + 1 and parts(running.project)["monitor"].works

    before = running.attributes("monitor")["RestartCount"]
    running.inside("monitor", f"kill -KILL {ALL}")
    await eventually(works_again, within_s=90)


async def test_service_when_it_hangs_then_its_health_check_fails_until_it_goes_on(running: Running) -> None:
    async def is_healthy() -> bool:
        return running.inside("api", check).returncode == 0

    async def is_silent() -> bool:
        return not await is_healthy()

    [_, check] = running.attributes("api")["Config"]["Healthcheck"]["Test"]
    assert await is_healthy()
    running.inside("api", f"kill -STOP {ALL}")
    await eventually(is_silent, within_s=60)
    running.inside("api", f"kill -CONT {ALL}")
    await eventually(is_healthy, within_s=60)


def test_operator_when_on_the_machine_itself_then_commands_the_mesh(running: Running) -> None:
    sites = {site["site"]: site["state"] for site in towpath("--home", str(running.home), "sites")}
    assert sites["jfk"] in ("starting", "up")
