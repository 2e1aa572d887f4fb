"""The wiring of the supervisor: the processes of a mesh, their order, and their end."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from towpath.bus import Bus
from towpath.contracts.errors import TowpathError
from towpath.contracts.site import HubNode
from towpath.mesh.broker_health import BrokerHealth
from towpath.mesh.home import Home
from towpath.mesh.servers import hub_servers, redis_door, redis_server
from towpath.mesh.service_child import service_child
from towpath.mesh.service_table import services
from towpath.mesh.state import MeshState
from towpath.processes import ChildSpec, Supervisor
from towpath.supervisor.admission import admit
from towpath.tasks import end

log = logging.getLogger(__name__)

AGAIN_S = 10.0
"""Until the saved mesh is read again, if it could not be, or a configuration could not be written."""


def children(state: MeshState, home: Home) -> list[ChildSpec]:
    """Return all processes of this machine, servers first. Writes the servers' configurations."""
    started = [s for s in services().values() if s.runs(state.spec) and not s.started_by_agent]
    at_sites = [
        service_child(service, state, home, site)
        for service in started
        if service.one_per_site
        for site in state.sites_here
    ]
    if state.spare is not None:
        coordinator = service_child(services()["coordinator"], state, home, number=state.spare)
        return [redis_server(state, home), coordinator]
    if state.joined is not None:
        return [replace(child, after=()) for child in at_sites]  # What they come after is at the hub.
    shared = [
        service_child(service, state, home, number=number)
        for service in started
        if not service.one_per_site
        for number in range(1, service.count(state.spec) + 1)
    ]
    doors = [redis_door(state, home)] if state.tls else []
    return [*hub_servers(state, home), redis_server(state, home), *doors, *shared, *at_sites]


async def run(home: Home) -> None:
    """Keep the mesh running until SIGTERM or SIGINT, then end everything in reverse order.

    SIGHUP reads the saved mesh again: new sites start, and changed servers restart. Raises `TowpathError`
    when there is no mesh under `home`.
    """
    signals: asyncio.Queue[signal.Signals] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, signals.put_nowait, number)
    state = MeshState.load(home)
    async with Supervisor(children(state, home), home.run) as supervisor:
        reload = partial(signals.put_nowait, signal.SIGHUP)
        watch = _HubWatch(home, supervisor, reload)
        await watch.follow(state)
        try:
            while await signals.get() is signal.SIGHUP:
                await _reload(supervisor, home, watch, reload)
        finally:
            await watch.end()
        log.info("ending")
    log.info("ended")


class _HubWatch:
    """Lets machines join, and watches the servers of the hub that run here."""

    def __init__(self, home: Home, supervisor: Supervisor, reload: Callable[[], None]) -> None:
        self._home = home
        self._supervisor = supervisor
        self._reload = reload
        self._followed: tuple[object, ...] = ()
        self._tasks: list[asyncio.Task[None]] = []

    async def follow(self, state: MeshState) -> None:
        """Go on with the addresses and users of a mesh as it is saved now."""
        if not state.has_services:
            return
        followed = (state.hub_url, state.hub_nodes, state.authority, state.operator, state.supervisor)
        if followed == self._followed:
            return  # A restart would cost a joining machine one attempt.
        await self.end()
        watched = [_watch_node(node, state, self._home, self._supervisor) for node in state.hub_nodes]
        admitting = admit(state, self._home, self._reload)
        self._tasks = [asyncio.create_task(work) for work in (*watched, admitting)]
        self._followed = followed

    async def end(self) -> None:
        """Watch no longer."""
        await end(self._tasks)


async def _watch_node(node: HubNode, state: MeshState, home: Home, supervisor: Supervisor) -> None:
    """Restart a server of the hub when its disk was full, as an agent does with its site's."""
    operator, restart = state.operator, partial(supervisor.restart, node.name)
    url, user, password, tls = state.node_url(node), operator.user, operator.password, state.hub_tls()
    async with await Bus.connect(url, user, password, name="supervisor", tls=tls) as bus:
        await BrokerHealth(bus.connection, home.hub_node(node.name), restart=restart).watch()


async def _reload(supervisor: Supervisor, home: Home, watch: _HubWatch, again: Callable[[], None]) -> None:
    log.info("reading the mesh again")
    try:
        state = MeshState.load(home)
        await supervisor.apply(children(state, home))
        await watch.follow(state)
    except TowpathError as error:
        log.error("the saved mesh was not applied: %s", error)
    except OSError as error:  # A full disk must not end what runs.
        log.error("the saved mesh cannot be applied now, and is read again in %g s: %s", AGAIN_S, error)
        asyncio.get_running_loop().call_later(AGAIN_S, again)
