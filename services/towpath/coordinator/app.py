"""Put the parts of the coordinator together and run it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

from nats.errors import Error as NatsError

from towpath.artefacts.hub_gate import ArtefactGate
from towpath.artefacts.hub_store import STREAM as ARTEFACTS
from towpath.artefacts.hub_store import HubArtefacts
from towpath.bus import Bus, ensure_events_stream
from towpath.bus.announcements import Announcements
from towpath.bus.connecting import replicas_at
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import HUB_SCOPE, Model
from towpath.contracts.migration import StepCommand
from towpath.contracts.reading import MayRead
from towpath.contracts.site import MOST_COORDINATORS, SiteStatus
from towpath.coordinator import followed_outputs, lost_sites, violations, without_faults
from towpath.coordinator.artefacts import Artefacts
from towpath.coordinator.broadcasts import BroadcastCommands
from towpath.coordinator.deployments.commands import PlanCommands
from towpath.coordinator.deployments.devices import MeshDevices
from towpath.coordinator.deployments.store import DeploymentStore
from towpath.coordinator.jobs.commands import JobCommands
from towpath.coordinator.jobs.operations import Operations
from towpath.coordinator.leadership import Leadership, leader_is_silent
from towpath.coordinator.pipelines.applies import Applies
from towpath.coordinator.pipelines.commands import PipelineCommands
from towpath.coordinator.reading import Reading
from towpath.coordinator.reconciliation import Reconciliation
from towpath.coordinator.registry.jobs import Registry
from towpath.coordinator.registry.log import RegistryLog
from towpath.coordinator.registry.pipelines import PipelineStore
from towpath.coordinator.registry.recovery import RegistryCommands
from towpath.coordinator.restarts import Restarts
from towpath.coordinator.settings import CoordinatorSettings
from towpath.coordinator.sites import Sites
from towpath.coordinator.situation import Situation
from towpath.coordinator.standbys import Standbys
from towpath.coordinator.state_store import StateStore
from towpath.coordinator.uplinks import UplinkCommands
from towpath.mesh.service_process import at_hub
from towpath.mesh.services.coordinator import COORDINATOR
from towpath.protocols.runner import Runner
from towpath.streams.gate import Gate
from towpath.tasks import end, one_is_set, unless
from towpath.telemetry.tracing import ensure_span_streams

log = logging.getLogger(__name__)


async def run(settings: CoordinatorSettings, stop: asyncio.Event) -> None:
    """Coordinate until `stop` is set, or another coordinator leads. If there are several, first wait as a
    spare. The next coordinator continues operations under way."""
    async with at_hub(settings, stop) as bus:
        if bus is None:
            return
        name = COORDINATOR.process(HUB_SCOPE, settings.number)
        if settings.coordinators > 1:
            waiting = leader_is_silent(
                bus, name, is_first=settings.number == 1, gives_way_to=partial(_gives_way, settings.number)
            )
            await unless(stop.wait(), waiting)
        if stop.is_set():
            return
        await _patiently("EVENTS stream", lambda: ensure_events_stream(bus))
        replicas = replicas_at(bus.connection)
        await _patiently("streams of spans", lambda: ensure_span_streams(bus.connection, replicas))
        registry_log = RegistryLog(bus.connection)
        await _patiently("log of the registry", lambda: registry_log.ensure(replicas))
        registry = Registry.connect(settings, registry_log)
        leadership = Leadership(name, registry, bus, Announcements(bus).publish)
        ended = partial(one_is_set, stop, registry.superseded)
        try:
            await unless(ended(), leadership.begin())
            await _coordinate(settings, registry, leadership, bus, ended)
        finally:
            await registry.close()


def _gives_way(number: int, leader: str) -> bool:
    """Tell if the coordinator of this number waits while another one leads.

    Those beside the other services do not wait for a spare on another machine, which has less.
    """
    beside = (COORDINATOR.process(HUB_SCOPE, each) for each in range(1, MOST_COORDINATORS + 1))
    return number > MOST_COORDINATORS or leader in beside


class _Parts:
    """The parts of a coordinator."""

    def __init__(self, settings: CoordinatorSettings, registry: Registry, bus: Bus) -> None:
        publish = Announcements(bus).publish
        self.sites = Sites(settings, publish)
        self.operations = Operations(registry, Runner(registry, Agents(bus).send, publish))
        self.pipelines = PipelineStore(registry)
        root, mount = settings.artefact_root, settings.artefact_mount
        self.hub_artefacts = HubArtefacts(bus.connection)
        self.artefacts = Artefacts(self.hub_artefacts, mount or root, registry, self.pipelines, called=root)
        self.situation = Situation(registry, self.sites, bus, self.artefacts)
        self.standbys = Standbys(self.situation)
        self.applies = Applies(self.situation, self.operations, self.pipelines, publish)
        self.devices = MeshDevices(bus)
        self.plans = PlanCommands(DeploymentStore(registry), self.devices, self.sites, publish)
        self.uplinks = UplinkCommands(self.situation)
        self.broadcasts = BroadcastCommands(self.situation, publish)
        self.reconciliation = Reconciliation(settings, self.situation, self.operations, publish)
        self.state_store = StateStore(registry, publish)

    async def begin(self, settings: CoordinatorSettings, bus: Bus) -> None:
        """Hear of the sites, go on with what the coordinator before has left under way, and take commands."""
        await bus.subscribe(SiteStatus, self.sites.on_heartbeat)
        self.sites.listening()
        await self.operations.continue_unfinished()
        await self.applies.continue_unfinished()
        await self.plans.continue_unfinished()
        await self._serve(settings, bus)
        log.info("coordinating %s", ", ".join(self.sites.names))

    async def _serve(self, settings: CoordinatorSettings, bus: Bus) -> None:
        await JobCommands(self.situation, self.operations, self.standbys).serve(bus)
        if not settings.faults:
            await without_faults.serve(bus)
        reading = Reading(self.situation.registry)
        await bus.serve(MayRead, reading.decide, service="coordinator")
        await violations.watch(bus, settings.home.log)
        readable = {ARTEFACTS: ArtefactGate(bus.connection).obstacle}
        await Gate(bus, HUB_SCOPE, partial(reading.may_read, HUB_SCOPE), readable).open()
        await PipelineCommands(self.situation, self.pipelines, self.applies).serve(bus)
        await self.uplinks.serve(bus)
        await self.broadcasts.serve(bus)
        await self.plans.serve(bus)
        await RegistryCommands(self.situation, self.pipelines).serve(bus)
        await self.standbys.serve(bus)
        await Restarts(self.situation).serve(bus)

    def watched(self, settings: CoordinatorSettings) -> tuple[Coroutine[Any, Any, None], ...]:
        """Return the endless tasks."""
        return (
            self.sites.watch(),
            self.reconciliation.watch(),
            self.standbys.watch(),
            lost_sites.watch(settings, self.situation, self.operations),
            followed_outputs.watch(self.situation, self.operations),
            self.artefacts.watch(),
            self.devices.watch(),
            self.uplinks.watch(),
            self.state_store.watch(),
            self.broadcasts.watch(),
        )

    async def stop(self) -> None:
        """Leave what is under way to the next coordinator."""
        await self.plans.stop()
        await self.applies.stop()
        await self.operations.stop()


async def _coordinate(
    settings: CoordinatorSettings,
    registry: Registry,
    leadership: Leadership,
    bus: Bus,
    ended: Callable[[], Coroutine[Any, Any, None]],
) -> None:
    parts = _Parts(settings, registry, bus)
    await leadership.serve()
    await _patiently("object store", lambda: parts.hub_artefacts.ensure(replicas_at(bus.connection)))
    try:
        await unless(ended(), parts.begin(settings, bus))
        async with asyncio.TaskGroup() as watches:
            watching = [watches.create_task(work) for work in parts.watched(settings)]
            await ended()
            # Not left to the group, which cancels once: see `end`.
            await end(watching)
    finally:
        await parts.stop()


async def _patiently(what: str, make: Callable[[], Awaitable[None]]) -> None:
    """Make something at the hub. Wait for a hub that is still starting."""
    while True:
        try:
            async with asyncio.timeout(10):
                return await make()
        except (NatsError, OSError) as error:
            log.warning("no %s yet: %s", what, error)
            await asyncio.sleep(0.5)


class Agents:
    """Sends the runner's commands to the agents of the sites and to the monitor."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def send(self, command: StepCommand[Any], *, deadline_s: float, attempt_s: float) -> Model:
        """See `towpath.protocols.asking.Send`."""
        try:
            # The command belongs to the span of its step, which outlives this coordinator.
            return await self._bus.request(
                command, deadline_s=deadline_s, attempt_s=attempt_s, own_span=False
            )
        except (NatsError, OSError) as error:
            raise TowpathError(ErrorCode.UNREACHABLE, f"{type(error).__name__}: {error}") from error
