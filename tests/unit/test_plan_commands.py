"""Commands about plans, and the roll-outs that they begin."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from running.waiting import eventually
from simulation.plan_devices import SimulatedDevice, SimulatedDevices
from simulation.plan_store import MemoryPlanStore
from towpath.contracts.plan import DeployableOperation, Package, Rollout, TaskKind
from towpath.contracts.plan_commands import ShowPlan
from towpath.contracts.plan_rollout import RolloutState
from towpath.coordinator.deployments.commands import PlanCommands
from towpath.plans.controller import PlanController


class Store(MemoryPlanStore):
    async def names(self) -> list[str]:
        return ["p"]


async def test_plan_when_its_version_was_stored_and_no_one_learnt_of_it_then_the_next_look_goes_on() -> None:
    """The registry's answer may come too late for a command that has given up."""
    store, devices = Store(), SimulatedDevices({"pi": SimulatedDevice()})
    operation = DeployableOperation(
        operation="thin",
        application="thin",
        kind=TaskKind.INSTALL,
        order=1,
        package=Package(name="thin.dp", version="1", url="https://packages.example.org/thin.dp"),
        arguments={},
        devices=["pi"],
    )
    await PlanController("p", store, devices).apply([operation], Rollout(), {"pi": "jfk"}, command="c")

    async def publish(_: Any) -> None: ...

    commands = PlanCommands(cast("Any", store), devices, cast("Any", SimpleNamespace()), publish)
    try:
        assert (await commands.show(ShowPlan(plan="p"))).state is RolloutState.RUNNING

        async def is_complete() -> bool:
            return (await commands.show(ShowPlan(plan="p"))).state is RolloutState.COMPLETED

        await eventually(is_complete)
    finally:
        await commands.stop()
