"""Plans on gateways with real sessions, while coordinator and gateways are killed."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
import pytest_asyncio

from running.coordinator import Trial
from running.gateways import packed
from running.promises import promise
from running.waiting import eventually
from towpath.agent.devices import SiteDevices
from towpath.bus import Bus
from towpath.contracts.device_catalogue import DeviceCatalogue
from towpath.contracts.errors import ErrorCode
from towpath.contracts.message import new_identifier
from towpath.contracts.plan import DeploymentPlan
from towpath.contracts.plan_commands import (
    ApplyPlan,
    RolloutChanged,
    ShowPlan,
    ShowPlanHistory,
    UninstallPlan,
    UpdatePlan,
)
from towpath.contracts.plan_rollout import DeviceState, RolloutState, RolloutView
from towpath.contracts.site import Retention
from towpath.streams.streams import SiteStreams
from towpath.tasks import end

COUNT = 12
STABLE = [f"pi-{n:03}" for n in range(1, COUNT + 1)]
SHAKY = [f"gw-{n:03}" for n in range(1, 5)]


class Gateways:
    """Simulated gateways of one prefix, in a process that can be killed."""

    def __init__(self, config: Path, count: int) -> None:
        self._command = [sys.executable, "-m", "towpath.gateway.simulation", "--config", str(config)]
        self._count = count
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        options = ["--inside", "--count", str(self._count), "--per-process", str(self._count)]
        self._process = await asyncio.create_subprocess_exec(
            *self._command, *options, stdout=asyncio.subprocess.PIPE
        )
        assert self._process.stdout is not None
        assert b"are online" in await self._process.stdout.readline()

    async def kill(self) -> None:
        assert self._process is not None
        if self._process.returncode is None:
            running = psutil.Process(self._process.pid)
            for process in [*running.children(), running]:
                process.kill()
            await self._process.wait()


class Fleet:
    """Gateways of both prefixes at the site jfk, and plans for them."""

    def __init__(self, trial: Trial, directory: Path, stable: Gateways, shaky: Gateways) -> None:
        self.trial, self.stable, self.shaky = trial, stable, shaky
        self._directory = directory
        self.plan = f"plan-{new_identifier()}"
        """A name of its own: the coordinator lives longer than one test."""
        package = packed(directory, version="1")
        self.package = {key: package[key] for key in ("name", "version", "url", "sha256")}

    def apply(self, devices: Iterable[str], plan: str | None = None, **rollout: Any) -> ApplyPlan:
        operation = {
            "id": "thin",
            "executes": {"kind": "install", "package": self.package, "arguments": {"every": 1}},
            "placement": {"devices": [*devices]},
        }
        catalogue = {"devices": [{"id": name, "place": {"site": "jfk"}} for name in [*STABLE, *SHAKY]]}
        described = {
            "plan": plan or self.plan,
            "operations": [operation],
            "rollout": {"ask_again_s": 1, **rollout},
        }
        return ApplyPlan(
            plan=DeploymentPlan.model_validate(described), catalogue=DeviceCatalogue.model_validate(catalogue)
        )

    async def seen(self, state: RolloutState, **counts: int) -> RolloutView:
        """Wait until the plan is in this state, with so many devices in each state."""
        found: list[RolloutView] = []

        async def there() -> bool:
            found[:] = [await self.trial.ask(ShowPlan(plan=self.plan))]
            wanted = {DeviceState(name.replace("_", "-")): count for name, count in counts.items()}
            return found[0].state is state and wanted.items() <= found[0].counts.items()

        await eventually(there)
        return found[0]

    def requests(self, device: str, resource: str) -> list[dict[str, Any]]:
        """Return the requests for a resource that a gateway has carried out, from its own journal."""
        entries = (
            json.loads(path.read_text())
            for path in (self._directory / "gateways" / device / "requests").glob("*.json")
        )
        return [entry for entry in entries if entry["topic"].endswith(resource)]

    def installed(self, device: str) -> dict[str, Any]:
        """Return the properties of each application that a gateway has on its disk."""
        files = (self._directory / "gateways" / device / "installed").glob("*.json")
        return {path.stem: json.loads(path.read_text())["properties"] for path in files}


@pytest_asyncio.fixture(loop_scope="session")
async def fleet(trial: Trial, tmp_path: Path) -> AsyncIterator[Fleet]:
    access = trial.running.state.site("jfk")
    assert access.gateway is not None
    async with trial.running.agent("jfk") as connection:
        await SiteStreams(connection, "jfk", Retention()).ensure_in()
    password = tmp_path / "password"
    password.write_text(access.gateway.password)
    broker = {"host": access.mqtt_host, "port": access.mqtt_port, "user": access.gateway.user}
    groups: list[Gateways] = []
    for prefix, names in (("pi", STABLE), ("gw", SHAKY)):
        settings = {"device": prefix, "directory": str(tmp_path / "gateways")}
        config = tmp_path / f"{prefix}.yaml"
        config.write_text(json.dumps(settings | {"site": broker | {"password_file": str(password)}}))
        groups.append(Gateways(config, len(names)))
    async with _agent_part(trial):
        try:
            await asyncio.gather(*(group.start() for group in groups))
            yield Fleet(trial, tmp_path, *groups)
        finally:
            for group in groups:
                await group.kill()


@asynccontextmanager
async def _agent_part(trial: Trial) -> AsyncIterator[None]:
    """Run what an agent has for devices."""
    access = trial.running.state.site("jfk")
    login = access.login("agent")
    async with await Bus.connect(access.nats_url, login.user, login.password, name="devices") as bus:
        devices = SiteDevices(access, bus.publish)
        await devices.serve(bus)
        watching = asyncio.create_task(devices.watch())
        try:
            yield
        finally:
            await end([watching])


@promise("plans")
@pytest.mark.asyncio(loop_scope="session")
async def test_plan_when_the_coordinator_is_killed_again_and_again_then_each_gateway_installs_once(
    fleet: Fleet,
) -> None:
    chance = random.Random(7)
    command = fleet.apply(STABLE, at_once=2)
    await fleet.trial.ask(command)
    for _ in range(4):
        await asyncio.sleep(chance.uniform(0.02, 0.4))  # Any moment may be that of the kill.
        await fleet.trial.end_coordinator(signal.SIGKILL)
        await fleet.trial.start_coordinator()
        await fleet.trial.ask(ShowPlan(plan=fleet.plan))

    view = await fleet.seen(RolloutState.COMPLETED, running=COUNT)
    repeated = await fleet.trial.ask(command)

    assert (view.version, repeated.version) == (1, 1)
    for device in STABLE:
        assert len(fleet.requests(device, "packages/install")) == 1
        assert fleet.installed(device) == {"thin": {"every": 1}}


@pytest.mark.asyncio(loop_scope="session")
async def test_plan_when_gateways_are_killed_and_come_back_then_they_catch_up_and_nothing_is_left_behind(
    fleet: Fleet,
) -> None:
    told: list[RolloutChanged] = []

    async def hear(event: RolloutChanged) -> None:
        told.append(event)

    await fleet.trial.client.subscribe(RolloutChanged, hear)
    await fleet.trial.ask(fleet.apply([*STABLE, *SHAKY]))
    await fleet.shaky.kill()

    await fleet.seen(RolloutState.RUNNING, queued_offline=len(SHAKY), running=COUNT)
    await fleet.trial.ask(UpdatePlan(plan=fleet.plan, operation="thin", arguments={"every": 3}))
    await fleet.seen(RolloutState.RUNNING, queued_offline=len(SHAKY), running=COUNT)
    await fleet.shaky.start()
    await fleet.seen(RolloutState.COMPLETED, running=COUNT + len(SHAKY))

    assert all(fleet.installed(device) == {"thin": {"every": 3}} for device in [*STABLE, *SHAKY])
    history = (await fleet.trial.ask(ShowPlanHistory(plan=fleet.plan))).versions
    assert [(v.version, v.state) for v in history] == [
        (2, RolloutState.COMPLETED),
        (1, RolloutState.SUPERSEDED),
    ]
    assert (told[0].version, told[-1].state) == (1, RolloutState.COMPLETED)

    await fleet.trial.ask(UninstallPlan(plan=fleet.plan))
    await fleet.seen(RolloutState.COMPLETED, removed=COUNT + len(SHAKY))

    assert all(fleet.installed(device) == {} for device in [*STABLE, *SHAKY])


@pytest.mark.asyncio(loop_scope="session")
async def test_plan_when_it_cannot_be_rolled_out_then_is_refused_and_nothing_is_sent(fleet: Fleet) -> None:
    await fleet.trial.ask(fleet.apply(STABLE[:1]))
    shared = await fleet.trial.refusal(fleet.apply(STABLE[:2], plan="q"))
    fleet.package.pop("sha256")
    unverified = await fleet.trial.refusal(fleet.apply(STABLE[2:3], plan="r"))
    unknown = await fleet.trial.refusal(ShowPlan(plan="q"))

    assert (shared.detail.code, shared.detail.field) == (
        ErrorCode.NAME_IN_USE,
        "operations.thin.application",
    )
    assert "sha256" in str(unverified.detail.field)
    assert (unknown.detail.code, unknown.detail.allowed) == (ErrorCode.UNKNOWN_PLAN, [fleet.plan])
