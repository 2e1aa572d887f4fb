"""A mesh of containers as people run it: from a topology to a compose file, up, judged, and gone."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from running.places import ROOT
from running.waiting import WITHIN_S, eventually, until
from towpath.containers.daemon import daemon, find
from towpath.lab.containers.projects import PROJECT_LABEL, parts, until_healthy
from towpath.lab.emulation.project import Project, compose_command
from towpath.mesh.home import Home
from towpath.mesh.state import MeshState
from towpath.mesh.version import installed_version

IMAGES_S, COMPOSE_S, DEMONSTRATION_S, HEALTHY_S = 900, 120, 600, 240
ASK_S = 30

TOPOLOGY = """
name: pair
nodes:
  - {name: jfk, cores: 1, memory_mb: 2048}
  - {name: cloud, cores: 1, memory_mb: 2048}
"""

SERVICES = {"hub", "redis", "coordinator", "monitor", "collector", "api", "links"}

ALL = "-1"
"""Target of a signal: all processes in the container but its sender and the first process."""

pytestmark = pytest.mark.timeout(IMAGES_S + DEMONSTRATION_S)


@dataclass
class Running:
    """A compose file whose containers run, the second site's excepted."""

    project: str
    directory: Path
    """Directory of the topology and the compose file."""
    mesh: MeshState

    @property
    def home(self) -> Path:
        return self.directory / "mesh"

    def describe(self, topology: str) -> None:
        """Write the compose file and the secrets of this topology."""
        describe(self.directory, topology)

    def up(self) -> None:
        """Bring the containers to what the compose file says."""
        compose = compose_of(self.directory)
        subprocess.run([*compose, "up", "--detach", *SERVICES, "jfk"], check=True, timeout=COMPOSE_S)

    def ids(self) -> dict[str, str]:
        """Service → id of its container: another one is another container."""
        return {service: self.attributes(service)["Id"] for service in (*SERVICES, "jfk")}

    async def until_up(self) -> None:
        """Wait until the site is up."""

        async def is_up() -> bool:
            sites = towpath("--home", str(self.home), "sites", timeout_s=COMPOSE_S)
            return ("jfk", "up") in {(site["site"], site["state"]) for site in sites}

        await eventually(is_up, within_s=HEALTHY_S)

    def inside(self, service: str, script: str) -> subprocess.CompletedProcess[str]:
        """Run a script in a container's shell."""
        container = parts(self.project)[service].container
        command = ["docker", "exec", container, "bash", "-c", script]
        return subprocess.run(command, capture_output=True, text=True, timeout=ASK_S)

    def reaches(self, service: str, host: str, port: int) -> bool:
        """True if a process listens at this address, as seen from a container."""
        return self.inside(service, f"timeout 2 bash -c 'exec 3<>/dev/tcp/{host}/{port}'").returncode == 0

    def attributes(self, service: str) -> dict[str, Any]:
        """Return the daemon's attributes of a container."""
        with daemon() as docker:
            return find(docker, parts(self.project)[service].container).attrs

    def addresses(self, service: str) -> list[str]:
        networks = self.attributes(service)["NetworkSettings"]["Networks"]
        return [network["IPAddress"] for network in networks.values()]


@pytest.fixture(scope="module")
def images(docker_daemon: str) -> None:
    """Build the images of this clone under the usual tag."""
    command = [ROOT / "infra" / "docker" / "images.sh"]
    built = subprocess.run(command, capture_output=True, text=True, timeout=IMAGES_S)
    assert built.returncode == 0, built.stderr


def towpath(*arguments: str, timeout_s: float = ASK_S) -> Any:
    """Run a command with `--json`. Return its answer."""
    command = [sys.executable, "-m", "towpath.cli", *arguments, "--json"]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=timeout_s)
    assert ended.stdout, ended.stderr
    return json.loads(ended.stdout)


def describe(directory: Path, topology: str) -> None:
    (directory / "topology.yaml").write_text(topology)
    ports = ("--hub-port=0", "--redis-port=0", "--api-port=0")
    files = (str(directory / "topology.yaml"), "--file", str(directory / "docker-compose.yml"))
    towpath("--home", str(directory / "mesh"), "compose", *files, *ports, timeout_s=COMPOSE_S)


def compose_of(directory: Path) -> list[str]:
    """Return the compose command for the topology of a directory."""
    file = ("--file", str(directory / "docker-compose.yml"))
    return [*compose_command(), *file, "--project-name", directory.name]


def left_of(project: str) -> list[str]:
    """Return everything that the daemon still has of a project."""
    label = {"label": f"{PROJECT_LABEL}={project}"}
    with daemon() as docker:
        found = docker.containers.list(all=True, filters={**label}), docker.networks.list(filters={**label})
        volumes = docker.volumes.list(filters={**label})
    return [str(thing.name) for kind in (*found, volumes) for thing in kind]


@pytest.fixture(scope="module")
def running(images: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    directory = tmp_path_factory.mktemp("composed")
    describe(directory, TOPOLOGY)
    running = Running(directory.name, directory, MeshState.load(Home(directory / "mesh")))
    try:
        running.up()
        until_healthy(running.project, HEALTHY_S)
        yield running
    finally:
        subprocess.run([*compose_of(directory), "down", "--volumes"], check=True, timeout=COMPOSE_S)
    assert left_of(running.project) == []


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
    move = left["move"]
    assert (move["source"], move["target"], move["strategy"]) == ("lga", "cloud", "handover")
    assert left["results_afterwards"] > 0
    assert left["results"] == left["expected_results"] > left["results_afterwards"]
    assert (left["lost"], left["duplicated"], left["wrong"]) == (0, 0, 0)
    home = tmp_path / "mesh"
    assert left_of(Project(Home(home)).name) == []
    assert not home.exists()


def test_site_when_it_runs_then_reaches_the_links_and_no_one_else(running: Running) -> None:
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


async def test_service_when_its_process_is_killed_then_its_container_restarts(running: Running) -> None:
    async def works_again() -> bool:
        restarts = running.attributes("monitor")["RestartCount"]
        return restarts == before + 1 and parts(running.project)["monitor"].works

    before = running.attributes("monitor")["RestartCount"]
    running.inside("monitor", f"kill -KILL {ALL}")
    await eventually(works_again, within_s=2 * WITHIN_S)


async def test_service_when_it_hangs_then_its_health_check_fails_until_it_goes_on(running: Running) -> None:
    async def is_healthy() -> bool:
        return running.inside("api", check).returncode == 0

    async def is_silent() -> bool:
        return not await is_healthy()

    [_, check] = running.attributes("api")["Config"]["Healthcheck"]["Test"]
    assert await is_healthy()
    running.inside("api", f"kill -STOP {ALL}")
    await eventually(is_silent)
    running.inside("api", f"kill -CONT {ALL}")
    await eventually(is_healthy)


def test_operator_when_on_the_machine_itself_then_commands_the_mesh(running: Running) -> None:
    sites = {site["site"]: site["state"] for site in towpath("--home", str(running.home), "sites")}
    assert sites["jfk"] in ("starting", "up")


async def test_site_when_it_is_upgraded_by_a_command_then_its_container_is_another_one(
    running: Running,
) -> None:
    await running.until_up()
    home = str(running.home)
    before = running.ids()
    replace = [*compose_of(running.directory), "up", "--detach", "--no-deps", "--force-recreate", "jfk"]

    arguments = ("upgrade", "jfk", "--with", shlex.join(replace), "--within", str(HEALTHY_S))
    upgraded = towpath("--home", home, *arguments, timeout_s=2 * HEALTHY_S)

    after = running.ids()
    assert {name for name in after if after[name] != before[name]} == {"jfk"}
    assert upgraded["version_now"] == installed_version()


async def test_job_when_it_brings_code_of_this_machine_then_runs_in_a_container(
    running: Running,
) -> None:
    await running.until_up()
    home = str(running.home)
    for name in ("clean", "python"):
        file = str(ROOT / "examples" / f"{name}.yaml")
        [deployed] = towpath("--home", home, "deploy", file, timeout_s=COMPOSE_S)
        assert deployed["state"] == "completed", deployed

    def runs() -> bool:  # By a heartbeat, so not at once.
        jobs = {job["spec"]["name"]: job["state"] for job in towpath("--home", home, "jobs")}
        return jobs["remarkable-jfk"] == "running"

    until(runs)


def test_description_when_it_changes_then_reaches_those_that_are_told_of_it_and_no_others(
    running: Running,
) -> None:
    before = running.ids()
    running.up()
    assert running.ids() == before
    running.describe(TOPOLOGY.replace("name: cloud,", "name: cloud, disk_mb: 4096,"))
    running.up()
    after = running.ids()
    assert {name for name in after if after[name] != before[name]} == SERVICES - {"hub", "redis"}
