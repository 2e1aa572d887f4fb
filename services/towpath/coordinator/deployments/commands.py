"""Answer the commands about deployment plans: one method for each."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from towpath.bus import Bus
from towpath.contracts.device_catalogue import DeviceCatalogue
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import Command, Event
from towpath.contracts.plan import DeployableOperation
from towpath.contracts.plan_commands import (
    ApplyPlan,
    ListPlans,
    PlanHistory,
    PlanList,
    PlanSummary,
    RollbackPlan,
    RolloutChanged,
    ShowPlan,
    ShowPlanHistory,
    UninstallPlan,
    UpdatePlan,
)
from towpath.contracts.plan_rollout import PlanVersion, RolloutView
from towpath.coordinator.deployments.store import DeploymentStore
from towpath.coordinator.durable_tasks import DurableTasks
from towpath.coordinator.registry.jobs import in_time
from towpath.coordinator.sites import Sites
from towpath.plans.check import check
from towpath.plans.controller import PlanController
from towpath.plans.devices import Devices
from towpath.plans.rollable import check_packages, check_unclaimed, sites_of
from towpath.protocols.runner import Superseded

log = logging.getLogger(__name__)


class PlanCommands:
    """Answers the commands about plans, and rolls their newest versions out."""

    def __init__(
        self,
        store: DeploymentStore,
        devices: Devices,
        sites: Sites,
        publish: Callable[[Event], Awaitable[None]],
    ) -> None:
        self._store = store
        self._devices = devices
        self._sites = sites
        self._publish = publish
        self._plans: dict[str, PlanController] = {}
        self._rolling = DurableTasks("plan", lambda plan: self._controller(plan).run())
        self._accepting = asyncio.Lock()
        """Lock, so that two plans are not promised the same application of a device."""

    async def serve(self, bus: Bus) -> None:
        """Listen for all commands."""
        await bus.serve(ApplyPlan, self.apply)
        await bus.serve(UpdatePlan, self.update)
        await bus.serve(UninstallPlan, self.uninstall)
        await bus.serve(RollbackPlan, self.rollback)
        await bus.serve(ShowPlan, self.show)
        await bus.serve(ListPlans, self.list_plans)
        await bus.serve(ShowPlanHistory, self.show_history)

    async def continue_unfinished(self) -> None:
        """Go on with the versions that a coordinator before this one has left unfinished."""
        for plan in await self._store.names():
            await self._controller(plan).status()
            self._go_on(plan)

    async def stop(self) -> None:
        """Stop all roll-outs. The next coordinator continues them."""
        await self._rolling.stop()

    async def apply(self, command: ApplyPlan) -> RolloutView:
        """See `ApplyPlan`."""
        plan, catalogue = command.plan, command.catalogue
        operations = check(plan, catalogue)
        check_packages(operations)
        sites = self._known_sites(operations, catalogue)
        async with self._accepting:
            for other in await in_time(self._store.names()):
                if other != plan.plan:
                    check_unclaimed(operations, await in_time(self._controller(other).fleet()))
            controller = self._controller(plan.plan)
            return await self._begin(
                plan.plan,
                controller.apply(operations, plan.rollout, sites, **_asked(command)),
            )

    def _known_sites(
        self, operations: Sequence[DeployableOperation], catalogue: DeviceCatalogue
    ) -> dict[str, str]:
        sites = sites_of(operations, catalogue)
        for device, site in sites.items():
            self._sites.check_known(site, f"catalogue.devices.{device}.place.site")
        return sites

    async def update(self, command: UpdatePlan) -> RolloutView:
        """See `UpdatePlan`."""
        controller = await self._known(command.plan)
        return await self._begin(
            command.plan,
            controller.update(command.operation, command.arguments, **_asked(command)),
        )

    async def uninstall(self, command: UninstallPlan) -> RolloutView:
        """See `UninstallPlan`."""
        controller = await self._known(command.plan)
        return await self._begin(command.plan, controller.uninstall(**_asked(command)))

    async def rollback(self, command: RollbackPlan) -> RolloutView:
        """See `RollbackPlan`."""
        controller = await self._known(command.plan)
        return await self._begin(command.plan, controller.rollback(command.version, **_asked(command)))

    async def show(self, command: ShowPlan) -> RolloutView:
        """See `ShowPlan`."""
        await self._known(command.plan)
        return await self._status(command.plan)

    async def list_plans(self, _: ListPlans) -> PlanList:
        """See `ListPlans`."""
        views = [await self._status(plan) for plan in await in_time(self._store.names())]
        return PlanList(
            plans=[
                PlanSummary(plan=view.plan, version=view.version, state=view.state, counts=view.counts)
                for view in views
            ]
        )

    async def show_history(self, command: ShowPlanHistory) -> PlanHistory:
        """See `ShowPlanHistory`."""
        return PlanHistory(versions=await in_time((await self._known(command.plan)).history()))

    async def _begin(self, plan: str, beginning: Awaitable[PlanVersion]) -> RolloutView:
        try:
            await in_time(beginning)
        except Superseded as error:
            del self._plans[plan]  # Its memory is not that of the registry any more.
            raise TowpathError(
                ErrorCode.BUSY, "another coordinator has changed this plan", field="plan", value=plan
            ) from error
        return await self._status(plan)

    async def _status(self, plan: str) -> RolloutView:
        """Return how a roll-out is doing. One that no one executes goes on: its version may have been stored
        after the registry's answer was given up."""
        view = await in_time(self._controller(plan).status())
        self._go_on(plan)
        return view

    async def _known(self, plan: str) -> PlanController:
        known = await in_time(self._store.names())
        if plan not in known:
            raise TowpathError.unknown("plan", plan, known)
        return self._controller(plan)

    def _controller(self, plan: str) -> PlanController:
        if plan not in self._plans:
            self._plans[plan] = PlanController(plan, self._store, self._devices, self._tell)
        return self._plans[plan]

    def _go_on(self, plan: str) -> None:
        if not self._controller(plan).is_over:
            self._rolling.start(plan)

    async def _tell(self, view: RolloutView) -> None:
        counts = {state: count for state, count in view.counts.items() if count}
        fields = view.model_dump(include={"plan", "version", "kind", "state", "wave", "waves", "note"})
        await self._publish(RolloutChanged(**fields, counts=counts))


def _asked(command: Command[Any]) -> dict[str, Any]:
    """Return what a version says of the command that makes it."""
    return {"command": command.id, "asked_by": command.asked_by}
