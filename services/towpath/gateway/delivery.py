"""Send each result to its site. The site changes at one number, so no result has two.

A gateway may be told several sites. Its group has one of them, see `towpath.gateways.spreading`. When the
sites change, results from the next number on go to the new site at once. Those before go to the old site as
soon as it can be reached. If the gateway is killed, it sends results again to where it sent them first. So if
each site counts a number once, all sites together do.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from towpath import tasks
from towpath.atomic_write import write_atomically
from towpath.contracts.gateway import Delivery, DeliverySite
from towpath.gateway.connecting import keep_connected
from towpath.gateway.settings import GatewaySettings
from towpath.gateways.control import check_name
from towpath.gateways.forwarding import Forwarder
from towpath.gateways.result_log import ResultLog
from towpath.gateways.spreading import site_of
from towpath.mqtt.broker_address import BrokerAddress
from towpath.mqtt.connection import MqttConnection

log = logging.getLogger(__name__)

OWN = ""
"""The gateway's own site, as long as it was told no other."""

_LOOK_EVERY_S = 1.0


class Route(msgspec.Struct, frozen=True):
    """The site that takes results beyond a number, up to that of the next route."""

    after: int
    site: str


class Routes(msgspec.Struct, frozen=True):
    """Content of `delivery.json`."""

    routes: list[Route]
    """In the order of numbers. The last one takes all that is still to come."""
    sites: dict[str, DeliverySite] = {}
    """Sites of these routes, and those to choose from."""
    chosen_from: list[str] = []


def rerouted(routes: Sequence[Route], last: int, site: str) -> list[Route]:
    """Return the routes if results beyond the number `last` go to a site. Pure.

    A route without results is left out, so a repetition changes nothing.
    """
    kept = [route for route in routes if route.after < last]
    return kept if kept and kept[-1].site == site else [*kept, Route(last, site)]


def _present(routes: Sequence[Route], last: int) -> list[Route]:
    """Return routes as they were kept for a log that ends at `last` now. Pure.

    Nothing waits before the first route. A log that was lost, or the end of it, has its numbers again: new
    results go by the last route.
    """
    found = [Route(0, routes[0].site), *(Route(min(each.after, last), each.site) for each in routes[1:])]
    return [each for each, following in pairwise(found) if each.after < following.after] + found[-1:]


class DeliveryRoutes:
    """Owns the routes, and the connections to other sites than the gateway's own."""

    def __init__(self, settings: GatewaySettings, own: BrokerAddress, results: ResultLog, path: Path) -> None:
        """`own` is the gateway's own broker, `path` the file that keeps the routes."""
        self._settings = settings
        self._own = own
        self._log = results
        self._path = path
        self._state = Routes([Route(0, OWN)])
        if path.exists():
            read = msgspec.json.decode(path.read_bytes(), type=Routes)
            self._state = msgspec.structs.replace(read, routes=_present(read.routes, results.last))
            if self._state.routes[1:] != read.routes[1:]:  # Numbers begin again, and reach those of before.
                try:
                    write_atomically(path, msgspec.json.encode(self._state))
                except OSError as error:
                    log.warning("the routes of a log that was lost are not kept: %s", error)
        self._forwarders: dict[Route, Forwarder] = {}
        self._connections: dict[str, MqttConnection] = {}
        self._changed = asyncio.Event()
        self._arrange()

    @property
    def site(self) -> str | None:
        """The site that takes the newest results; None if the gateway was told no sites."""
        return self._state.routes[-1].site or None

    def change(self, wanted: Delivery) -> dict[str, Any]:
        """Let results from the next one on go to the site of the group. Return how it is then.

        It is on the disk when this returns. Raises `Refusal` and `OSError`.
        """
        for name in wanted.sites:
            check_name("body.sites", name)
        weights = {name: site.weight for name, site in wanted.sites.items()}
        site = site_of(self._settings.group or self._settings.device, weights) if weights else OWN
        self._keep(
            Routes(
                rerouted(self._state.routes, self._log.last, site),
                self._state.sites | wanted.sites,
                sorted(wanted.sites),
            )
        )
        log.info("results beyond %d go to %s", self._log.last, site or "the gateway's own site")
        return self.described()

    def described(self) -> dict[str, Any]:
        """Return the site and the routes, with the results that wait on each."""
        return {
            "site": self.site,
            "group": self._settings.group or self._settings.device,
            "sites": {name: self._state.sites[name].weight for name in self._state.chosen_from},
            "routes": [
                {
                    "site": route.site or None,
                    "after": route.after,
                    "waiting": self._log.waiting(route.after, forwarder.through),
                    "refusal": forwarder.refusal,
                }
                for route, forwarder in self._forwarders.items()
            ],
        }

    async def run(self) -> None:
        """Deliver to other sites, until cancelled."""
        links: dict[tuple[str, BrokerAddress], asyncio.Task[None]] = {}
        try:
            while True:
                wanted = {(each, self._address(each)) for each in self._others()}
                for each in wanted - links.keys():
                    links[each] = asyncio.create_task(self._deliver(*each), name=f"delivery to {each[0]}")
                await tasks.end([links.pop(each) for each in links.keys() - wanted])
                changing = asyncio.create_task(self._changed.wait())
                await asyncio.wait({changing, *links.values()}, return_when=asyncio.FIRST_COMPLETED)
                await tasks.end([changing])
                for each in links.values():
                    if each.done():
                        each.result()  # Raises: it does not end by itself.
                self._changed.clear()
        finally:
            await tasks.end([*links.values()])

    def wake(self) -> None:
        """Let the connections look for something to send."""
        for connection in self._connections.values():
            connection.wake()

    def connected(self, site: str = OWN) -> None:
        """Begin with a new connection: what was in flight is sent again."""
        for forwarder in self._of(site):
            forwarder.connected()

    def send(self, connection: MqttConnection, site: str = OWN) -> None:
        """Hand over as many results as may be in flight. Returns at once."""
        forwarders = self._of(site)
        for each in forwarders:
            beside = sum(other.in_flight for other in forwarders if other is not each)
            each.send(connection, beside=beside)
        self._forget_done()

    def _others(self) -> set[str]:
        return {self._reached_as(route.site) for route in self._forwarders} - {OWN}

    async def _deliver(self, site: str, address: BrokerAddress) -> None:
        name = f"gateway-{self._settings.account}-{self._settings.device}-results"

        async def serve(connection: MqttConnection) -> None:
            self.connected(site)
            self._connections[site] = connection
            log.info("connected to %s at %s", site, address)
            try:
                while True:
                    self.send(connection, site)
                    connection.flush()
                    connection.check()
                    await connection.wait_for_news(_LOOK_EVERY_S)
            finally:
                del self._connections[site]

        await keep_connected(lambda: MqttConnection(address, name, session=False), serve)

    def _of(self, site: str) -> list[Forwarder]:
        return [each for route, each in self._forwarders.items() if self._reached_as(route.site) == site]

    def _reached_as(self, site: str) -> str:
        """Return the site, or `OWN` if its broker is that of the gateway's own site."""
        if site == OWN:
            return OWN
        address = self._state.sites[site]
        return OWN if (address.host, address.port) == (self._own.host, self._own.port) else site

    def _address(self, site: str) -> BrokerAddress:
        fields = msgspec.structs.asdict(self._state.sites[site])
        del fields["weight"]
        return BrokerAddress(**fields)

    def _forget_done(self) -> None:
        """Forget routes whose results have all been delivered or dropped."""
        done = {
            route
            for route, forwarder in self._forwarders.items()
            if forwarder.through is not None and not self._log.waiting(route.after, forwarder.through)
        }
        if done:
            # A kill before the log has noted the last deliveries sends them again: by the route that is left.
            self._log.save()
            left = [route for route in self._state.routes if route not in done]
            self._keep(msgspec.structs.replace(self._state, routes=left))

    def _keep(self, state: Routes) -> None:
        needed = {*state.chosen_from, *(route.site for route in state.routes)}
        sites = {name: site for name, site in state.sites.items() if name in needed}
        state = msgspec.structs.replace(state, sites=sites)
        if state != self._state:
            write_atomically(self._path, msgspec.json.encode(state))
            self._state = state
        self._arrange()
        self._changed.set()
        self.wake()

    def _arrange(self) -> None:
        """Give each route a forwarder, and each forwarder the number at which it ends."""
        routes = self._state.routes
        ends = [following.after for _, following in pairwise(routes)]
        live_first = self._settings.store.order == "live-first"
        self._forwarders = {
            route: self._forwarders.get(route)
            or Forwarder(self._log, self._settings.device, live_first=live_first, after=route.after)
            for route in routes
        }
        for forwarder, end in zip(self._forwarders.values(), [*ends, None], strict=True):
            forwarder.through = end
