"""Put the parts of the coordinator together and run it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from nats.errors import Error as NatsError

from towpath.artefacts.hub_store import HubArtefacts
from towpath.bus import Bus, ensure_events_stream
from towpath.bus.announcements import Announcements
from towpath.bus.connecting import replicas_at
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import HUB_SCOPE, Model
from towpath.contracts.migration import StepCommand
from towpath.contracts.reading import MayRead
from towpath.contracts.site import SiteStatus
from towpath.coordinator import lost_sites, violations, without_faults
from towpath.coordinator.artefacts import Artefacts
from towpath.coordinator.broadcasts import BroadcastCommands
from towpath.coordinator.deployments.commands import PlanCommands
from towpath.coordinator.deployments.devices import MeshDevices
from towpath.coordinator.deployments.store import DeploymentStore
from towpath.coordinator.jobs.commands import JobCommands
from towpath.coordinator.jobs.operations import Operations
from towpath.coordinator.pipelines.applies import Applies
from towpath.coordinator.pipelines.commands import PipelineCommands
from towpath.coordinator.reading import Reading
from towpath.coordinator.reconciliation import Reconciliation
from towpath.coordinator.registry.jobs import Registry
from towpath.coordinator.registry.log import RegistryLog
from towpath.coordinator.registry.pipelines import PipelineStore
from towpath.coordinator.registry.recovery import RegistryCommands
from towpath.coordinator.settings import CoordinatorSettings
from towpath.coordinator.sites import Sites
from towpath.coordinator.situation import Situation
from towpath.coordinator.standbys import Standbys
from towpath.coordinator.state_store import StateStore
from towpath.coordinator.uplinks import UplinkCommands
from towpath.mesh.service_process import at_hub
from towpath.protocols.runner import Runner
from towpath.streams.gate import Gate
from towpath.tasks import end
from towpath.telemetry.tracing import ensure_span_streams

log = logging.getLogger(__name__)


async def run(settings: CoordinatorSettings, stop: asyncio.Event) -> None:
    """Coordinate until `stop` is set. The next coordinator continues operations under way."""
    async with at_hub(settings, stop) as bus:
        if bus is None:
            return
        await _patiently("EVENTS stream", lambda: ensure_events_stream(bus))
        replicas = replicas_at(bus.connection)
        await _patiently("streams of spans", lambda: ensure_span_streams(bus.connection, replicas))
        registry_log = RegistryLog(bus.connection)
        await _patiently("log of the registry", lambda: registry_log.ensure(replicas))
        registry = Registry.connect(settings, registry_log)
        try:
            await registry.bring_up()
            await _coordinate(settings, registry, bus, stop)
        finally:
            await registry.close()


async def _coordinate(
    settings: CoordinatorSettings, registry: Registry, bus: Bus, stop: asyncio.Event
) -> None:
    hub_artefacts = HubArtefacts(bus.connection)
    await _patiently("object store", lambda: hub_artefacts.ensure(replicas_at(bus.connection)))
    announcements = Announcements(bus)
    sites = Sites(settings, announcements.publish)
    operations = Operations(registry, Runner(registry, Agents(bus).send, announcements.publish))
    pipelines = PipelineStore(registry)
    root, mount = settings.artefact_root, settings.artefact_mount
    artefacts = Artefacts(hub_artefacts, mount or root, registry, pipelines, called=root)
    situation = Situation(registry, sites, bus, artefacts)
    standbys = Standbys(situation)
    job_commands = JobCommands(situation, operations, standbys)
    applies = Applies(situation, operations, pipelines, announcements.publish)
    devices = MeshDevices(bus)
    plans = PlanCommands(DeploymentStore(registry), devices, sites, announcements.publish)
    reconciliation = Reconciliation(settings, situation, operations, announcements.publish)
    try:
        async with asyncio.TaskGroup() as watches:
            await bus.subscribe(SiteStatus, sites.on_heartbeat)
            await operations.continue_unfinished()
            await applies.continue_unfinished()
            await plans.continue_unfinished()
            await job_commands.serve(bus)
            if not settings.faults:
                await without_faults.serve(bus)
            reading = Reading(registry)
            await bus.serve(MayRead, reading.decide, service="coordinator")
            await violations.watch(bus, settings.home.log)
            await Gate(bus, HUB_SCOPE, partial(reading.may_read, HUB_SCOPE)).open()
            await PipelineCommands(situation, pipelines, applies).serve(bus)
            uplinks = UplinkCommands(situation)
            await uplinks.serve(bus)
            broadcasts = BroadcastCommands(situation, announcements.publish)
            await broadcasts.serve(bus)
            await plans.serve(bus)
            await RegistryCommands(situation, pipelines).serve(bus)
            await standbys.serve(bus)
            log.info("coordinating %s", ", ".join(sites.names))
            watched = (
                sites.watch(),
                reconciliation.watch(),
                standbys.watch(),
                lost_sites.watch(settings, situation, operations),
                artefacts.watch(),
                devices.watch(),
                uplinks.watch(),
                StateStore(registry, announcements.publish).watch(),
                broadcasts.watch(),
            )
            watching = [watches.create_task(work) for work in watched]
            await stop.wait()
            await end(watching)
    finally:
        await plans.stop()
        await applies.stop()
        await operations.stop()


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
