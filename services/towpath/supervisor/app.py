"""The wiring of a local mesh: its processes, their order, and their end."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import signal
import sys
from dataclasses import replace

from towpath.contracts.errors import TowpathError
from towpath.contracts.message import HUB_SCOPE
from towpath.mesh.home import Home
from towpath.mesh.servers import hub_server, port_open, redis_server
from towpath.mesh.state import MeshState, reachable
from towpath.processes import ChildSpec, Supervisor

log = logging.getLogger(__name__)

AGENT_STOP_S = 8.0
"""Time for an agent to end its engine, which commits or interrupts a micro-batch, and then its broker."""

SERVICE_STOP_S = 2.0
"""Time for services and servers. They keep everything on disk and can end at any moment.

With the agents' time this stays within the ten seconds in which a mesh must be down."""


def children(state: MeshState, home: Home) -> list[ChildSpec]:
    """Return all processes, servers first. Writes the servers' configurations."""
    root, needed = state.spec.artefact_root or "", ("hub", "redis")
    coordinator = service("coordinator", ["towpath.coordinator"], state, home, after=needed, version=root)
    api = _api(state, home)
    links = [_links(state, home)] if state.spec.emulate_links else []
    monitor = service("monitor", ["towpath.monitor"], state, home, after=("hub",))
    faults = state.spec.faults.enabled
    injector = [service("injector", ["towpath.lab.injector"], state, home, after=("hub",))] if faults else []
    collector = service("collector", ["towpath.collector"], state, home, after=("hub",))
    agents = [
        service(
            agent_name(site),
            ["towpath.agent", "--site", site],
            state,
            home,
            scope=site,
            after=("coordinator", *(child.name for child in links)),
            stop_s=AGENT_STOP_S,
            version=_version(
                access.model_dump_json(), repr(state.leaf_remote(access)), repr(state.redis_remote(access))
            ),
        )
        for site, access in state.sites.items()
    ]
    servers = [hub_server(state, home), redis_server(state, home)]
    return [*servers, coordinator, monitor, *injector, collector, api, *links, *agents]


def _api(state: MeshState, home: Home) -> ChildSpec:
    version = _version(state.spec.listen, str(state.spec.api_port), state.api_token, state.hub_url)

    async def ready() -> bool:
        return await port_open(reachable(state.spec.listen), state.spec.api_port)

    child = service("api", ["towpath.api"], state, home, after=("coordinator",), version=version)
    return replace(child, ready=ready)


def _links(state: MeshState, home: Home) -> ChildSpec:
    ports = {site: (access.link_port, access.link_redis_port) for site, access in state.sites.items()}
    version = _version(repr(ports), str(state.leaf_port), str(state.redis_port), state.spec.listen)

    async def ready() -> bool:
        return await port_open(state.links_host, next(iter(ports.values()))[-1])

    child = service("links", ["towpath.lab.links"], state, home, after=("hub",), version=version)
    return replace(child, ready=ready)


def _version(*settings: str) -> str:
    """Return a digest of the settings that a process read. It is restarted when they change."""
    return hashlib.sha256("\n".join(settings).encode()).hexdigest()[:16]


def agent_name(site: str) -> str:
    """Return the process name of a site's agent."""
    return f"{site}-agent"


def service(
    name: str,
    module: list[str],
    state: MeshState,
    home: Home,
    *,
    after: tuple[str, ...],
    scope: str = HUB_SCOPE,
    stop_s: float = SERVICE_STOP_S,
    version: str = "",
) -> ChildSpec:
    """Return a service of Towpath as a process: this interpreter and home, and the mesh's hooks."""
    environment = state.process_environment(home, scope, name)
    return ChildSpec(
        name=name,
        command=(sys.executable, "-m", *module, "--home", str(home.root)),
        log=home.log(name),
        environment={"PYTHONUNBUFFERED": "1", **environment},
        after=after,
        stop_s=stop_s,
        version=_version(version, "faults") if environment else version,
    )


async def run(home: Home) -> None:
    """Keep the mesh running until SIGTERM or SIGINT, then end everything in reverse order.

    SIGHUP reads the saved mesh again: new sites start, and changed servers restart. Raises `TowpathError`
    when there is no mesh under `home`.
    """
    signals: asyncio.Queue[signal.Signals] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, signals.put_nowait, number)
    async with Supervisor(children(MeshState.load(home), home), home.run) as supervisor:
        while await signals.get() is signal.SIGHUP:
            await _reload(supervisor, home)
        log.info("ending")
    log.info("ended")


async def _reload(supervisor: Supervisor, home: Home) -> None:
    log.info("reading the mesh again")
    try:
        await supervisor.apply(children(MeshState.load(home), home))
    except TowpathError as error:
        log.error("the saved mesh was not applied: %s", error)
