"""Rolling plans out: order, waves, stop and roll-back, devices that are away, updates without a stop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from simulation.plan_devices import SimulatedDevice, SimulatedDevices
from simulation.plan_store import MemoryPlanStore
from simulation.simulated_time import simulated
from towpath.contracts.errors import TowpathError
from towpath.contracts.plan import DeployableOperation, Package, Rollout, TaskKind
from towpath.contracts.plan_rollout import DeviceState, RolloutState, RolloutView, VersionKind
from towpath.plans.controller import PlanController
from towpath.protocols.runner import Superseded
from towpath.tasks import end, until

GATEWAYS = [f"pi-{n:03}" for n in range(40)]
SITES = dict.fromkeys((*GATEWAYS, *(f"pi-{n}" for n in range(10)), "broker-1"), "jfk")


def average(devices: list[str], version: str = "1", **arguments: Any) -> DeployableOperation:
    return DeployableOperation(
        operation="average",
        application="average",
        kind=TaskKind.INSTALL,
        order=2,
        after=["broker"],
        package=Package(name="average.dp", version=version, url="https://packages.example.org/average.dp"),
        arguments=arguments or {"publish.rate": 5},
        devices=devices,
    )


def broker(device: str = "broker-1") -> DeployableOperation:
    return DeployableOperation(
        operation="broker",
        application="broker",
        kind=TaskKind.INGESTION,
        order=1,
        package=Package(name="mosquitto", version="2"),
        devices=[device],
    )


def site(*names: str) -> SimulatedDevices:
    return SimulatedDevices({name: SimulatedDevice() for name in names})


BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def clock() -> datetime:
    return BEGIN + timedelta(seconds=asyncio.get_running_loop().time())


class Trial:
    """A plan, its devices and its store."""

    def __init__(self, devices: SimulatedDevices) -> None:
        self.devices = devices
        self.store = MemoryPlanStore()
        self.plan = PlanController("p", self.store, devices, clock=clock)
        self._commands = 0

    async def apply(self, *operations: DeployableOperation, rollout: Rollout | None = None) -> RolloutView:
        await self.begin(*operations, rollout=rollout)
        return await self.plan.run()

    async def begin(self, *operations: DeployableOperation, rollout: Rollout | None = None) -> None:
        self._commands += 1
        await self.plan.apply(operations, rollout or Rollout(), SITES, command=f"c{self._commands}")

    def logs(self) -> Mapping[str, list[str]]:
        return {name: [resource for resource, _ in d.log] for name, d in self.devices.devices.items()}

    def forget_logs(self) -> None:
        for device in self.devices.devices.values():
            device.log.clear()

    @asynccontextmanager
    async def running(self) -> Any:
        task = asyncio.create_task(self.plan.run())
        try:
            yield task
        finally:
            await end([task])

    async def seen(self, condition: Callable[[RolloutView], bool]) -> RolloutView:
        async def look() -> RolloutView | None:
            view = await self.plan.status()
            return view if condition(view) else None

        return await until(look, 10_000, 0.5)


def in_simulated_time(scenario: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def test() -> None:
        simulated(scenario())

    test.__name__ = scenario.__name__
    return test


@in_simulated_time
async def test_plan_when_applied_then_each_device_is_asked_once() -> None:
    trial = Trial(site(*GATEWAYS, "broker-1"))

    view = await trial.apply(broker(), average(GATEWAYS))

    assert view.state is RolloutState.COMPLETED
    assert view.counts[DeviceState.RUNNING] == 41
    assert {*map(tuple, trial.logs().values())} == {("packages/install",)}
    assert trial.devices.devices["pi-000"].configurations == {"average": {"publish.rate": 5}}


@in_simulated_time
async def test_operation_when_it_depends_on_a_server_then_starts_after_it() -> None:
    devices = site("pi-1", "broker-1")
    devices.devices["broker-1"].slow = 5
    trial = Trial(devices)
    await trial.begin(broker(), average(["pi-1"]))

    async with trial.running() as run:
        await trial.seen(lambda view: "average" in view.devices[1].applications)
        assert devices.devices["broker-1"].packages == {"broker": "2"}
        await run


@in_simulated_time
async def test_plan_when_devices_are_many_then_at_most_so_many_are_asked_at_once() -> None:
    trial = Trial(site(*GATEWAYS, "broker-1"))

    await trial.apply(broker(), average(GATEWAYS), rollout=Rollout(waves=[1.0], at_once=7))

    assert trial.devices.most_at_once == 7


@in_simulated_time
async def test_update_when_arguments_change_then_the_computation_is_not_stopped() -> None:
    trial = Trial(site(*GATEWAYS, "broker-1"))
    await trial.apply(broker(), average(GATEWAYS))
    trial.forget_logs()
    change = average(GATEWAYS, **{"publish.rate": 10}).model_copy(
        update={"kind": TaskKind.CONFIGURE, "package": None}
    )

    view = await trial.apply(broker(), change)

    assert view.state is RolloutState.COMPLETED
    assert {tuple(trial.logs()[name]) for name in GATEWAYS} == {("configurations/average",)}
    assert trial.logs()["broker-1"] == []
    assert trial.devices.devices["pi-000"].configurations["average"] == {"publish.rate": 10}


@in_simulated_time
async def test_update_when_it_names_one_operation_then_its_other_arguments_stay() -> None:
    trial = Trial(site("pi-1", "broker-1"))
    await trial.apply(broker(), average(["pi-1"], **{"publish.rate": 5, "publish.qos": 1}))
    trial.forget_logs()

    await trial.plan.update("average", {"publish.rate": 10}, command="u")
    await trial.plan.run()

    assert trial.logs()["pi-1"] == ["configurations/average"]
    found = trial.devices.devices["pi-1"].configurations["average"]
    assert found == {"publish.rate": 10, "publish.qos": 1}


@in_simulated_time
async def test_announcements_when_a_version_is_rolled_out_then_each_wave_and_the_end_are_told() -> None:
    trial = Trial(site(*GATEWAYS))
    told: list[tuple[RolloutState, int]] = []

    async def announce(view: RolloutView) -> None:
        told.append((view.state, view.wave))

    trial.plan = PlanController("p", trial.store, trial.devices, announce)
    await trial.apply(average(GATEWAYS).model_copy(update={"after": []}))

    assert told == [*((RolloutState.RUNNING, wave) for wave in (1, 2, 3)), (RolloutState.COMPLETED, 3)]


@in_simulated_time
async def test_update_when_a_device_never_had_the_application_then_is_refused() -> None:
    trial = Trial(site("pi-1", "pi-2", "broker-1"))
    await trial.apply(broker(), average(["pi-1"]))
    change = average(["pi-1", "pi-2"]).model_copy(update={"kind": TaskKind.CONFIGURE})

    with pytest.raises(TowpathError, match="average is not installed on pi-2"):
        await trial.begin(broker(), change)


@in_simulated_time
async def test_package_when_it_changes_then_one_request_replaces_it() -> None:
    trial = Trial(site("pi-1", "broker-1"))
    await trial.apply(broker(), average(["pi-1"]))
    trial.forget_logs()

    await trial.apply(broker(), average(["pi-1"], version="2"))

    assert trial.logs()["pi-1"] == ["packages/install"]
    assert trial.devices.devices["pi-1"].packages == {"average": "2"}


@in_simulated_time
async def test_version_when_too_many_refuse_it_then_it_stops_and_goes_back() -> None:
    trial = Trial(site(*GATEWAYS, "broker-1"))
    await trial.apply(broker(), average(GATEWAYS))
    trial.forget_logs()
    for device in trial.devices.devices.values():
        device.refuses = lambda resource: 500 if resource == "packages/install" else None

    view = await trial.apply(broker(), average(GATEWAYS, version="2"))

    assert (view.version, view.kind, view.again) == (3, VersionKind.AUTOMATIC_ROLLBACK, 1)
    assert view.note.startswith("version 2 stopped: 2 of 2 devices failed, at most 10% may: ")
    assert view.state is RolloutState.COMPLETED
    refused = [name for name in GATEWAYS if len(trial.devices.devices[name].outcomes) > 1]
    assert len(refused) == 2, "5 % of 40 devices are the first wave"
    assert not any(trial.logs().values())
    assert {device.packages.get("average") for device in trial.devices.devices.values()} == {"1", None}
    assert [(e.version, e.state) for e in await trial.plan.history()] == [
        (3, RolloutState.COMPLETED),
        (2, RolloutState.STOPPED),
        (1, RolloutState.COMPLETED),
    ]


@in_simulated_time
async def test_first_version_when_it_stops_then_it_is_taken_away() -> None:
    trial = Trial(site(*GATEWAYS, "broker-1"))
    trial.devices.devices["pi-000"].refuses = lambda resource: 409

    view = await trial.apply(broker(), average(GATEWAYS))

    assert (view.kind, view.again, view.state) == (
        VersionKind.AUTOMATIC_ROLLBACK,
        None,
        RolloutState.COMPLETED,
    )
    assert view.counts[DeviceState.REMOVED] == 41
    assert all(not device.packages for device in trial.devices.devices.values())


@in_simulated_time
async def test_version_when_roll_back_is_off_then_it_stays_stopped_and_a_new_one_may_follow() -> None:
    trial = Trial(site("pi-1", "pi-2", "broker-1"))
    trial.devices.devices["pi-1"].refuses = lambda resource: 500
    once = Rollout(waves=[0.5, 1.0], roll_back=False)

    stopped = await trial.apply(broker(), average(["pi-1", "pi-2"]), rollout=once)
    trial.devices.devices["pi-1"].refuses = lambda resource: None
    again = await trial.apply(broker(), average(["pi-1", "pi-2"]), rollout=once)

    assert (stopped.state, stopped.counts[DeviceState.FAILED]) == (RolloutState.STOPPED, 1)
    assert (again.state, again.counts[DeviceState.RUNNING]) == (RolloutState.COMPLETED, 3)


@in_simulated_time
async def test_version_when_few_fail_then_completes_and_names_them() -> None:
    trial = Trial(site(*GATEWAYS, "broker-1"))
    trial.devices.devices[GATEWAYS[-1]].refuses = lambda resource: 500

    view = await trial.apply(broker(), average(GATEWAYS))

    failed = [device for device in view.devices if device.state is DeviceState.FAILED]
    assert (view.state, view.note) == (RolloutState.COMPLETED, "1 device(s) failed: pi-039: 500 refused")
    assert [(d.device, d.note) for d in failed] == [(GATEWAYS[-1], "install of average: 500 refused")]


@in_simulated_time
async def test_devices_when_offline_then_waves_go_on_and_they_catch_up_when_they_come() -> None:
    trial = Trial(site(*GATEWAYS, "broker-1"))
    away = GATEWAYS[::4]
    for name in away:
        trial.devices.devices[name].online = False
    await trial.begin(broker(), average(GATEWAYS))

    async with trial.running() as run:
        view = await trial.seen(lambda view: view.counts[DeviceState.QUEUED_OFFLINE] == 10)
        assert view.counts[DeviceState.RUNNING] == 31
        assert view.state is RolloutState.RUNNING
        for name in away:
            trial.devices.come(name)
        view = await run

    assert (view.state, view.counts[DeviceState.RUNNING]) == (RolloutState.COMPLETED, 41)


@in_simulated_time
async def test_wave_when_all_its_devices_are_away_then_as_many_others_are_tried_first() -> None:
    trial = Trial(site(*GATEWAYS))
    for name in GATEWAYS[:2]:
        trial.devices.devices[name].online = False
    for name in GATEWAYS[2:]:
        trial.devices.devices[name].refuses = lambda resource: 500

    alone = average(GATEWAYS).model_copy(update={"after": []})
    await trial.begin(alone, rollout=Rollout(roll_back=False))

    async with trial.running():
        view = await trial.seen(lambda view: view.state is RolloutState.STOPPED)

    assert view.note == "2 of 4 devices failed, at most 10% may: pi-002: 500 refused"
    assert view.counts[DeviceState.FAILED] == 2


@in_simulated_time
async def test_device_when_news_of_its_return_are_lost_then_it_is_tried_again() -> None:
    trial = Trial(site("pi-1", "broker-1"))
    trial.devices.go("pi-1")
    await trial.begin(broker(), average(["pi-1"]))

    async with trial.running() as run:
        await trial.seen(lambda view: view.counts[DeviceState.QUEUED_OFFLINE] == 1)
        trial.devices.devices["pi-1"].online = True
        view = await run

    assert view.state is RolloutState.COMPLETED


@in_simulated_time
async def test_device_when_it_moves_then_it_is_asked_again_later_and_does_not_hold_the_others() -> None:
    trial = Trial(site(*GATEWAYS, "broker-1"))
    trial.devices.devices["pi-000"].not_now = 20
    await trial.begin(broker(), average(GATEWAYS))

    async with trial.running() as run:
        view = await trial.seen(lambda view: view.counts[DeviceState.RUNNING] == 40)
        (moving,) = (device for device in view.devices if device.state is not DeviceState.RUNNING)
        assert (moving.device, moving.state) == ("pi-000", DeviceState.DEFERRED)
        assert moving.note == "the device asks to be asked later"
        view = await run

    assert view.state is RolloutState.COMPLETED


@in_simulated_time
async def test_device_when_it_works_on_a_step_for_too_long_then_waves_go_on_and_it_catches_up() -> None:
    trial = Trial(site(*GATEWAYS, "broker-1"))
    slow = trial.devices.devices["pi-000"]
    slow.slow = 1_000_000
    begun = clock()
    await trial.begin(broker(), average(GATEWAYS), rollout=Rollout(step_limit_s=300))

    async with trial.running() as run:
        view = await trial.seen(lambda view: view.counts[DeviceState.RUNNING] == 40)
        (found,) = (device for device in view.devices if device.state is not DeviceState.RUNNING)
        assert (found.device, found.state) == ("pi-000", DeviceState.DEFERRED)
        assert found.note == "install of average takes longer than `step_limit_s`"
        assert found.since is not None
        assert 300 < (found.since - begun).total_seconds() < 310
        slow.slow = 0
        view = await run

    assert (view.state, view.counts[DeviceState.RUNNING]) == (RolloutState.COMPLETED, 41)
    assert trial.logs()["pi-000"] == ["packages/install"]


@in_simulated_time
async def test_version_when_a_device_is_deferred_then_the_next_one_does_not_wait_for_it() -> None:
    trial = Trial(site(*GATEWAYS))
    alone = average(GATEWAYS).model_copy(update={"after": []})
    trial.devices.devices["pi-000"].slow = 1_000_000
    await trial.begin(alone)

    async with trial.running():
        await trial.seen(lambda view: view.counts[DeviceState.DEFERRED] == 1)
        changed = clock()
        await trial.begin(alone.model_copy(update={"arguments": {"publish.rate": 10}}))
        await trial.seen(lambda view: (view.version, view.counts[DeviceState.RUNNING]) == (2, 39))

    assert (clock() - changed).total_seconds() < Rollout().step_limit_s


@in_simulated_time
async def test_uninstall_when_it_runs_then_readers_go_before_servers() -> None:
    trial = Trial(site("pi-1", "pi-2", "broker-1"))
    await trial.apply(broker(), average(["pi-1", "pi-2"]))
    order: list[str] = []
    for name, device in trial.devices.devices.items():
        device.refuses = lambda resource, name=name: order.append(f"{name} {resource}")

    await trial.plan.uninstall(command="bye")
    view = await trial.plan.run()

    assert (view.state, view.counts[DeviceState.REMOVED]) == (RolloutState.COMPLETED, 3)
    assert [step.split()[0] for step in order[-1:]] == ["broker-1"]
    assert not any(device.packages for device in trial.devices.devices.values())


@in_simulated_time
async def test_operation_when_its_task_is_uninstall_then_it_goes_also_where_no_version_brought_it() -> None:
    trial = Trial(site("pi-1"))
    device = trial.devices.devices["pi-1"]
    device.packages, device.configurations = {"average": "1"}, {"average": {}}
    gone = average(["pi-1"]).model_copy(update={"kind": TaskKind.UNINSTALL, "after": [], "arguments": {}})

    view = await trial.apply(gone)

    assert view.counts[DeviceState.REMOVED] == 1
    assert device.packages == {}


@in_simulated_time
async def test_rollback_when_asked_for_then_an_earlier_version_becomes_the_newest() -> None:
    trial = Trial(site("pi-1", "broker-1"))
    await trial.apply(broker(), average(["pi-1"]))
    await trial.apply(broker(), average(["pi-1"], **{"publish.rate": 10}))

    version = await trial.plan.rollback(command="back")
    view = await trial.plan.run()

    assert (version.version, version.again, view.state) == (3, 1, RolloutState.COMPLETED)
    assert trial.devices.devices["pi-1"].configurations["average"] == {"publish.rate": 5}


@in_simulated_time
async def test_rollback_when_there_is_no_such_version_then_is_refused() -> None:
    trial = Trial(site("pi-1", "broker-1"))
    await trial.apply(broker(), average(["pi-1"]))

    with pytest.raises(TowpathError, match="no version to go back to"):
        await trial.plan.rollback(7, command="back")


@in_simulated_time
async def test_version_when_a_newer_one_comes_while_a_step_is_open_then_nothing_is_installed_twice() -> None:
    trial = Trial(site("pi-1", "broker-1"))
    fates = iter(["deliver", "lose answer"])
    trial.devices.network = lambda device: next(fates, "deliver")
    await trial.begin(broker(), average(["pi-1"]))

    async with trial.running() as run:
        await trial.seen(lambda view: view.counts[DeviceState.QUEUED_OFFLINE] == 1)
        await trial.begin(broker(), average(["pi-1"], **{"publish.rate": 9}))
        view = await run

    assert (view.version, view.state) == (2, RolloutState.COMPLETED)
    assert trial.logs()["pi-1"] == ["packages/install", "configurations/average"]
    assert (await trial.plan.history())[-1].state is RolloutState.SUPERSEDED


@in_simulated_time
async def test_command_when_repeated_then_there_is_one_version() -> None:
    trial = Trial(site("pi-1", "broker-1"))

    first = await trial.plan.apply([broker()], Rollout(), SITES, command="c")
    second = await trial.plan.apply([broker()], Rollout(), SITES, command="c")

    assert first == second
    assert len(await trial.store.versions("p")) == 1


@in_simulated_time
async def test_controller_when_another_has_taken_over_then_it_ends() -> None:
    trial = Trial(site("pi-1", "broker-1"))
    await trial.begin(broker(), average(["pi-1"]))
    await trial.plan.status()
    await PlanController("p", trial.store, trial.devices).run()

    with pytest.raises(Superseded):
        await trial.begin(broker())


@in_simulated_time
async def test_operation_when_what_it_needs_fails_everywhere_then_the_version_stops() -> None:
    trial = Trial(site(*GATEWAYS, "broker-1"))
    trial.devices.devices["broker-1"].refuses = lambda resource: 500
    lenient = Rollout(waves=[1.0], roll_back=False)

    view = await trial.apply(broker(), average(GATEWAYS), rollout=lenient)

    assert (view.state, view.note) == (
        RolloutState.STOPPED,
        "the operations that others need run nowhere",
    )


@in_simulated_time
async def test_plan_when_it_has_no_operations_then_completes_at_once() -> None:
    view = await Trial(site()).apply()

    assert (view.state, view.devices) == (RolloutState.COMPLETED, [])


@in_simulated_time
async def test_plan_when_unknown_then_is_refused() -> None:
    with pytest.raises(TowpathError, match="no such plan"):
        await Trial(site()).plan.status()
