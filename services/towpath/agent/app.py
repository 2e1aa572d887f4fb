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
from towpath.agent.containment import Containment
from towpath.agent.device_users import DeviceUsers, config_loaded_at
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
from towpath.agent.roles import Roles
from towpath.agent.settings import AgentSettings
from towpath.agent.site_metrics import SiteMetrics, ensure_metrics
from towpath.agent.storage import Storage
from towpath.agent.unkept_events import UnkeptEvents
from towpath.agent.uplinks import Uplinks
from towpath.artefacts.shelf import Shelf
from towpath.brokers.bridged import BridgedBroker
from towpath.bus import Bus
from towpath.bus.connecting import Login
from towpath.contracts.broadcast import DeliverBroadcast
from towpath.contracts.data_plane import METRICS_SUBJECT
from towpath.contracts.local_commands import AdjustJob
from towpath.contracts.message import Command, Model
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
from towpath.contracts.uplink import ReportUplinks, SetUplinks
from towpath.hooks.extension import at_site
from towpath.mesh.broker_health import BrokerHealth
from towpath.mesh.link_probe import echo
from towpath.mesh.liveness import showing_life
from towpath.mesh.servers import keeps_events
from towpath.processes import ChildSpec, Supervisor
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
    containment = Containment(settings.access.spec.container, settings.home, settings.site)
    admits_devices = keeps_events(settings.site, settings.home)
    server = containment.server(settings.server(admits_devices))
    brokers = [server, *containment.brokers(settings.binder.create())]
    supervisor = Supervisor([*brokers, *settings.services], settings.home.run)
    try:
        supervisor.start()
        async with (
            _connected(settings) as (bus, redis),
            # From the first moment on, because a rule may keep an engine from starting.
            at_site(settings.home.root, settings.site, bus),
            showing_life(bus),
        ):
            bus.ship(start_tracing("agent", settings.site))
            shelf = Shelf(settings.home.site_artefacts(settings.site))
            artefacts = SiteArtefacts(bus.connection, shelf, [*map(Path, settings.access.spec.engine.reads)])
            client = partial(EngineClient, bus, settings.site, artefacts)
            child = partial(engine_child, settings, containment)
            always = settings.access.spec.engine.start is EngineStart.ALWAYS
            engines = Engines(supervisor, containment, client, child, settings.site, always=always)
            durable = settings.access.spec.durability is Durability.POWER_SAFE
            jobs_at, checkpoints = settings.home.jobs(settings.site), settings.engine.checkpoints
            store = AssignmentStore(jobs_at, checkpoints, durable=durable)
            await engines.start(settings.home.run, store.load_all().values())
            streams = SiteStreams(bus.connection, settings.site, settings.access.spec.retention)
            await Gate(bus, settings.site, asking(bus, settings.site)).open()
            await _until_done(streams.ensure_in)
            await _until_done(lambda: ensure_metrics(streams))
            if not admits_devices:
                await supervisor.keep(containment.server(settings.server(True)))
            await _until_done(lambda: ensure_span_streams(bus.connection))
            jobs = Jobs(store, engines, streams)
            reception = Reception(settings.site, redis, jobs.store, settings.access.redis.password)
            roles = Roles(settings.site, jobs, reception, redis)
            await roles.recover()
            handlers = AgentHandlers(jobs, reception, bus.publish)
            await serve(bus, settings.site, handlers, artefacts, roles, Outputs(streams))
            adjust = looked_at(Adjustments(settings.site, jobs).adjust)
            await bus.serve(AdjustJob, adjust, site=settings.site)
            deliver = looked_at(Broadcasts(streams).deliver)
            await bus.serve(DeliverBroadcast, deliver, site=settings.site)
            devices = SiteDevices(settings.access, bus.publish)
            await devices.serve(bus)
            storage = Storage(jobs, settings.home.nats(settings.site), bus.publish)
            heartbeat = Heartbeat(
                bus, settings.access, jobs, supervisor, settings.binder, containment, storage
            )
            restart = partial(supervisor.restart, server.name)
            health = BrokerHealth(bus.connection, settings.home.nats(settings.site), restart=restart)
            tidying = artefacts.watch(jobs.assignments.values)
            users = _device_users(settings, supervisor, brokers, bus)
            uplinks = await _uplinks(settings, bus, streams)
            metering = await _metering(settings, bus, jobs, lambda: supervisor.names, uplinks)
            bridge = (settings.binder.mirror(), settings.binder.publish())
            signs = (heartbeat.look(), heartbeat.beat(), UnkeptEvents(streams, bus.publish).watch())
            mirroring = mirror_watch.watch(jobs)
            keys = Keys(
                settings, redis, [reception.take_keys, devices.take_keys, settings.tell_engines], restart
            )
            watched = (
                jobs.keep(),
                mirroring,
                storage.watch(),
                sessions.watch(streams),
                uplinks.keep(),
                devices.watch(),
                *users,
                *signs,
                health.watch(),
                keys.watch(),
                tidying,
                *metering,
                *bridge,
            )
            tasks = [asyncio.create_task(work) for work in watched]
            log.info("agent of %s is ready", settings.site)
            await stop.wait()
            await end(tasks)
            await reception.close_all()
    finally:
        await containment.close()
        await supervisor.stop()
        temporary = temporary_files(settings.home, settings.site)
        await asyncio.to_thread(shutil.rmtree, temporary, ignore_errors=True)


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
    settings: AgentSettings, supervisor: Supervisor, brokers: Sequence[ChildSpec], bus: Bus
) -> tuple[Coroutine[Any, Any, None], ...]:
    """Return the endless tasks that see to users of single devices, at a broker that the agent runs."""
    site, home = settings.site, settings.home
    if not settings.access.is_bridged:
        write, loaded = partial(settings.server, True), partial(config_loaded_at, bus.connection)
        reload = partial(supervisor.reload, brokers[0].name)
        refused = broker_refusals.watch(bus, site, home.log(brokers[0].name))
        return DeviceUsers(home, site, write, reload, loaded).watch(), refused
    binder = settings.binder
    if len(brokers) > 1 and isinstance(binder, BridgedBroker) and binder.takes_in_devices:
        reload = partial(supervisor.reload, brokers[1].name)
        return (DeviceUsers(home, site, binder.create, reload).watch(),)
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
