"""Any course of losses, repetitions, late requests, absences, refusals and deaths of the controller.

Whatever happens, each device's truth is reported, nothing is installed twice, a version that must stop begins
nothing more, and the plan ends once all devices are back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from simulation.plan_devices import FATES, SimulatedDevice, SimulatedDevices
from simulation.plan_store import MemoryPlanStore
from simulation.simulated_time import simulated
from towpath.contracts.plan import DeployableOperation, Package, Rollout, StopCondition, TaskKind
from towpath.contracts.plan_rollout import DeviceState, PlanVersion, RolloutState
from towpath.plans.controller import PlanController
from towpath.plans.records import DeviceRecord, PlanRecord
from towpath.plans.steps import wanted_by_device
from towpath.tasks import end

GATEWAYS = ("pi-1", "pi-2", "pi-3", "pi-4", "pi-5")
SERVER = "broker-1"
SITES = dict.fromkeys((*GATEWAYS, SERVER), "jfk")
ROLLOUT = Rollout(
    waves=[0.3, 1.0],
    success=0.6,
    stop=StopCondition(share=0.35),
    at_once=3,
    timeout_s=5,
    ask_again_s=7,
    step_limit_s=1.5,
)
WORDS = ("new package", "new arguments", "fewer devices", "back", "uninstall", "the same")
"""Commands that may come while another version is under way."""


def clock() -> datetime:
    """Return the simulated time."""
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=asyncio.get_running_loop().time())


class Killed(BaseException):
    """Raised for SIGKILL of the controller."""


@dataclass(frozen=True)
class Course:
    """All that happens."""

    fates: Sequence[str]
    """Fate of each request; those after the last are delivered."""
    kills: frozenset[int]
    """Writes at which the controller dies."""
    moves: Sequence[tuple[int, str]]
    """Seconds until a device goes or comes without news, or with."""
    refusing: frozenset[tuple[str, str]]
    """Device and resource that it refuses."""
    not_now: dict[str, int]
    slow: dict[str, int]
    commands: Sequence[tuple[int, str]]
    """Seconds until a command, and the command."""
    roll_back: bool = True


def courses() -> st.SearchStrategy[Course]:
    device = st.sampled_from((*GATEWAYS, SERVER))
    resources = st.sampled_from(("packages/install", "configurations/average", "packages/uninstall"))
    return st.builds(
        Course,
        fates=st.lists(st.sampled_from(("deliver", "deliver", *FATES)), max_size=40),
        kills=st.frozensets(st.integers(0, 80), max_size=5),
        moves=st.lists(st.tuples(st.integers(0, 90), device), max_size=6),
        refusing=st.frozensets(st.tuples(device, resources), max_size=3),
        not_now=st.dictionaries(device, st.integers(1, 3), max_size=2),
        slow=st.dictionaries(device, st.integers(1, 3), max_size=2),
        commands=st.lists(st.tuples(st.integers(0, 60), st.sampled_from(WORDS)), max_size=3),
        roll_back=st.booleans(),
    )


def operations(package: str, rate: int, gateways: Sequence[str] = GATEWAYS) -> list[DeployableOperation]:
    broker = DeployableOperation(
        operation="broker",
        application="broker",
        kind=TaskKind.INGESTION,
        order=1,
        package=Package(name="mosquitto", version="2"),
        devices=[SERVER],
    )
    average = DeployableOperation(
        operation="average",
        application="average",
        kind=TaskKind.INSTALL,
        order=2,
        after=["broker"],
        package=Package(name="average.dp", version=package),
        arguments={"publish.rate": rate},
        devices=[*gateways],
    )
    return [broker, average]


@dataclass
class WatchedStore(MemoryPlanStore):
    """Checks at each write that a version which must stop begins nothing more."""

    begun: dict[str, DeviceRecord] = field(default_factory=dict)

    async def save_device(self, plan: str, record: DeviceRecord) -> None:
        old = self.devices.get((plan, record.device))
        before = DeviceRecord.model_validate_json(old).pending if old else None
        if record.pending is not None and before is None:
            self._check_may_begin(plan, record)
        await super().save_device(plan, record)

    def _check_may_begin(self, plan: str, record: DeviceRecord) -> None:
        progress = PlanRecord.model_validate_json(self.plans[plan])
        version = PlanVersion.model_validate_json(self.known_versions[plan, progress.version])
        assert record.pending is not None
        assert (progress.state, record.pending.version) == (RolloutState.RUNNING, progress.version)
        waves = [device for wave in version.waves[: progress.wave + 1] for device in wave]
        begun = {*waves, *progress.brought_forward}
        assert record.device in begun, "its wave has not begun"
        failures = [DeviceRecord.model_validate_json(self.devices[plan, device]).failure for device in begun]
        failed = sum(failure is not None and failure.version == version.version for failure in failures)
        if version.stops:
            assert failed <= version.rollout.stop.share * len(begun), "the version must have stopped"


class World:
    """Devices and a store, which outlive the controllers."""

    def __init__(self, course: Course) -> None:
        self.course = course
        self.store = WatchedStore(around=self._around)
        self.devices = SimulatedDevices({name: SimulatedDevice() for name in (*GATEWAYS, SERVER)})
        self.devices.around = self._sending
        fates = iter(course.fates)
        self.devices.network = lambda device: next(fates, "deliver")
        self._writes = 0
        self._dead = False
        for name, device in self.devices.devices.items():
            device.not_now, device.slow = course.not_now.get(name, 0), course.slow.get(name, 0)
            device.refuses = lambda resource, name=name: 500 if (name, resource) in course.refusing else None

    def _around(self, _: str) -> None:
        self._writes += 1
        if self._dead or self._writes in self.course.kills:
            self._dead = True
            raise Killed

    def _sending(self, device: str, request_id: str) -> None:
        if self._dead:
            raise Killed
        stored = DeviceRecord.model_validate_json(self.store.devices["p", device])
        assert stored.pending is not None, "a step is stored before it is sent"
        assert stored.pending.request_id == request_id

    async def lives(self, *commands: tuple[str, str]) -> None:
        """Let controllers run, one after the other, until one ends by itself with all commands given."""
        given = [*commands]
        while True:
            self._dead = False
            plan = PlanController("p", self.store, self.devices, clock=clock)
            try:
                while given:
                    await self._give(plan, *given[0])
                    given.pop(0)
                await plan.run()
                return
            except Killed:
                continue

    async def _give(self, plan: PlanController, command: str, word: str) -> None:
        match word:
            case "uninstall":
                await plan.uninstall(command=command)
            case "back":
                earlier = [entry.version for entry in await plan.history()][1:]
                if earlier:
                    await plan.rollback(earlier[-1], command=command)
            case _:
                wanted = {
                    "new package": operations("2", 5),
                    "new arguments": operations("1", 10),
                    "fewer devices": operations("1", 5, GATEWAYS[:2]),
                }.get(word, operations("1", 5))
                rollout = ROLLOUT.model_copy(update={"roll_back": self.course.roll_back})
                await plan.apply(wanted, rollout, SITES, command=command)

    async def disturbed(self) -> None:
        """Play the course: devices come and go, and commands come, while controllers run and die."""
        moving = asyncio.create_task(self._move())
        running = asyncio.create_task(self.lives(("c0", "the same")))
        try:
            passed = 0
            for number, (second, word) in enumerate(sorted(self.course.commands), start=1):
                await asyncio.sleep(second - passed)
                passed = second
                await end([running])
                running = asyncio.create_task(self.lives(("c0", "the same"), (f"c{number}", word)))
            await asyncio.wait({running}, timeout=100 - passed)
        finally:
            await end([moving, running])
        if running.done() and not running.cancelled():
            running.result()

    async def _move(self) -> None:
        passed = 0
        for number, (second, device) in enumerate(sorted(self.course.moves)):
            await asyncio.sleep(second - passed)
            passed = second
            moved = self.devices.devices[device]
            moved.online = not moved.online
            if number % 2:
                self.devices.news.put_nowait((device, moved.online))

    async def calm(self) -> None:
        """Let all devices be back, and nothing be lost any more."""
        self.course = replace(self.course, kills=frozenset())
        self.devices.network = lambda device: "deliver"
        for device in self.devices.devices.values():
            device.online, device.not_now, device.slow = True, 0, 0
        await self.lives(("c0", "the same"))
        await asyncio.gather(*self.devices.late)

    async def check_truth(self) -> None:
        """Compare what is reported with what is."""
        found = await self.store.load("p")
        assert found is not None
        record, reported = found
        for name, device in reported.items():
            real = self.devices.devices[name]
            apps = device.applications
            assert {app: there.package.version for app, there in apps.items()} == real.packages
            assert {app: there.arguments for app, there in apps.items()} == real.configurations
        self._check_wanted(record, reported)

    def _check_wanted(self, record: PlanRecord, reported: dict[str, DeviceRecord]) -> None:
        version = PlanVersion.model_validate_json(self.store.known_versions["p", record.version])
        wanted = wanted_by_device(version)
        for name, device in reported.items():
            assert device.pending is None
            if device.failure is not None and device.failure.version == record.version:
                continue
            if record.state is RolloutState.COMPLETED:
                assert {app: o.arguments for app, o in wanted[name].items()} == {
                    app: there.arguments for app, there in device.applications.items()
                }


@given(courses())
def test_plan_when_anything_happens_then_devices_have_what_is_reported(course: Course) -> None:
    async def scenario() -> None:
        world = World(course)
        await world.disturbed()
        await world.calm()
        await world.check_truth()
        view = await PlanController("p", world.store, world.devices).status()
        assert view.state in (RolloutState.COMPLETED, RolloutState.STOPPED)
        if not course.refusing:
            assert view.state is RolloutState.COMPLETED
            done = view.counts[DeviceState.RUNNING] + view.counts[DeviceState.REMOVED]
            assert done == len(view.devices)

    simulated(scenario())
