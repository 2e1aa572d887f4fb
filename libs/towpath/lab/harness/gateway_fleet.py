"""Simulated gateways at a site, to which a plan rolls out one version of an application after another.

In the end each gateway must have the last version and nothing else, and must have carried out each step once.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from towpath.atomic_write import make_private_directory, write_private_file
from towpath.contracts.device_catalogue import DeviceCatalogue
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import Command, new_identifier
from towpath.contracts.plan import DeploymentPlan
from towpath.contracts.plan_commands import ApplyPlan, ShowPlan, UninstallPlan
from towpath.contracts.plan_rollout import DeviceState, RolloutState, RolloutView
from towpath.contracts.scenario_gateways import ScenarioGateways
from towpath.gateways.packing import pack
from towpath.lab.harness.stage import Stage
from towpath.mesh.site_broker import gateway_broker
from towpath.tasks import to_the_end

APPLICATION = "thin"
PREFIX = "pi"
INSTALL = "packages/install"

START_S, STOP_S = 60.0, 20.0
ASK_S, ATTEMPT_S = 6.0, 2.0
LOOK_EVERY_S = 0.5

ROLL_OUT_S = 120.0
"""Seconds for a version where no fault is done."""

ROLLOUT = {"waves": [0.5, 1.0], "at_once": 4, "timeout_s": 5, "ask_again_s": 2, "roll_back": False}
"""A gateway that does not answer is asked again soon: it is away because of a fault."""


@dataclass
class GatewayFleet:
    """Gateways that run, and the versions that were rolled out to them."""

    stage: Stage
    site: str
    devices: list[str]
    directory: Path
    plan: str = field(default_factory=lambda: f"fleet-{new_identifier()}")
    """A name of its own: the mesh may have seen earlier fleets."""
    versions: list[int] = field(default_factory=list)

    async def roll_out(self, version: int, within_s: float = ROLL_OUT_S) -> None:
        """Bring all gateways to a version. Raises `TowpathError` (deadline) with those that are missing."""
        self.versions.append(version)
        command = await asyncio.to_thread(self._apply, version)
        await self._until_all(DeviceState.RUNNING, command, within_s)

    async def uninstall(self) -> None:
        """Take the application from all gateways. Raises `TowpathError` (deadline)."""
        await self._until_all(DeviceState.REMOVED, UninstallPlan(plan=self.plan), ROLL_OUT_S)

    async def problems(self) -> list[str]:
        """Compare gateways with their versions, uninstall the application, and compare again.

        Return in words what is wrong. It looks at their disks: what they say of themselves may be wrong, too.
        """
        found = await asyncio.to_thread(self._wrong_versions)
        try:
            await self.uninstall()
        except TowpathError as error:
            return [*found, error.detail.message]
        return found + await asyncio.to_thread(self._left_behind)

    async def _until_all(self, state: DeviceState, command: Command[RolloutView], within_s: float) -> None:
        """Repeat a command until its version is complete.

        Repeated, it makes no other version, unless the store has lost the one that it made.
        """
        loop = asyncio.get_running_loop()
        end, seen = loop.time() + within_s, "no answer"
        while True:
            try:
                begun, view = await self._ask(command), await self._ask(ShowPlan(plan=self.plan))
            except TowpathError as error:
                seen = error.detail.message
            else:
                is_newest = (view.version, view.state) == (begun.version, RolloutState.COMPLETED)
                if is_newest and view.counts.get(state) == len(self.devices):
                    return
                seen = ", ".join(f"{count} {name}" for name, count in view.counts.items() if count)
            if loop.time() > end:
                why = f"after {within_s:g} s not all gateways are {state}: {seen}"
                raise TowpathError(ErrorCode.DEADLINE, why, field="plan", value=self.plan)
            await asyncio.sleep(LOOK_EVERY_S)

    async def _ask(self, command: Command[RolloutView]) -> RolloutView:
        return await self.stage.bus.request(command, deadline_s=ASK_S, attempt_s=ATTEMPT_S)

    def _apply(self, version: int) -> ApplyPlan:
        operation = {
            "id": APPLICATION,
            "executes": {
                "kind": "install",
                "package": _packed(self.directory, version),
                "arguments": {"every": version},
            },
            "placement": {"devices": self.devices},
        }
        described = {"plan": self.plan, "operations": [operation], "rollout": ROLLOUT}
        devices = [{"id": device, "place": {"site": self.site}} for device in self.devices]
        return ApplyPlan(
            plan=DeploymentPlan.model_validate(described),
            catalogue=DeviceCatalogue.model_validate({"devices": devices}),
        )

    def _wrong_versions(self) -> list[str]:
        wanted = {APPLICATION: (str(self.versions[-1]), {"every": self.versions[-1]})}
        found: list[str] = []
        for device in self.devices:
            there = {path.stem: _installed(path) for path in self._files(device, "installed")}
            if there != wanted:
                found.append(f"{device} has {there}, and should have {wanted}")
            entries = [json.loads(path.read_text()) for path in self._files(device, "requests")]
            installs = sum(entry["topic"].endswith(INSTALL) for entry in entries)
            if installs != len(self.versions):
                found.append(f"{device} was asked {installs} times to install {len(self.versions)} versions")
        return found

    def _left_behind(self) -> list[str]:
        left = [*self.directory.glob("*/installed/*.json"), *self.directory.glob("*/packages/*")]
        return [f"after the plan's end {path} is left behind" for path in left]

    def _files(self, device: str, folder: str) -> Collection[Path]:
        return sorted((self.directory / device / folder).glob("*.json"))


def _installed(path: Path) -> tuple[str, dict[str, Any]]:
    record = json.loads(path.read_text())
    return record["manifest"]["version"], record["properties"]


def _packed(directory: Path, version: int) -> dict[str, str]:
    """Pack a version of the application. Return it as plans name it."""
    manifest = {
        "name": APPLICATION,
        "version": str(version),
        "input": {"topics": ["sensors/#"]},
        "operators": [{"operator": "sample", "every": "$every"}],
        "output": "site/thin",
        "properties": {"every": version},
    }
    source = make_private_directory(directory / f"source-{version}")
    (source / "manifest.json").write_text(json.dumps(manifest))
    read, path, digest = pack(source, directory)
    return {"name": read.name, "version": read.version, "url": path.absolute().as_uri(), "sha256": digest}


@asynccontextmanager
async def gateway_fleet(stage: Stage, given: ScenarioGateways) -> AsyncIterator[GatewayFleet]:
    """Run gateways in a process of their own, which ends with this one. Raises `TowpathError`."""
    directory = (stage.home.root / "gateways").absolute()
    config = await asyncio.to_thread(_settings, stage, given.site, directory)
    options = ["--config", str(config), "--first", "1", "--count", str(given.count), "--inside"]
    with stage.home.log("gateways").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "towpath.gateway.simulation", *options),
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
        )
    try:
        await _online(process, stage.home.log("gateways"))
        devices = [f"{PREFIX}-{number:03d}" for number in range(1, given.count + 1)]
        yield GatewayFleet(stage, given.site, devices, directory)
    finally:
        await to_the_end(_ended(process))


def _settings(stage: Stage, site: str, directory: Path) -> Path:
    shutil.rmtree(directory, ignore_errors=True)
    make_private_directory(directory)
    broker = gateway_broker(stage.mesh.site(site))
    password, config = directory / "password", directory / "gateway.json"
    write_private_file(password, f"{broker.password}\n")
    address = {"host": broker.host, "port": broker.port, "user": broker.user, "password_file": str(password)}
    secured = {"tls": broker.tls, "ca_file": broker.ca_file} if broker.tls else {}
    settings = {"device": PREFIX, "directory": str(directory), "site": address | secured}
    write_private_file(config, json.dumps(settings))
    return config


async def _online(process: asyncio.subprocess.Process, log: Path) -> None:
    assert process.stdout is not None
    try:
        async with asyncio.timeout(START_S):
            told = await process.stdout.readline()
    except TimeoutError:
        told = b""
    if told != b"online\n":
        raise TowpathError(ErrorCode.FAILED, f"the gateways did not start within {START_S:g} s, see {log}")


async def _ended(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    try:
        async with asyncio.timeout(STOP_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
