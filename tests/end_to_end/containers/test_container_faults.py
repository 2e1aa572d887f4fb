"""Rules change real containers, and every change is undone, no matter which process dies meanwhile."""

from __future__ import annotations

import asyncio
import signal
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
import pytest_asyncio
from docker.models.containers import Container
from docker.types import IPAMConfig, IPAMPool

from running.docker import Yard, status, until_daemon_says, yard
from running.injector import Trial, rule, running_injector
from running.mesh import Mesh, running_mesh
from running.servers import free_port
from towpath.containers.running import MEGABYTE
from towpath.contracts.errors import ErrorCode
from towpath.contracts.fault_commands import DEFAULT_LEASE_S, DescribeFaults, ListRules, LoadRules
from towpath.lab.guard.process import guard_name, held_path
from towpath.processes import find

pytestmark = pytest.mark.asyncio(loop_scope="module")

BUSY = "while :; do :; done"
TAKEN, KILLED = b"taken", b"killed"
TAKES_MEMORY = (
    "while :; do dd if=/dev/zero of=/dev/null bs=50000000 count=1 2>/dev/null && echo taken || echo killed; "
    "sleep 0.2; done"
)
ALWAYS = {"Name": "always"}
KEPT = ("Memory", "CpuQuota", "NanoCpus")


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory, busybox: str) -> Iterator[Mesh]:
    with running_mesh(tmp_path_factory.mktemp("mesh")) as running:
        yield running


@pytest.fixture
def place(busybox: str) -> Iterator[Yard]:
    with yard() as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def injecting(mesh: Mesh) -> AsyncIterator[Trial]:
    async with running_injector(mesh) as trial:
        yield trial


@pytest_asyncio.fixture(loop_scope="module")
async def trial(injecting: Trial, place: Yard) -> AsyncIterator[Trial]:
    """Return an injector without rules. Unload its rules in the end, before the containers are removed."""
    await injecting.ask(ListRules())
    yield injecting
    await injecting.unload()
    await eventually(lambda: not held_path(injecting.home, "hub").exists())


async def eventually(condition: Callable[[], object]) -> None:
    await asyncio.to_thread(until_daemon_says, condition)


def about(container: Container, fault: str, **given: Any) -> dict[str, Any]:
    """Return a rule named after its fault."""
    event = {"target": "container", "name": container.name}
    return {"name": fault.replace("_", "-"), "event": event, "fault": fault, **given}


def host_configuration(container: Container) -> dict[str, Any]:
    container.reload()
    return container.attrs["HostConfig"]


def runs(container: Container, script: str) -> int:
    """Return the exit code of a script in a running container."""
    return container.exec_run(["/bin/sh", "-c", script]).exit_code or 0


def started_at(container: Container) -> str:
    container.reload()
    return container.attrs["State"]["StartedAt"]


def address(container: Container, network: str) -> str:
    container.reload()
    place = container.attrs["NetworkSettings"]["Networks"].get(network)
    return place["IPAddress"] if place else ""


async def test_container_stays_stopped_as_long_as_a_rule_says_so_although_it_is_always_restarted(
    place: Yard, trial: Trial
) -> None:
    container = place.run("site", restart_policy=ALWAYS)
    await trial.load(about(container, "stop"))
    await eventually(lambda: status(container) == "exited")
    container.start()
    await eventually(lambda: status(container) == "exited")
    await trial.unload()
    await eventually(lambda: status(container) == "running")


async def test_container_hangs_as_long_as_a_rule_pauses_it(place: Yard, trial: Trial) -> None:
    container = place.run("site")
    await trial.load(about(container, "pause"))
    await eventually(lambda: status(container) == "paused")
    await trial.unload()
    await eventually(lambda: status(container) == "running")


@pytest.mark.parametrize(("policy", "afterwards"), [("unless-stopped", "running"), ("no", "exited")])
async def test_killed_container_runs_again_only_when_its_restart_policy_has_it_so(
    place: Yard, trial: Trial, policy: str, afterwards: str
) -> None:
    container = place.run("site", restart_policy={"Name": policy})
    before = started_at(container)
    await trial.load(about(container, "kill", once=True))
    await eventually(lambda: status(container) == afterwards and trial_acted(container, before, policy))
    if policy == "no":
        assert container.attrs["State"]["ExitCode"] == 128 + signal.SIGKILL


def trial_acted(container: Container, before: str, policy: str) -> bool:
    return policy == "no" or started_at(container) > before


async def test_container_ends_in_good_order_and_runs_again_when_a_rule_restarts_it(
    place: Yard, trial: Trial
) -> None:
    container = place.run("site", "trap 'echo ended; exit 0' TERM; while :; do sleep 0.1; done")
    before = started_at(container)
    await trial.load(about(container, "restart", once=True))
    await eventually(lambda: status(container) == "running" and started_at(container) > before)
    assert container.logs() == b"ended\n"


async def test_container_is_off_one_network_and_gets_its_place_back_when_a_rule_disconnects_it(
    place: Yard, trial: Trial
) -> None:
    site, services = place.network("site"), place.network("services")
    server = place.run(
        "server", "mkdir /www; echo here >/www/index.html; httpd -f -h /www", network=site.name
    )
    services.connect(server, aliases=["api"])
    peer = place.run("peer", network=services.name)
    assert site.name
    assert services.name
    at_site = address(server, site.name)
    await eventually(lambda: runs(peer, "ping -c 1 -W 1 api") == 0)

    await trial.load(about(server, "disconnect", parameters={"network": services.name}))
    await eventually(lambda: runs(peer, "ping -c 1 -W 1 api") != 0)
    assert address(server, site.name) == at_site
    assert address(server, services.name) == ""
    await trial.unload()
    await eventually(lambda: runs(peer, "ping -c 1 -W 1 api") == 0)
    assert address(server, site.name) == at_site


async def test_address_that_was_asked_for_and_published_ports_come_back_when_a_container_was_off_all_networks(
    place: Yard, trial: Trial
) -> None:
    port, pool = free_port(), IPAMPool(subnet="10.213.87.0/24")
    network = place.network("site", ipam=IPAMConfig(pool_configs=[pool]))
    server = place.run(
        "server",
        "mkdir /www; echo here >/www/index.html; httpd -f -h /www",
        network=network.name,
        ports={"80/tcp": ("127.0.0.1", port)},
    )
    assert network.name
    before = address(server, network.name)
    await eventually(lambda: page(port))
    await trial.load(about(server, "disconnect"))
    await eventually(lambda: not server_networks(server))
    assert not page(port)
    await trial.unload()
    await eventually(lambda: address(server, str(network.name)) == before)
    await eventually(lambda: page(port))


def page(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=1) as answer:
            return answer.read() == b"here\n"
    except (OSError, urllib.error.URLError):
        return False


def server_networks(container: Container) -> dict[str, Any]:
    container.reload()
    return container.attrs["NetworkSettings"]["Networks"]


@pytest.mark.parametrize("limit", [{}, {"nano_cpus": 800_000_000}], ids=["unlimited", "limited"])
async def test_running_container_gets_less_of_a_processor_as_long_as_a_rule_says_so(
    place: Yard, trial: Trial, limit: dict[str, int]
) -> None:
    container = place.run("busy", BUSY, **limit)
    before = host_configuration(container)
    await trial.load(about(container, "cpu_limit", parameters={"cpus": 0.1}))
    await eventually(lambda: cpus(host_configuration(container)) == pytest.approx(0.1))
    held_back = times_held_back(container)
    await eventually(lambda: times_held_back(container) > held_back)
    await trial.unload()
    await eventually(lambda: cpus(host_configuration(container)) == cpus(before))


def cpus(configuration: dict[str, Any]) -> float:
    """Return the limit in CPUs; 0 is no limit."""
    return max(0, configuration["NanoCpus"]) / 10**9 or max(0, configuration["CpuQuota"]) / 100_000


def times_held_back(container: Container) -> int:
    """Return the number of times the kernel made a container wait because it had used up its share."""
    told = container.client.api.stats(container.id, stream=False, one_shot=True)
    return told["cpu_stats"]["throttling_data"]["throttled_periods"]


async def test_process_of_a_container_is_out_of_memory_as_long_as_a_rule_limits_it(
    place: Yard, trial: Trial
) -> None:
    container = place.run("site", TAKES_MEMORY)
    await eventually(lambda: last_said(container) == TAKEN)
    await trial.load(about(container, "memory_limit", parameters={"megabytes": 16}))
    await eventually(lambda: last_said(container) == KILLED)
    assert host_configuration(container)["Memory"] == pytest.approx(16 * MEGABYTE, rel=0.01)
    await trial.unload()
    await eventually(lambda: last_said(container) == TAKEN)


def last_said(container: Container) -> bytes:
    return container.logs(stderr=False, tail=1).strip()


async def test_all_is_undone_after_the_lease_when_injector_and_guard_are_killed_at_once(
    place: Yard, trial: Trial
) -> None:
    stopped, limited = place.run("stopped"), place.run("limited", nano_cpus=500_000_000)
    network = place.network("site")
    cut_off = place.run("cut-off", network=network.name)
    await trial.load(
        about(stopped, "stop", parameters={"grace_s": 0}),
        about(limited, "cpu_limit", parameters={"cpus": 0.1}),
        about(cut_off, "disconnect"),
    )
    await eventually(lambda: status(stopped) == "exited")
    await eventually(lambda: cpus(host_configuration(limited)) == pytest.approx(0.1))
    await eventually(lambda: not server_networks(cut_off))
    guard = find(trial.home.run, guard_name("hub"))
    assert guard is not None
    assert guard.process is not None
    guard.process.kill()
    await trial.end_injector(signal.SIGKILL)
    killed_at = time.monotonic()
    await eventually(lambda: status(stopped) == "running")
    assert time.monotonic() - killed_at > DEFAULT_LEASE_S - 2, (
        "a lease outlives a short pause of the injector"
    )
    await eventually(lambda: cpus(host_configuration(limited)) == 0.5)
    assert network.name in server_networks(cut_off)
    await trial.start_injector()


async def test_rule_is_refused_with_what_there_is_when_container_or_network_are_unknown(
    place: Yard, trial: Trial
) -> None:
    network = place.network("site")
    container = place.run("site", network=network.name)
    container.stop(timeout=0)
    event = {"target": "container", "name": "towpath-missing"}
    unknown = await trial.refusal(LoadRules(rules=[rule("r", event, "stop")]))
    assert unknown.detail.code is ErrorCode.INVALID
    assert unknown.detail.field == "rules.0.event.name"
    assert container.name in (unknown.detail.allowed or [])
    event = {"target": "container", "name": container.name}
    elsewhere = rule("r", event, "disconnect", parameters={"network": "bridge"})
    refused = await trial.refusal(LoadRules(rules=[elsewhere]))
    assert refused.detail.field == "rules.0.actions.0.parameters.network"
    assert refused.detail.allowed == [network.name]
    catalogue = await trial.ask(DescribeFaults())
    assert container.name in catalogue.targets["container"]
