"""Faults outside code on a whole mesh: they hit processes, disk, machine and link, and are undone."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import aiomqtt
import psutil
import pytest

from running.waiting import WITHIN_S, eventually
from towpath.bus import Bus
from towpath.cli.starting import wait_until_up
from towpath.contracts.commands import ListSites
from towpath.contracts.errors import TowpathError
from towpath.contracts.fault_commands import DEFAULT_LEASE_S, ListRules, LoadRules, RuleView, UnloadRules
from towpath.contracts.faults import Rule, RuleSet
from towpath.contracts.links import LinkConditions, LinkView, ListLinks
from towpath.contracts.message import Command
from towpath.contracts.site import EngineSpec, EngineStart, FaultSettings, MeshSpec, SiteSpec
from towpath.lab.guard.process import held_path
from towpath.mesh import lifecycle
from towpath.mesh.home import Home
from towpath.mesh.names import SUPERVISOR
from towpath.mesh.state import MeshState
from towpath.processes import find

SITE = "jfk"
UP_S = 400.0
"""Time limit for a whole mesh to start on a busy machine."""

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    home = Home(tmp_path_factory.mktemp("mesh"))
    engine = EngineSpec(start=EngineStart.ALWAYS, memory="640m", state_memory_mb=64)
    sites = [SiteSpec(name=SITE, engine=engine)]
    lifecycle.up(home, MeshSpec(sites=sites, emulate_links=True, faults=FaultSettings(enabled=True)))
    try:
        asyncio.run(wait_until_up(home, [SITE], UP_S, lambda text: None))
        yield home
    finally:
        lifecycle.down(home)


@asynccontextmanager
async def operating(home: Home) -> AsyncIterator[Bus]:
    """Open a connection as operator. Unload all rules in the end."""
    mesh = MeshState.load(home)
    user = mesh.operator
    async with await Bus.connect(
        mesh.hub_url, user.user, user.password, name="test", within_s=WITHIN_S
    ) as bus:
        try:
            yield bus
        finally:
            await ask(bus, UnloadRules())
            await eventually(lambda: not held_path(home, SITE).exists())


async def ask(bus: Bus, command: Command[Any]) -> Any:
    return await bus.request(command, deadline_s=WITHIN_S, attempt_s=8)


async def load(
    bus: Bus, target: str, name: str, fault: str, condition: str = "true", *, once: bool = False, **given: Any
) -> None:
    """Load one rule, named after its fault."""
    event = {"target": target, "name": name}
    actions = [{"fault": fault, "parameters": given}]
    rule = {
        "name": fault.replace("_", "-"),
        "event": event,
        "condition": condition,
        "once": once,
        "actions": actions,
    }
    await ask(bus, LoadRules(rules=[Rule.model_validate(rule)]))


async def view(bus: Bus, name: str) -> RuleView:
    return next(each for each in (await ask(bus, ListRules())).rules if each.rule.name == name)


def process(home: Home, name: str) -> psutil.Process:
    record = find(home.run, name)
    assert record is not None
    assert record.process is not None
    return record.process


def are_paused(processes: list[psutil.Process]) -> bool:
    return {status_of(each) for each in processes} <= {psutil.STATUS_STOPPED, None}


def are_running(processes: list[psutil.Process]) -> bool:
    return psutil.STATUS_STOPPED not in {status_of(each) for each in processes}


def status_of(process: psutil.Process) -> str | None:
    """Return the process' status; None if it has ended, even if its paused parent has not noticed yet."""
    try:
        status = process.status()
    except psutil.NoSuchProcess:
        return None
    return None if status == psutil.STATUS_ZOMBIE else status


async def stores(home: Home, within_s: float = 5.0) -> bool:
    """True if the site acknowledges an event of a device."""
    access = MeshState.load(home).sites[SITE]
    device = aiomqtt.Client(
        access.mqtt_host, access.mqtt_port, username=access.device.user, password=access.device.password
    )
    try:
        async with asyncio.timeout(within_s), device:
            await device.publish("site/test", b"{}", qos=1, timeout=within_s)
    except (aiomqtt.MqttError, TimeoutError):
        return False
    return True


async def test_engine_with_its_workers_hangs_while_it_is_paused(home: Home) -> None:
    engine = process(home, "jfk-engine")
    family = [engine, *engine.children(recursive=True)]
    assert len(family) > 1, "an engine has a JVM"
    async with operating(home) as bus:
        await load(bus, "process", "jfk-engine", "pause")
        await eventually(lambda: are_paused(family))
        assert status_of(engine) == psutil.STATUS_STOPPED
        await ask(bus, UnloadRules())
        await eventually(lambda: are_running(family))
        assert process(home, "jfk-engine") == engine
        await eventually(lambda: site_is_up(bus))


async def site_is_up(bus: Bus) -> bool:
    try:
        return all(site.state == "up" for site in (await ask(bus, ListSites())).sites)
    except TowpathError:
        return False


async def test_agent_is_paused_for_a_lease_at_a_time_and_goes_on_when_the_rule_is_unloaded(
    home: Home,
) -> None:
    agent = process(home, "jfk-agent")
    async with operating(home) as bus:
        await load(bus, "process", "jfk-agent", "pause")
        await eventually(lambda: are_paused([agent]))
        # The lease is not renewed meanwhile, because the agent does that.
        lease = RuleSet.model_validate_json(home.fault_rules(SITE).read_bytes()).expires_at
        await eventually(lambda: are_running([agent]))
        assert time.time() >= lease
        await ask(bus, UnloadRules())
        await eventually(lambda: not held_path(home, SITE).exists())
        assert are_running([agent])
        assert process(home, "jfk-agent") == agent
        await eventually(lambda: site_is_up(bus))


async def test_agent_goes_on_when_its_guard_is_killed_while_it_holds_the_agent(home: Home) -> None:
    agent = process(home, "jfk-agent")
    async with operating(home) as bus:
        await load(bus, "process", "jfk-agent", "pause", "elapsed_s < 2.0")
        await eventually(lambda: are_paused([agent]))
        process(home, "jfk-guard").kill()
        await eventually(lambda: are_running([agent]) and not held_path(home, SITE).exists())


async def test_killed_process_is_restarted_and_killed_once(home: Home) -> None:
    async with operating(home) as bus:
        before = process(home, "monitor")
        await load(bus, "process", "monitor", "kill", once=True)
        await eventually(lambda: find(home.run, "monitor") and process(home, "monitor") != before)
        anew = process(home, "monitor")
        await eventually(lambda: has_acted(bus, "kill"))
        looked = (await view(bus, "kill")).count.looked
        await eventually(lambda: has_looked(bus, "kill", looked + 8))
        assert process(home, "monitor") == anew
        assert (await view(bus, "kill")).count.acted == 1


async def has_acted(bus: Bus, name: str) -> bool:
    return (await view(bus, name)).count.acted > 0


async def has_looked(bus: Bus, name: str, times: int) -> bool:
    return (await view(bus, name)).count.looked >= times


async def test_site_takes_no_events_while_its_disk_is_full_and_takes_them_again(home: Home) -> None:
    async with operating(home) as bus:
        await eventually(lambda: stores(home))
        server = process(home, "jfk-nats")
        await load(bus, "disk", "jfk-nats", "disk_full")
        await eventually(lambda: server.rlimit(psutil.RLIMIT_FSIZE)[0] == 0)
        await eventually(lambda: refuses(home))
        await ask(bus, UnloadRules())
        await eventually(lambda: stores(home))


async def refuses(home: Home) -> bool:
    return not await stores(home, within_s=2)


async def test_machine_is_loaded_only_as_long_as_the_rule_is(home: Home) -> None:
    async with operating(home) as bus:
        await load(bus, "machine", SITE, "cpu_load", cores=1, percent=30)
        await eventually(lambda: loaders(home))
        [loader] = loaders(home)
        await load(bus, "machine", SITE, "memory_load", megabytes=100)
        await eventually(lambda: len(loaders(home)) == 2)
        await eventually(lambda: sum(each.memory_info().rss for each in loaders(home)) > 100e6)
        assert loader in loaders(home)
        await ask(bus, UnloadRules())
        await eventually(lambda: not loader.is_running())
        await eventually(lambda: not loaders(home))


def loaders(home: Home) -> list[psutil.Process]:
    """Return the processes that make load at the site."""
    record = find(home.run, "jfk-guard")
    found: list[psutil.Process] = []
    with contextlib.suppress(psutil.Error):
        for child in psutil.Process(record.pid).children() if record is not None else []:
            if "-S" in child.cmdline():
                found.append(child)
    return found


@pytest.mark.parametrize(
    ("fault", "given", "expected"),
    [
        ("cut", {}, {"cut": True}),
        ("slow", {"delay_ms": 40, "jitter_ms": 5}, {"delay_ms": 40.0, "jitter_ms": 5.0}),
        ("lossy", {"percent": 5, "resend_ms": 50}, {"loss_percent": 5.0, "resend_ms": 50.0}),
        ("throttle", {"bytes_per_s": 100_000}, {"bandwidth_bytes_per_s": 100_000}),
        ("slice", {"bytes": 100, "delay_ms": 1}, {"slice_bytes": 100, "slice_delay_ms": 1.0}),
        ("reset", {"every_s": 2}, {"reset_every_s": 2.0}),
    ],
)
async def test_link_is_as_bad_as_the_rule_says_and_perfect_when_it_is_gone(
    home: Home, fault: str, given: dict[str, Any], expected: dict[str, Any]
) -> None:
    async with operating(home) as bus:
        await load(bus, "link", SITE, fault, **given)
        await eventually(lambda: link_is(bus, LinkConditions(for_s=DEFAULT_LEASE_S, **expected)))
        await ask(bus, UnloadRules())
        await eventually(lambda: link_is(bus, LinkConditions()))


async def link_is(bus: Bus, conditions: LinkConditions) -> bool:
    found: LinkView = (await ask(bus, ListLinks())).links[0]
    close = pytest.approx(conditions.loss_percent)
    return found.conditions.loss_percent == close and found.conditions.model_copy(
        update={"loss_percent": 0.0}
    ) == conditions.model_copy(update={"loss_percent": 0.0})


async def test_nothing_stays_when_the_injector_is_killed(home: Home) -> None:
    """The test also pauses the injector's supervisor, so that nothing restarts it: only leases are left."""
    supervisor = process(home, SUPERVISOR)
    agent, engine = process(home, "jfk-agent"), process(home, "jfk-engine")
    async with operating(home) as bus:
        await load(bus, "process", "jfk-engine", "pause")
        await load(bus, "disk", "jfk-agent", "disk_full")
        await load(bus, "machine", SITE, "cpu_load", cores=1, percent=5)
        await load(bus, "link", SITE, "slow", delay_ms=5)
        await eventually(lambda: are_paused([engine]) and loaders(home))
        supervisor.suspend()
        try:
            os.kill(process(home, "injector").pid, signal.SIGKILL)
            await eventually(lambda: not held_path(home, SITE).exists())
            assert are_running([engine])
            assert agent.rlimit(psutil.RLIMIT_FSIZE)[0] != 0
            assert not loaders(home)
            await eventually(lambda: link_is(bus, LinkConditions()))
        finally:
            supervisor.resume()
        await eventually(lambda: find(home.run, "injector"))
