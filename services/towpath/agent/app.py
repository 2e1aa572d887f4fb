"""The agent's wiring: broker and engine as processes, streams, jobs, command handlers, heartbeat."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff

from towpath.agent import broker_refusals, mirror_watch, sessions
from towpath.agent.adjustments import Adjustments
from towpath.agent.artefacts import SiteArtefacts
from towpath.agent.assignments import AssignmentStore
from towpath.agent.broadcasts import Broadcasts
from towpath.agent.broker_configuration import BrokerConfiguration, config_loaded_at
from towpath.agent.containment import Containment
from towpath.agent.device_users import DeviceUsers
from towpath.agent.devices import SiteDevices
from towpath.agent.engine_client import EngineClient
from towpath.agent.engine_process import engine_child, temporary_files
from towpath.agent.engines import Engines
from towpath.agent.handlers import AgentHandlers
from towpath.agent.heartbeat import Heartbeat
from towpath.agent.jobs import Jobs
from towpath.agent.keys import Keys
from towpath.agent.metering import Metering, Probes, sources
from towpath.agent.outputs import Outputs
from towpath.agent.passing import looked_at
from towpath.agent.reception import Reception
from towpath.agent.restart import Restart
from towpath.agent.roles import Roles
from towpath.agent.settings import AgentSettings
from towpath.agent.site_metrics import SiteMetrics, ensure_metrics
from towpath.agent.standbys import Standbys
from towpath.agent.storage import Storage
from towpath.agent.unkept_events import UnkeptEvents
from towpath.agent.uplinks import Uplinks
from towpath.artefacts.shelf import Shelf
from towpath.brokers.bridged import BridgedBroker
from towpath.bus import Bus
from towpath.bus.connecting import Login
from towpath.bus.terms import Terms
from towpath.contracts.broadcast import DeliverBroadcast
from towpath.contracts.data_plane import METRICS_SUBJECT
from towpath.contracts.local_commands import AdjustJob
from towpath.contracts.message import ROOT, Command, Model, now
from towpath.contracts.metrics import Echo, ReadMetrics
from towpath.contracts.migration import (
    AssignRole,
    DropShadow,
    LaunchRetrieve,
    ObserveProgress,
    OpenShadow,
    PauseTransfer,
    ResetRole,
    ResumeJob,
    SetEpoch,
    ShipCheckpoint,
)
from towpath.contracts.site import Durability, EngineStart
from towpath.contracts.site_commands import (
    CheckSpec,
    CloseOutput,
    DropOutput,
    MeasureState,
    PrepareOutput,
    RecomputeWindow,
    ReportAssignment,
    ReportProgress,
    StartJob,
    StopJob,
    TryCode,
)
from towpath.contracts.standby import HoldMirrors, KeepStandby, PromoteOutput, TakeOver
from towpath.contracts.upgrade import RestartAgent
from towpath.contracts.uplink import ReportUplinks, SetUplinks
from towpath.hooks.extension import at_site
from towpath.mesh.broker_health import BrokerHealth
from towpath.mesh.link_probe import echo
from towpath.mesh.liveness import showing_life
from towpath.mesh.servers import keeps_events
from towpath.processes import Supervisor
from towpath.streams.gate import Gate, asking
from towpath.streams.streams import SiteStreams
from towpath.tasks import end
from towpath.telemetry.metric_store import MetricStore
from towpath.telemetry.tracing import ensure_span_streams, start_tracing

log = logging.getLogger(__name__)

ENSURE_PAUSE_S = 0.5


async def run(settings: AgentSettings) -> None:
    """Run the agent until SIGTERM. Then end its engine and broker."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    parts = _Parts(settings)
    try:
        parts.supervisor.start()
        async with (
            _connected(settings) as (bus, redis),
            # From the first moment on, because a rule may keep an engine from starting.
            at_site(settings.home.root, settings.site, bus),
            showing_life(bus),
        ):
            bus.terms = Terms(settings.home.site(settings.site) / "term")
            bus.ship(start_tracing("agent", settings.site))
            shelf = Shelf(settings.home.site_artefacts(settings.site))
            artefacts = SiteArtefacts(bus.connection, shelf, [*map(Path, settings.access.spec.engine.reads)])
            jobs = await _jobs(parts, bus, artefacts)
            reception = Reception(settings.site, redis, jobs.store, settings.access.redis.password)
            async with bus.one_subscription(f"{ROOT}.command.{settings.site}.*"):
                await _serve(settings, bus, redis, jobs, reception, artefacts)
                restart = Restart(parts.begun_at, stop.set)
                await bus.serve(RestartAgent, looked_at(restart.restart), site=settings.site)
                watched = await _watched(parts, bus, redis, jobs, reception)
            tasks = [
                asyncio.create_task(work) for work in (*watched, artefacts.watch(jobs.assignments.values))
            ]
            for task in tasks:
                task.add_done_callback(_log_failure)
            log.info("agent of %s is ready", settings.site)
            await stop.wait()
            await end(tasks)
            await reception.close_all()
    finally:
        await parts.containment.close()
        await parts.supervisor.stop()
        temporary = temporary_files(settings.home, settings.site)
        await asyncio.to_thread(shutil.rmtree, temporary, ignore_errors=True)


def _log_failure(task: asyncio.Task[None]) -> None:
    """Say that a part of the agent has failed. The others go on: jobs must not stop for it."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("%s has failed; restart the agent", task.get_coro(), exc_info=error)


class _Parts:
    """The processes of the site, as processes of this machine or in containers."""

    def __init__(self, settings: AgentSettings) -> None:
        self.settings = settings
        self.begun_at = now()
        self.containment = Containment(settings.access.spec.container, settings.home, settings.site)
        self.admits_devices = keeps_events(settings.site, settings.home)
        self.server = self.containment.server(settings.server(self.admits_devices))
        self.brokers = [self.server, *self.containment.brokers(settings.binder.create())]
        self.supervisor = Supervisor([*self.brokers, *settings.services], settings.home.run)

    async def restart_server(self) -> None:
        """Restart the site's server, which is then started by its supervisor."""
        await self.supervisor.restart(self.server.name)


async def _jobs(parts: _Parts, bus: Bus, artefacts: SiteArtefacts) -> Jobs:
    """Start the engines that jobs here need, and make the site's streams. Return the jobs."""
    settings, supervisor, containment = parts.settings, parts.supervisor, parts.containment
    spec, home, site = settings.access.spec, settings.home, settings.site
    client, child = partial(EngineClient, bus, site, artefacts), partial(engine_child, settings, containment)
    always = spec.engine.start is EngineStart.ALWAYS
    engines = Engines(supervisor, containment, client, child, site, always=always)
    durable = spec.durability is Durability.POWER_SAFE
    store = AssignmentStore(home.jobs(site), settings.engine.checkpoints, durable=durable)
    await engines.start(home.run, store.load_all().values())
    streams = SiteStreams(bus.connection, site, spec.retention)
    await Gate(bus, site, asking(bus, site)).open()
    await _until_done(streams.ensure_in)
    await _until_done(lambda: ensure_metrics(streams))
    if not parts.admits_devices:
        await supervisor.keep(containment.server(settings.server(True)))
    await _until_done(lambda: ensure_span_streams(bus.connection))
    return Jobs(store, engines, streams)


async def _serve(
    settings: AgentSettings,
    bus: Bus,
    redis: Redis,
    jobs: Jobs,
    reception: Reception,
    artefacts: SiteArtefacts,
) -> None:
    """Go on with the roles that this site has in migrations, and take commands about jobs."""
    site, streams = settings.site, jobs.streams
    roles = Roles(site, jobs, reception, redis)
    await roles.recover()
    handlers = AgentHandlers(jobs, reception, bus.publish)
    await serve(bus, site, handlers, artefacts, roles, Outputs(streams))
    standbys = Standbys(jobs, reception)
    await bus.serve(KeepStandby, looked_at(standbys.keep), site=site)
    await bus.serve(TakeOver, looked_at(standbys.take_over), site=site)
    await bus.serve(HoldMirrors, looked_at(standbys.hold_mirrors), site=site)
    await bus.serve(PromoteOutput, looked_at(standbys.promote_output), site=site)
    await bus.serve(AdjustJob, looked_at(Adjustments(site, jobs).adjust), site=site)
    await bus.serve(DeliverBroadcast, looked_at(Broadcasts(streams).deliver), site=site)


async def _watched(
    parts: _Parts, bus: Bus, redis: Redis, jobs: Jobs, reception: Reception
) -> tuple[Coroutine[Any, Any, None], ...]:
    """Take the other commands. Return the endless tasks of the site."""
    settings, supervisor = parts.settings, parts.supervisor
    access, stored_at = settings.access, settings.home.nats(settings.site)
    devices = SiteDevices(access, bus.publish)
    await devices.serve(bus)
    storage = Storage(jobs, stored_at, bus.publish)
    heartbeat = Heartbeat(
        bus, access, jobs, supervisor, settings.binder, parts.containment, storage, parts.begun_at
    )
    uplinks = await _uplinks(settings, bus, jobs.streams)
    metering = await _metering(settings, bus, jobs, lambda: supervisor.names, uplinks)
    configuration = BrokerConfiguration(
        partial(settings.server, True),
        partial(supervisor.reload, parts.server.name),
        partial(config_loaded_at, bus.connection),
    )
    holders = [reception.take_keys, devices.take_keys, settings.tell_engines]
    return (
        jobs.keep(),
        mirror_watch.watch(jobs),
        storage.watch(),
        sessions.watch(jobs.streams),
        uplinks.keep(),
        devices.watch(),
        *_device_users(parts, bus, configuration),
        heartbeat.look(),
        heartbeat.beat(),
        UnkeptEvents(jobs.streams, bus.publish).watch(),
        BrokerHealth(bus.connection, stored_at, restart=parts.restart_server).watch(),
        Keys(settings, redis, holders, configuration, parts.restart_server).watch(),
        *metering,
        settings.binder.mirror(),
        settings.binder.publish(),
    )


@contextlib.asynccontextmanager
async def _connected(settings: AgentSettings) -> AsyncIterator[tuple[Bus, Redis]]:
    credential = settings.access.login("agent")
    redis = Redis(
        host=settings.redis_host.strip("[]"),
        port=settings.redis_port,
        username=settings.access.redis.user,
        password=settings.access.redis.password,
        socket_timeout=10,
        socket_connect_timeout=3,
        retry=Retry(ExponentialBackoff(cap=1.0, base=0.05), 3),
        **(settings.access.tls.redis_options() if settings.access.tls else {}),
    )
    name = f"agent-{settings.site}"
    try:
        async with await Bus.connect(
            settings.access.nats_url, credential.user, settings.password, name=name
        ) as bus:
            yield bus, redis
    finally:
        await redis.aclose()


def _device_users(
    parts: _Parts, bus: Bus, server: BrokerConfiguration
) -> tuple[Coroutine[Any, Any, None], ...]:
    """Return the endless tasks that see to users of single devices, at a broker that the agent runs."""
    settings, brokers, site, home = parts.settings, parts.brokers, parts.settings.site, parts.settings.home
    if not settings.access.is_bridged:
        refused = broker_refusals.watch(bus, site, home.log(parts.server.name))
        return DeviceUsers(home, site, server).watch(), refused
    binder = settings.binder
    if len(brokers) > 1 and isinstance(binder, BridgedBroker) and binder.takes_in_devices:
        reload = partial(parts.supervisor.reload, brokers[1].name)
        return (DeviceUsers(home, site, BrokerConfiguration(binder.create, reload)).watch(),)
    return ()


async def _uplinks(settings: AgentSettings, bus: Bus, streams: SiteStreams) -> Uplinks:
    """Take commands about uplinks."""
    credential = settings.access.login("agent")
    login = Login(settings.access.nats_url, credential.user, settings.password)
    uplinks = Uplinks(streams, settings.home.uplinks(settings.site), login)
    await bus.serve(SetUplinks, uplinks.set_uplinks, site=settings.site)
    await bus.serve(ReportUplinks, uplinks.report, site=settings.site)
    return uplinks


async def _metering(
    settings: AgentSettings,
    bus: Bus,
    jobs: Jobs,
    children: Callable[[], Sequence[str]],
    uplinks: Uplinks,
) -> tuple[Coroutine[Any, Any, None], ...]:
    """Serve measurements of this site. Return the endless tasks that measure."""
    site, home = settings.site, settings.home
    observation = settings.access.spec.observation
    store = MetricStore(
        home.site(site) / "metrics.db", max_bytes=observation.max_bytes, max_age_s=observation.max_age_s
    )
    jetstream = bus.connection.jetstream()
    published = SiteMetrics(site, os.cpu_count() or 1, partial(jetstream.publish, METRICS_SUBJECT))
    measured = [*sources(bus, settings.access.spec, home, jobs, children), uplinks.samples]
    metering = Metering(site, store, measured, published.see)
    await bus.serve(ReadMetrics, metering.read, site=site)
    await bus.serve(Echo, echo, site=site)
    if not observation.enabled:
        return ()
    working = (metering.keep(), Probes(bus, site, home, metering.add).keep())
    every_s = observation.metrics_every_s
    return (*working, published.keep(every_s)) if every_s else working


async def _until_done(work: Callable[[], Awaitable[None]]) -> None:
    """Repeat work that a broker refuses while it starts."""
    while True:
        try:
            return await work()
        except Exception as error:
            # Devices are not admitted meanwhile.
            log.warning("the site's server is not ready: %s", error)
            await asyncio.sleep(ENSURE_PAUSE_S)


async def serve(
    bus: Bus, site: str, handlers: AgentHandlers, artefacts: SiteArtefacts, roles: Roles, outputs: Outputs
) -> None:
    """Answer the coordinator's commands."""
    table: list[tuple[type[Command[Any]], Callable[[Any], Awaitable[Model]]]] = [
        (CheckSpec, handlers.check_spec),
        (TryCode, artefacts.try_code),
        (StartJob, handlers.start_job),
        (StopJob, handlers.stop_job),
        (ReportProgress, handlers.report_progress),
        (ReportAssignment, handlers.report_assignment),
        (RecomputeWindow, handlers.recompute_window),
        (MeasureState, handlers.measure_state),
        (SetEpoch, outputs.set_epoch),
        (OpenShadow, outputs.open_shadow),
        (DropShadow, outputs.drop_shadow),
        (PrepareOutput, outputs.prepare_output),
        (CloseOutput, outputs.close_output),
        (DropOutput, outputs.drop_output),
        (AssignRole, roles.assign_role),
        (LaunchRetrieve, roles.launch_retrieve),
        (PauseTransfer, roles.pause_transfer),
        (ShipCheckpoint, roles.ship_checkpoint),
        (ResumeJob, roles.resume),
        (ObserveProgress, roles.observe),
        (ResetRole, roles.reset),
    ]
    for kind, handler in table:
        await bus.serve(kind, looked_at(handler), site=site)
