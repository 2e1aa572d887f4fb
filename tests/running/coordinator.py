"""A coordinator as a process, on real servers, with agents that act but run no Spark."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

import pytest
from redis.asyncio import Redis

from running.mesh import Mesh
from running.waiting import WITHIN_S, eventually
from simulation import SimulatedClock, SimulatedMesh
from towpath.bus import Bus
from towpath.bus.terms import Terms
from towpath.contracts.commands import ListJobs, ListSites, MigrateJob, StrategyName
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import JobSpec
from towpath.contracts.message import Command, Model, now
from towpath.contracts.migration import StepCommand
from towpath.contracts.monitor import MONITOR_COMMANDS
from towpath.contracts.site import SiteState, SiteStatus
from towpath.contracts.site_commands import SITE_COMMANDS, MeasureState, StateSize
from towpath.coordinator.registry.contents import contents, registry_keys, replacing
from towpath.coordinator.registry.jobs import UNFINISHED, Registry
from towpath.coordinator.registry.log import RedisCommand, RegistryLog
from towpath.coordinator.registry.pipelines import APPLIES, UNANNOUNCED
from towpath.tasks import end

END_S = 5.0
"""Time for operations that a test leaves under way. After it they end with their coordinator."""

NOT_NOW = (ErrorCode.SITE_DOWN, ErrorCode.UNREACHABLE)
"""Refusals on a busy machine: a heartbeat came late, or what the coordinator needs answered late."""

ASK_AGAIN_S = 0.3
"""Pause before a command that was refused in this way is sent again: that between two heartbeats."""

COUNT_BY_CARRIER: dict[str, Any] = {
    "kind": "window",
    "fields": {"carrier": "string", "delay": "double"},
    "size_s": 3600,
    "key": ["carrier"],
    "aggregates": {"departures": {"function": "count"}},
}
PROCESSING_WINDOW: dict[str, Any] = {
    "kind": "processing_window",
    "size_s": 1,
    "aggregates": {"departures": {"function": "count"}},
}
FILTER: dict[str, Any] = {"kind": "filter", "fields": {"delay": "double"}, "where": "delay > 15"}


def spec(name: str, **changes: Any) -> JobSpec:
    body: dict[str, Any] = {
        "name": name,
        "site": "jfk",
        "inputs": [{"site": "jfk", "topic": "site/departures"}],
        "output": {"topic": f"departures/{name}"},
        "operator": COUNT_BY_CARRIER,
    }
    return JobSpec.model_validate({**body, **changes})


def job_of(command: StepCommand[Any]) -> str:
    """Return the job that a command is about."""
    for holder in ("assignment", "watch"):
        if hasattr(command, holder):
            held = getattr(command, holder)
            return held.spec.name if holder == "assignment" else held.job
    return getattr(command, "job", "")


@dataclass
class Agents:
    """Agents of both sites, and the monitor: real connections, simulated engines."""

    buses: dict[str, Bus]
    """Site → the connection of its agent."""
    mesh: SimulatedMesh = field(init=False)
    state_bytes: int = 0
    """Size that the agents report for every state."""
    silent: set[str] = field(default_factory=set)
    gates: dict[str, asyncio.Event] = field(default_factory=dict)
    """Verb, or verb and job → the gate at which its command waits before it is executed."""
    refused: set[str] = field(default_factory=set)
    """Verbs that are refused."""
    reached: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clear()

    def let_all_go(self) -> None:
        """Open all gates and refuse nothing."""
        for gate in self.gates.values():
            gate.set()
        self.refused.clear()

    def clear(self) -> None:
        """Host no job. A command that is still being executed finds what was there before."""
        self.let_all_go()
        self.mesh = SimulatedMesh(SimulatedClock(), *self.buses)
        self.state_bytes = 0
        self.silent, self.gates, self.refused, self.reached = set(), {}, set(), []

    async def serve(self, site: str) -> None:
        """Answer commands to the agents."""
        for kind in SITE_COMMANDS:
            await self.buses[site].serve(kind, partial(self._handle, site), site=site)

    async def serve_as_monitor(self, bus: Bus) -> None:
        """Answer commands to the monitor."""
        for kind in MONITOR_COMMANDS:
            await bus.serve(kind, partial(self._handle, "monitor"))

    async def _handle(self, party: str, command: StepCommand[Any]) -> Model:
        verb, job, mesh = command.verb(), job_of(command), self.mesh
        self.reached.append(f"{party} {verb}")
        if verb in self.refused:
            raise TowpathError(ErrorCode.FAILED, f"{party} refuses {verb}")
        for gate in (verb, f"{verb} {job}"):
            if gate in self.gates:
                await self.gates[gate].wait()
        if isinstance(command, MeasureState):
            return StateSize(files=1, state_bytes=self.state_bytes)
        mesh.work()
        return mesh.handle(command)

    async def beat(self, every_s: float = 0.3) -> None:
        while True:
            for site, bus in self.buses.items():
                if site not in self.silent:
                    await bus.publish(
                        SiteStatus(
                            site=site,
                            state=SiteState.UP,
                            nats_url="nats://127.0.0.1:4222",
                            mqtt_host="127.0.0.1",
                            mqtt_port=1883,
                            jobs=self.mesh.sites[site].status(),
                        )
                    )
            await asyncio.sleep(every_s)

    async def was_reached(self, what: str) -> bool:
        return what in self.reached


@dataclass
class Trial:
    """A mesh with its agents, a client, and a coordinator that can be killed."""

    running: Mesh
    agents: Agents
    client: Bus
    process: asyncio.subprocess.Process | None = None
    started_at: datetime = field(default_factory=now)
    """Time of the coordinator's last start."""
    _in_background: list[asyncio.Task[Any]] = field(default_factory=list[asyncio.Task[Any]])

    async def start_coordinator(self) -> None:
        self.started_at = now()
        self.process = await self.launch_coordinator(1)

    async def launch_coordinator(self, number: int) -> asyncio.subprocess.Process:
        """Start a coordinator. The test that starts a further one ends it."""
        command = [sys.executable, "-m", "towpath.coordinator", "--home", str(self.running.home.root)]
        with self.running.home.log(f"coordinator-{number}").open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *command, "--number", str(number), stdout=log, stderr=log
            )

    async def end_coordinator(self, number: signal.Signals) -> int:
        assert self.process is not None
        if self.process.returncode is None:
            os.kill(self.process.pid, number)
        return await asyncio.wait_for(self.process.wait(), WITHIN_S)

    async def clear(self) -> None:
        """Remove all jobs: a coordinator runs, its registry is empty, and agents of all sites are up."""
        await end(self._in_background)
        self._in_background.clear()
        self.agents.let_all_go()
        if await self._goes_on_for_long():
            await self.end_coordinator(signal.SIGKILL)
        self.agents.clear()
        await replace_registry(self.running)
        if self.process is None or self.process.returncode is not None:
            await self.start_coordinator()
        await eventually(self._sites_are_up_and_empty)

    async def _goes_on_for_long(self) -> bool:
        """True if an operation is under way and does not end soon."""
        try:
            await eventually(lambda: nothing_is_under_way(self.running), within_s=END_S)
        except AssertionError:
            return True
        return False

    async def _sites_are_up_and_empty(self) -> bool:
        sites = (await self.ask(ListSites(), deadline_s=WITHIN_S)).sites
        heard = {site.site for site in sites if site.state is SiteState.UP and not site.jobs}
        return heard == self.agents.buses.keys()

    def in_background(self, asking: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Send a request whose answer a test awaits later. It is cancelled when the test has ended."""
        task = asyncio.create_task(asking)
        self._in_background.append(task)
        return task

    async def ask(self, command: Command[Any], deadline_s: float = WITHIN_S) -> Any:
        """Return the answer. A command that is refused because something came late is sent again."""
        end_at = time.monotonic() + deadline_s
        while True:
            try:
                return await self.client.request(command, deadline_s=end_at - time.monotonic())
            except TowpathError as error:
                if error.detail.code not in NOT_NOW or time.monotonic() + ASK_AGAIN_S > end_at:
                    raise
            await asyncio.sleep(ASK_AGAIN_S)

    async def refusal(self, command: Command[Any]) -> TowpathError:
        with pytest.raises(TowpathError) as refused:
            await self.client.request(command, deadline_s=WITHIN_S)
        return refused.value

    async def job(self, name: str) -> Any:
        jobs = (await self.ask(ListJobs())).jobs
        return next((job for job in jobs if job.spec.name == name), None)

    async def migrate_in_background(
        self,
        job: str,
        *,
        strategy: StrategyName = StrategyName.GENERAL,
        until_at: str = "jfk pause-transfer",
        attempt_s: float = 1.0,
    ) -> tuple[MigrateJob, asyncio.Task[Any]]:
        """Begin a migration to lga that waits in a command: party and verb."""
        verb = until_at.split()[1]
        self.agents.gates[f"{verb} {job}"] = asyncio.Event()
        before = self.agents.reached.count(until_at)
        command = MigrateJob(job=job, to="lga", strategy=strategy)
        asking = self.in_background(self.client.request(command, deadline_s=WITHIN_S, attempt_s=attempt_s))

        async def there() -> bool:
            return self.agents.reached.count(until_at) > before

        await eventually(there)
        return command, asking

    def let_go(self, verb: str, job: str) -> None:
        """Open the gate that a migration waits at."""
        self.agents.gates[f"{verb} {job}"].set()

    async def registry_copy(self) -> list[RedisCommand]:
        """Return the registry as a backup would keep it."""
        async with registry_of(self.running) as redis:
            return await contents(redis)

    async def restore_registry(self, copy: list[RedisCommand]) -> None:
        """Bring the registry back as it was."""
        await replace_registry(self.running, copy)

    def owners(self, job: str) -> list[str]:
        return self.agents.mesh.owners(job)

    def check_nothing_lost(self, job: str) -> None:
        """Check that every event that came in counts exactly once in the job's results."""
        mesh = self.agents.mesh
        mesh.work()
        mesh.settle_down()
        mesh.check(job)
        mesh.check_complete(job)


@asynccontextmanager
async def connected(running: Mesh) -> AsyncIterator[tuple[Agents, Bus]]:
    state = running.state
    async with AsyncExitStack() as stack:
        buses: dict[str, Bus] = {}
        for name, site in state.sites.items():
            connecting = Bus.connect(
                site.nats_url, site.login("agent").user, site.login("agent").password, name=name
            )
            buses[name] = await stack.enter_async_context(await connecting)
            buses[name].terms = Terms()
        operator = state.operator
        connecting = Bus.connect(state.hub_url, operator.user, operator.password, name="client")
        client = await stack.enter_async_context(await connecting)
        watching = Bus.connect(
            state.hub_url, state.login("monitor").user, state.login("monitor").password, name="monitor"
        )
        agents = Agents(buses)
        await agents.serve_as_monitor(await stack.enter_async_context(await watching))
        for name in buses:
            await agents.serve(name)
        yield agents, client


def registry_of(running: Mesh) -> Redis:
    """Open a connection to the coordinator's registry."""
    state = running.state
    credential = state.redis_coordinator
    return Redis(
        host=state.redis_host,
        port=state.redis_port,
        username=credential.user,
        password=credential.password,
        decode_responses=True,
    )


async def nothing_is_under_way(running: Mesh) -> bool:
    """True if all operations and applies have ended, and their ends were announced."""
    async with registry_of(running) as redis:
        return not await redis.exists(UNFINISHED, APPLIES, UNANNOUNCED)


@asynccontextmanager
async def second_coordinator(running: Mesh) -> AsyncIterator[Registry]:
    """Write to the registry as a second coordinator would. The one that runs takes over what it finds."""
    state = running.state
    user = state.login("coordinator")
    connecting = Bus.connect(state.hub_url, user.user, user.password, name="second coordinator")
    async with registry_of(running) as redis, await connecting as bus:
        log = RegistryLog(bus.connection)
        await log.ensure()
        registry = Registry(redis, log)
        await registry.bring_up()
        yield registry


async def replace_registry(running: Mesh, commands: Sequence[RedisCommand] = ()) -> None:
    """Empty the registry and run `commands`."""
    async with registry_of(running) as redis, second_coordinator(running) as registry:
        await registry.write(*replacing(await registry_keys(redis), commands))


@asynccontextmanager
async def running_coordinator(running: Mesh) -> AsyncIterator[Trial]:
    """Run a coordinator with an empty registry. Kill it and empty its registry in the end."""
    async with connected(running) as (agents, client):
        beating = asyncio.create_task(agents.beat())
        trial = Trial(running, agents, client)
        await trial.start_coordinator()
        try:
            yield trial
        finally:
            await end([beating])
            await trial.end_coordinator(signal.SIGKILL)
            await replace_registry(running)
