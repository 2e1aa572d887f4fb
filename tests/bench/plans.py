"""Deployment plans on many gateways: install, update, uninstall, one after the other and at once.

The course is that of Figures 3.10, 3.12 and 3.13 of the thesis: from the client's command to the last answer.
Gateways are real processes with a session each. They fetch a package over HTTP, and run it in a process of
its own.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import Any

import psutil
from aiohttp import web
from benchmark import Benchmark, Say, Scale
from figures import Case, Measured, Target, Value, rounded
from measured_mesh import ATTEMPT_S, COMMAND_S, POLL_S, MeasuredMesh
from plain_broker import Broker
from plan_pictures import draw_boxes

from towpath.contracts.device_catalogue import DeviceCatalogue
from towpath.contracts.message import Command
from towpath.contracts.plan import DeploymentPlan
from towpath.contracts.plan_commands import ApplyPlan, RolloutChanged, ShowPlan, UninstallPlan, UpdatePlan
from towpath.contracts.plan_rollout import DeviceState, RolloutState, RolloutView
from towpath.contracts.site import SiteSpec
from towpath.gateways.packing import pack
from towpath.tasks import to_the_end

SITE = SiteSpec(name="field")
PACKAGE = Path(__file__).parents[2] / "examples/gateways/average-temperature"

COUNTS = {Scale.QUICK: (10,), Scale.DEFAULT: (50, 100, 150, 200), Scale.FULL: (50, 100, 150, 200)}
RUNS = {Scale.QUICK: 1, Scale.DEFAULT: 3, Scale.FULL: 10}
MODES = {"one by one": 1, "at once": 32}
"""Way of asking → gateways that are asked at a time. Kura, and so the thesis, executes commands serially."""

PHASES = ("install", "update", "uninstall")
TARGETS = {"install, s": 20.0, "update, s": 3.0, "uninstall, s": 10.0}
START_S = 120.0
STARTED_AT_ONCE = 10
LOST_SHARE = 5
"""One in so many gateways is killed in the middle of an installation."""

THEIRS = (
    "the thesis: 50 gateways installed in 10.47 s one by one (Figure 3.10); an update rises gently and an "
    "uninstallation like an installation (Figures 3.12, 3.13; the text has no other figures). Its gateways "
    "run Kura, where a package is a bundle in the JVM: here each application is a process of its own"
)


async def measure(mesh: MeasuredMesh | None, scale: Scale, say: Say, measured: Measured) -> None:
    """Measure all numbers of gateways, and what happens when one in five of them is killed."""
    assert mesh is not None
    measured.notes.append(THEIRS)
    boxes: dict[str, dict[int, dict[str, list[float]]]] = {phase: {} for phase in PHASES}
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="towpath-bench-plans-")))
        package = await stack.enter_async_context(served(directory))
        for count in COUNTS[scale]:
            say(f"{count} gateways start")
            async with running_gateways(mesh, directory, count) as gateways:
                measured.notes.append(f"{count} gateways: {gateways.memory_mb():.0f} MB each")
                for mode, at_once in MODES.items():
                    seconds = await _rounds(mesh, package, count, at_once, RUNS[scale], say)
                    for phase in PHASES:
                        boxes[phase].setdefault(count, {})[mode] = seconds[phase]
                    measured.cases.append(_case(f"{count} gateways {mode}", seconds, count, at_once))
                if left := gateways.left_behind():
                    raise RuntimeError(f"{left} packages or processes are left behind")
        count = COUNTS[scale][-1]
        measured.cases.append(await _killed(mesh, directory, package, count, say))
    measured.raw["seconds"] = boxes
    for phase in PHASES:
        measured.pictures[phase] = partial(draw_boxes, title=f"{phase}, s", by_count=boxes[phase])


def _case(name: str, seconds: dict[str, list[float]], count: int, at_once: int) -> Case:
    figures: dict[str, Value] = {"runs": len(seconds["install"])}
    for phase in PHASES:
        figures[f"{phase}, s"] = rounded(median(seconds[phase]), 2)
        figures[f"{phase}, mean and range, s"] = (
            f"{fmean(seconds[phase]):.2f} ({min(seconds[phase]):.2f}–{max(seconds[phase]):.2f})"
        )
    wanted = {title: Target(at_most=limit) for title, limit in TARGETS.items()}
    return Case(name, figures, wanted if count == 200 and at_once > 1 else {})


async def _rounds(
    mesh: MeasuredMesh, package: dict[str, Any], count: int, at_once: int, runs: int, say: Say
) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {phase: [] for phase in PHASES}
    for number in range(runs):
        say(f"{count} gateways, {at_once} at a time, run {number + 1} of {runs}")
        plan = mesh.fresh_name("plan")
        changed = UpdatePlan(plan=plan, operation="average", arguments={"publish.rate": 10})
        for phase, command in (
            ("install", apply(plan, package, count, at_once)),
            ("update", changed),
            ("uninstall", UninstallPlan(plan=plan)),
        ):
            view, took = await rolled_out(mesh, plan, command)
            state = DeviceState.REMOVED if phase == "uninstall" else DeviceState.RUNNING
            if (view.state, view.counts[state]) != (RolloutState.COMPLETED, count):
                raise RuntimeError(f"{phase} of {plan} ended as {view.state}, {view.counts}: {view.note}")
            seconds[phase].append(took)
    return seconds


async def _killed(mesh: MeasuredMesh, directory: Path, package: dict[str, Any], count: int, say: Say) -> Case:
    """Kill one in five gateways in the middle, look at what is told of each, and bring them back."""
    say(f"{count} gateways, one in {LOST_SHARE} is killed in the middle")
    plan, chance = mesh.fresh_name("plan"), random.Random(11)
    async with running_gateways(mesh, directory, count) as gateways:
        await ask(mesh, apply(plan, package, count, MODES["at once"]))
        await settled(mesh, plan, lambda found: found.counts[DeviceState.RUNNING] >= count // 4)
        began = time.monotonic()
        victims = chance.sample(range(1, count + 1), count // LOST_SHARE)
        await gateways.kill(*victims)
        view = await settled(mesh, plan, _is_known)
        told_s, away = time.monotonic() - began, view.counts[DeviceState.QUEUED_OFFLINE]
        await gateways.start(*victims)
        back = time.monotonic()
        view = await settled(mesh, plan, lambda found: found.state is not RolloutState.RUNNING)
        caught_up_s, running = time.monotonic() - back, view.counts[DeviceState.RUNNING]
        await rolled_out(mesh, plan, UninstallPlan(plan=plan))
        left = gateways.left_behind()
    figures: dict[str, Value] = {
        "killed": len(victims),
        "told as absent": away,
        "all others done, s": rounded(told_s, 1),
        "complete after their return, s": rounded(caught_up_s, 1),
        "running in the end": running,
        "left behind": left,
    }
    return Case(f"{count} gateways, one in {LOST_SHARE} killed", figures, faults=(running != count) + left)


def _is_known(view: RolloutView) -> bool:
    """True if each device is done or absent: nothing is under way any more."""
    return view.counts[DeviceState.INSTALLING] + view.counts[DeviceState.PENDING] == 0


def apply(plan: str, package: dict[str, Any], count: int, at_once: int) -> ApplyPlan:
    """Return the command that installs the package on all gateways, in one wave."""
    devices = [f"pi-{number:03d}" for number in range(1, count + 1)]
    operation = {
        "id": "average",
        "executes": {"kind": "install", "package": package, "arguments": {"publish.rate": 5}},
        "placement": {"devices": devices},
    }
    rollout = {"waves": ["100%"], "at_once": at_once, "ask_again_s": 5}
    catalogue = {"devices": [{"id": device, "place": {"site": SITE.name}} for device in devices]}
    described = {"plan": plan, "operations": [operation], "rollout": rollout}
    return ApplyPlan(
        plan=DeploymentPlan.model_validate(described), catalogue=DeviceCatalogue.model_validate(catalogue)
    )


async def ask(mesh: MeasuredMesh, command: Command[RolloutView]) -> RolloutView:
    """Send a command, and return the plan as it is then."""
    return await mesh.bus.request(command, deadline_s=COMMAND_S, attempt_s=ATTEMPT_S)


async def rolled_out(
    mesh: MeasuredMesh, plan: str, command: Command[RolloutView], within_s: float = COMMAND_S
) -> tuple[RolloutView, float]:
    """Send a command. Return the plan at the end of its version, and the seconds until then."""
    ended = asyncio.Event()

    async def hear(event: RolloutChanged) -> None:
        if event.plan == plan and event.state is not RolloutState.RUNNING:
            ended.set()

    await mesh.bus.subscribe(RolloutChanged, hear, plan=plan)
    await mesh.bus.connection.flush()
    began = time.monotonic()
    await ask(mesh, command)
    async with asyncio.timeout(within_s):
        await ended.wait()
    took = time.monotonic() - began
    return await ask(mesh, ShowPlan(plan=plan)), took


async def settled(mesh: MeasuredMesh, plan: str, condition: Callable[[RolloutView], bool]) -> RolloutView:
    """Wait until a condition holds for the plan. Return the plan."""
    async with asyncio.timeout(COMMAND_S):
        while not condition(view := await ask(mesh, ShowPlan(plan=plan))):
            await asyncio.sleep(POLL_S)
    return view


@asynccontextmanager
async def served(directory: Path, source: Path = PACKAGE) -> AsyncIterator[dict[str, Any]]:
    """Serve a package over HTTP, and yield it as plans name it."""
    shelf = directory / "shelf"
    await asyncio.to_thread(shelf.mkdir)
    manifest, path, digest = await asyncio.to_thread(pack, source, shelf)
    application = web.Application()
    application.router.add_static("/", shelf)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        listening = web.TCPSite(runner, "127.0.0.1", 0)
        await listening.start()
        _, port = runner.addresses[0][:2]
        address = f"http://127.0.0.1:{port}/{path.name}"
        yield {"name": manifest.name, "version": manifest.version, "url": address, "sha256": digest}
    finally:
        await runner.cleanup()


class Gateways:
    """Gateways in a process each, which end with this one."""

    def __init__(self, config: Path, directory: Path) -> None:
        self._config, self.directory = config, directory
        self._processes: dict[int, asyncio.subprocess.Process] = {}

    async def start(self, *numbers: int) -> None:
        """Start gateways of these numbers. Return when they are online."""
        for some in batched(numbers, STARTED_AT_ONCE):
            await asyncio.gather(*map(self._start, some))

    async def _start(self, number: int) -> None:
        options = ["--config", str(self._config), "--count", "1", "--first", str(number)]
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "towpath.gateway.simulation", *options, stdout=asyncio.subprocess.PIPE
        )
        self._processes[number] = process
        assert process.stdout is not None
        async with asyncio.timeout(START_S):
            if await process.stdout.readline() != b"online\n":
                raise RuntimeError(f"gateway {number} did not start")

    async def kill(self, *numbers: int) -> None:
        """Kill gateways with SIGKILL."""
        for number in numbers:
            self._processes[number].kill()
        for number in numbers:
            await self._processes[number].wait()

    async def end(self) -> None:
        """Let all gateways say farewell."""
        running = [process for process in self._processes.values() if process.returncode is None]
        for process in running:
            process.terminate()
        for process in running:
            await process.wait()

    def memory_mb(self) -> float:
        """Return the mean proportional memory of a gateway, without its applications."""
        return fmean(process.memory_full_info().pss for process in self._running()) / 1e6

    def memory_with_applications_mb(self) -> float:
        """Return the mean proportional memory of a gateway and all processes that it has started."""
        found = [each for process in self._running() for each in (process, *process.children(recursive=True))]
        return sum(process.memory_full_info().pss for process in found) / 1e6 / len(self._running())

    def left_behind(self) -> int:
        """Return how many packages, and processes of applications, gateways still have."""
        records = len([*self.directory.glob("*/installed/*.json"), *self.directory.glob("*/packages/*")])
        return records + sum(len(process.children()) for process in self._running())

    def _running(self) -> list[psutil.Process]:
        return [psutil.Process(p.pid) for p in self._processes.values() if p.returncode is None]


def batched(numbers: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    """Yield so many numbers at a time."""
    for first in range(0, len(numbers), size):
        yield numbers[first : first + size]


@asynccontextmanager
async def running_gateways(
    mesh: MeasuredMesh, directory: Path, count: int, device: str = "pi", sensors: Broker | None = None
) -> AsyncIterator[Gateways]:
    """Run gateways `pi-001` and so on at the site, in empty directories.

    `sensors` is the broker of their own sensors, else it is the site's.
    """
    access = mesh.state.site(SITE.name)
    assert access.gateway is not None
    place = directory / mesh.fresh_name("gateways")
    config, password = directory / "gateway.json", directory / "gateway.password"
    broker = {"host": access.mqtt_host, "port": access.mqtt_port, "user": access.gateway.user}
    settings: dict[str, Any] = {
        "device": device,
        "directory": str(place),
        "site": broker | {"password_file": str(password)},
    }
    await asyncio.to_thread(password.write_text, access.gateway.password)
    if sensors is not None:
        own = directory / "sensors.password"
        await asyncio.to_thread(own.write_text, sensors.password)
        where = {"host": sensors.host, "port": sensors.port, "user": sensors.user}
        settings["local"] = where | {"password_file": str(own)}
    await asyncio.to_thread(config.write_text, json.dumps(settings))
    gateways = Gateways(config, place)
    try:
        await gateways.start(*range(1, count + 1))
        yield gateways
    finally:
        await to_the_end(gateways.end())


BENCHMARK = Benchmark(
    "plans",
    "deployment plans on up to 200 gateways: install, update, uninstall",
    (SITE,),
    measure,
    on_request=True,
)
