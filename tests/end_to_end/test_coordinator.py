"""The coordinator as a process of its own, on real servers, with agents that act but run no Spark."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from redis.asyncio import Redis
from running_mesh import Mesh, running_mesh

from towpath.bus import Bus, follow_events
from towpath.contracts.commands import (
    DeployJob,
    ListJobs,
    ListOperations,
    ListSites,
    MigrateJob,
    OperationState,
    RemoveJob,
    ShowOperation,
    StrategyName,
    UpdateJob,
)
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import JobSpec
from towpath.contracts.message import Command, Model, new_identifier
from towpath.contracts.migration import SITE_COMMANDS, SiteCommand
from towpath.contracts.site import SiteState, SiteStatus
from towpath.coordinator.registry import PREFIX
from towpath.protocols.simulation import SimulatedClock, SimulatedMesh

COUNT_BY_CARRIER: dict[str, Any] = {
    "kind": "window",
    "fields": {"carrier": "string", "delay": "double"},
    "size_s": 3600,
    "key": ["carrier"],
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


async def until(condition: Callable[[], Awaitable[object]], within_s: float = 30.0) -> None:
    async with asyncio.timeout(within_s):
        while not await condition():
            await asyncio.sleep(0.05)


@dataclass
class Agents:
    """Agents of both sites: real connections, simulated engines."""

    mesh: SimulatedMesh
    buses: dict[str, Bus]
    silent: set[str] = field(default_factory=set)
    gates: dict[str, asyncio.Event] = field(default_factory=dict)
    """Verb → what its command waits for before it is carried out."""
    refused: set[str] = field(default_factory=set)
    """Verbs that are refused."""
    reached: list[str] = field(default_factory=list)

    async def serve(self, site: str) -> None:
        async def handle(command: SiteCommand[Any]) -> Model:
            verb = command.verb()
            self.reached.append(f"{site} {verb}")
            if verb in self.refused:
                raise TowpathError(ErrorCode.FAILED, f"{site} refuses {verb}")
            if verb in self.gates:
                await self.gates[verb].wait()
            self.mesh.work()
            return self.mesh.sites[site].handle(command)

        for kind in SITE_COMMANDS:
            await self.buses[site].serve(kind, handle, site=site)

    async def beat(self) -> None:
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
            await asyncio.sleep(0.3)

    async def was_reached(self, what: str) -> bool:
        return what in self.reached


@dataclass
class Trial:
    """A mesh with its agents, a client, and a coordinator that can be killed."""

    running: Mesh
    agents: Agents
    client: Bus
    process: asyncio.subprocess.Process | None = None

    async def start_coordinator(self) -> None:
        command = [sys.executable, "-m", "towpath.coordinator", "--home", str(self.running.home.root)]
        with self.running.home.log("coordinator").open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(*command, stdout=log, stderr=log)

    async def end_coordinator(self, number: signal.Signals) -> int:
        assert self.process is not None
        if self.process.returncode is None:
            os.kill(self.process.pid, number)
        return await asyncio.wait_for(self.process.wait(), 15)

    async def ask(self, command: Command[Any], deadline_s: float = 30.0) -> Any:
        return await self.client.request(command, deadline_s=deadline_s)

    async def refusal(self, command: Command[Any]) -> TowpathError:
        with pytest.raises(TowpathError) as refused:
            await self.ask(command)
        return refused.value

    async def job(self, name: str) -> Any:
        jobs = (await self.ask(ListJobs())).jobs
        return next((job for job in jobs if job.spec.name == name), None)

    async def migrate_in_background(self, job: str) -> tuple[MigrateJob, asyncio.Task[Any]]:
        """Begin a migration to lga that waits in pause-transfer."""
        self.agents.gates["pause-transfer"] = asyncio.Event()
        command = MigrateJob(job=job, to="lga")
        asking = asyncio.create_task(self.client.request(command, deadline_s=60, attempt_s=5))
        await until(lambda: self.agents.was_reached("jfk pause-transfer"))
        return command, asking

    def owners(self, job: str) -> list[str]:
        return self.agents.mesh.owners(job)

    def check_nothing_lost(self, job: str) -> None:
        mesh = self.agents.mesh
        mesh.work()
        mesh.check(job)
        assert mesh.published[job] == set(range(1, mesh.stored + 1))


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
    with running_mesh(tmp_path_factory.mktemp("mesh")) as mesh:
        yield mesh


@asynccontextmanager
async def connected(running: Mesh) -> AsyncIterator[tuple[Agents, Bus]]:
    state = running.state
    async with AsyncExitStack() as stack:
        buses: dict[str, Bus] = {}
        for name, site in state.sites.items():
            connecting = Bus.connect(site.nats_url, site.agent.user, site.agent.password, name=name)
            buses[name] = await stack.enter_async_context(await connecting)
        operator = state.operator
        connecting = Bus.connect(state.hub_url, operator.user, operator.password, name="client")
        client = await stack.enter_async_context(await connecting)
        agents = Agents(SimulatedMesh(SimulatedClock(), *state.sites), buses)
        for name in buses:
            await agents.serve(name)
        yield agents, client


async def clear_registry(running: Mesh) -> None:
    state = running.state
    credential = state.redis_coordinator
    async with Redis(
        host=state.redis_host,
        port=state.redis_port,
        username=credential.user,
        password=credential.password,
    ) as redis:
        found = [key async for key in redis.scan_iter(f"{PREFIX}*")]
        if found:
            await redis.delete(*found)


@pytest.fixture
async def trial(running: Mesh) -> AsyncIterator[Trial]:
    async with connected(running) as (agents, client):
        beating = asyncio.create_task(agents.beat())
        trial = Trial(running, agents, client)
        await trial.start_coordinator()
        try:
            yield trial
        finally:
            beating.cancel()
            await trial.end_coordinator(signal.SIGKILL)
            await clear_registry(running)


async def test_job_when_deployed_migrated_and_removed_then_is_where_it_should_be(trial: Trial) -> None:
    assert (await trial.ask(DeployJob(spec=spec("counts")))).state is OperationState.COMPLETED
    assert trial.owners("counts") == ["jfk"]
    answer = await trial.ask(MigrateJob(job="counts", to="lga"))
    assert answer.state is OperationState.COMPLETED
    assert trial.owners("counts") == ["lga"]
    trial.check_nothing_lost("counts")
    view = await trial.job("counts")
    assert (view.site, view.epoch, view.operation) == ("lga", 2, None)
    shown = await trial.ask(ShowOperation(operation=answer.operation))
    assert shown.figures.state_bytes == 100
    assert [e.step for e in shown.journal if e.phase == "confirmed"][-1] == "observe"
    assert (await trial.ask(RemoveJob(job="counts", purge=True))).state is OperationState.COMPLETED
    assert trial.owners("counts") == []
    assert await trial.job("counts") is None
    kinds = [o.kind for o in (await trial.ask(ListOperations())).operations]
    assert kinds == ["remove", "migrate", "deploy"]


async def test_job_when_moved_without_state_then_goes_on_where_the_source_stopped(trial: Trial) -> None:
    await trial.ask(DeployJob(spec=spec("late", operator=FILTER)))
    await trial.ask(MigrateJob(job="late", to="lga", strategy=StrategyName.RESTART))
    assert trial.owners("late") == ["lga"]
    trial.check_nothing_lost("late")


async def test_coordinator_when_killed_in_mid_migration_then_the_next_one_finishes_it(trial: Trial) -> None:
    await trial.ask(DeployJob(spec=spec("counts")))
    command, asking = await trial.migrate_in_background("counts")
    await trial.end_coordinator(signal.SIGKILL)
    await trial.start_coordinator()
    trial.agents.gates["pause-transfer"].set()
    answer = await asking
    assert answer.state is OperationState.COMPLETED
    assert trial.owners("counts") == ["lga"]
    trial.check_nothing_lost("counts")
    again = await trial.ask(command)
    assert again.operation == answer.operation, "the repeated command is the same operation"


async def test_coordinator_when_told_to_end_in_mid_migration_then_the_next_one_finishes_it(
    trial: Trial,
) -> None:
    await trial.ask(DeployJob(spec=spec("counts")))
    _, asking = await trial.migrate_in_background("counts")
    assert await trial.end_coordinator(signal.SIGTERM) == 0
    trial.agents.gates["pause-transfer"].set()
    await trial.start_coordinator()
    assert (await asking).state is OperationState.COMPLETED
    trial.check_nothing_lost("counts")


async def test_migration_when_redis_is_killed_then_only_waits_for_it(trial: Trial) -> None:
    await trial.ask(DeployJob(spec=spec("counts")))
    _, asking = await trial.migrate_in_background("counts")
    await trial.running.kill("redis")
    trial.agents.gates["pause-transfer"].set()
    await trial.running.start("redis")
    assert (await asking).state is OperationState.COMPLETED
    trial.check_nothing_lost("counts")


async def test_migration_when_target_refuses_the_state_then_source_goes_on(trial: Trial) -> None:
    await trial.ask(DeployJob(spec=spec("counts")))
    trial.agents.refused = {"resume"}

    async def allow_undo() -> bool:
        return trial.agents.reached.count("jfk resume") > 0

    moving = asyncio.create_task(trial.refusal(MigrateJob(job="counts", to="lga")))
    await until(allow_undo)
    trial.agents.refused = set()
    error = await moving
    assert error.detail.code is ErrorCode.FAILED
    assert "lga refuses resume" in error.detail.message
    assert trial.owners("counts") == ["jfk"]
    trial.check_nothing_lost("counts")
    assert (await trial.job("counts")).epoch == 3


async def test_command_when_sent_again_or_already_fulfilled_then_changes_nothing(trial: Trial) -> None:
    command = DeployJob(id=new_identifier(), spec=spec("counts"))
    first = await trial.ask(command)
    assert (await trial.ask(command)).operation == first.operation
    same = await trial.ask(DeployJob(spec=spec("counts")))
    assert same.note.startswith("nothing to do")
    assert trial.agents.reached.count("jfk start-job") == 1


async def test_command_when_wrong_then_error_names_field_value_and_what_is_allowed(trial: Trial) -> None:
    await trial.ask(DeployJob(spec=spec("counts")))
    downstream = {"inputs": [{"site": "jfk", "topic": "departures/counts"}]}
    cases: list[tuple[Command[Any], ErrorCode, str, Any]] = [
        (MigrateJob(job="counts", to="mars"), ErrorCode.UNKNOWN_SITE, "to", "mars"),
        (MigrateJob(job="counts", to="jfk"), ErrorCode.ALREADY_THERE, "to", "jfk"),
        (MigrateJob(job="nothing", to="lga"), ErrorCode.UNKNOWN_JOB, "job", "nothing"),
        (RemoveJob(job="nothing"), ErrorCode.UNKNOWN_JOB, "job", "nothing"),
        (DeployJob(spec=spec("counts", trigger_s=7.0)), ErrorCode.NAME_IN_USE, "name", "counts"),
        (DeployJob(spec=spec("new", site="mars")), ErrorCode.UNKNOWN_SITE, "site", "mars"),
        (
            DeployJob(spec=spec("new", inputs=[{"site": "jfk", "topic": "departures/none"}])),
            ErrorCode.UNKNOWN_TOPIC,
            "inputs.0.topic",
            "departures/none",
        ),
        (
            DeployJob(spec=spec("new", operator=FILTER, **downstream)),
            ErrorCode.SCHEMA_MISMATCH,
            "inputs.0",
            "delay",
        ),
        (UpdateJob(spec=spec("counts", site="lga")), ErrorCode.NOT_ALLOWED, "site", "lga"),
        (ShowOperation(operation="none"), ErrorCode.UNKNOWN_MIGRATION, "operation", "none"),
    ]
    for command, code, where, value in cases:
        detail = (await trial.refusal(command)).detail
        assert (detail.code, detail.field, detail.value) == (code, where, value)
        assert detail.allowed or code is ErrorCode.UNKNOWN_MIGRATION or "nothing" in str(value)
    assert trial.owners("counts") == ["jfk"]
    assert (await trial.job("counts")).epoch == 1


async def test_second_operation_when_one_is_under_way_then_is_refused_as_busy(trial: Trial) -> None:
    await trial.ask(DeployJob(spec=spec("counts")))
    _, asking = await trial.migrate_in_background("counts")
    refused = await trial.refusal(RemoveJob(job="counts"))
    assert refused.detail.code is ErrorCode.BUSY
    trial.agents.gates["pause-transfer"].set()
    assert (await asking).state is OperationState.COMPLETED


async def test_site_when_silent_then_is_down_and_takes_no_jobs(trial: Trial) -> None:
    await trial.ask(DeployJob(spec=spec("counts")))
    trial.agents.silent = {"lga"}

    async def down() -> bool:
        sites = (await trial.ask(ListSites())).sites
        return [s.site for s in sites if s.state is SiteState.DOWN] == ["lga"]

    await until(down)
    refused = await trial.refusal(MigrateJob(job="counts", to="lga"))
    assert (refused.detail.code, refused.detail.allowed) == (ErrorCode.SITE_DOWN, ["jfk"])

    async def told() -> bool:
        events = follow_events(trial.client, from_start=True, follow=False)
        return any([s.endswith("site.lga.changed") and b["state"] == "down" async for s, b in events])

    await until(told)


async def test_site_when_it_lost_a_job_or_has_one_too_many_then_is_set_right(trial: Trial) -> None:
    await trial.ask(DeployJob(spec=spec("counts")))
    sites = trial.agents.mesh.sites
    sites["lga"].hosted["ghost"] = sites["jfk"].hosted["counts"]
    del sites["jfk"].hosted["counts"]

    async def right() -> bool:
        return trial.owners("counts") == ["jfk"] and "ghost" not in sites["lga"].hosted

    await until(right)
    trial.check_nothing_lost("counts")
