"""Collect results for `towpath check` from a site's broker or any other, with or without login and TLS."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from towpath.checker.collector import ResultCollector
from towpath.checker.identity import Identity
from towpath.checker.observation import ReceivedMessage
from towpath.cli.check_options import invalid_option
from towpath.cli.connection import load_mesh
from towpath.cli.output import say, working
from towpath.contracts.message import new_identifier
from towpath.mesh.home import Home
from towpath.mesh.site_broker import site_broker
from towpath.mqtt.broker_address import MQTT_3_1_1, BrokerAddress

PASSWORD = "TOWPATH_BROKER_PASSWORD"
"""Environment variable. Anyone who lists processes would see an option."""

_MOST_PORT = 65_535

LOOK_EVERY_S = 0.5

SETTLED_S = 5.0
"""Time after the last expected result in which a repeated one shows: longer than a micro-batch's retry."""


async def collector_at(home: Home, site: str, topic: str) -> ResultCollector:
    """Return a subscriber of one topic of a site, not connected yet."""
    access = (await load_mesh(home)).site(site)
    return ResultCollector(site_broker(access, access.client), [topic], f"check-{new_identifier()}")


async def collected(
    collector: ResultCollector,
    place: str,
    seconds: float,
    wanted: Set[Identity] = frozenset(),
    until_complete: bool = False,
) -> list[ReceivedMessage]:
    """Collect for `seconds`; with `until_complete`, stop when everything `wanted` has come."""
    with working("subscribing …") as status:
        async with collector:
            say(f"subscribed to {place}: collecting for {seconds:g} s")
            loop = asyncio.get_running_loop()
            end = loop.time() + seconds
            missing, came, newest_at = set(wanted), 0, loop.time()
            while (left := end - loop.time()) > 0:
                collector.check()
                news = collector.observations[came:]
                if news:
                    came, newest_at = came + len(news), loop.time()
                    missing.difference_update(observation.identity for observation in news)
                elif until_complete and not missing and loop.time() - newest_at > SETTLED_S:
                    break
                expecting = f", {len(missing):,} are missing" if wanted else ""
                status.update(f"{came:,} results came{expecting}; {left:.0f} s left")
                await asyncio.sleep(min(left, LOOK_EVERY_S))
            collector.check()
    return collector.observations


@dataclass(frozen=True)
class ForeignBroker:
    """Address and login of a broker that belongs to no site."""

    host: str
    port: int
    username: str | None = None
    password: str | None = None
    tls: bool = False
    ca_file: Path | None = None
    """Certificates that verify the broker's; None: those of this machine."""

    def collector(self, topic: str) -> ResultCollector:
        """Return a subscriber of a topic, not connected yet. Raises `TowpathError` for bad certificates."""
        if self.tls:
            self._check_certificates()
        broker = BrokerAddress(
            self.host,
            self.port,
            MQTT_3_1_1,
            self.username,
            self.password,
            tls=self.tls,
            ca_file=None if self.ca_file is None else str(self.ca_file),
        )
        return ResultCollector(broker, [topic], f"check-{new_identifier()}")

    def _check_certificates(self) -> None:
        """Now: later it would look like a broker that is not there yet."""
        try:
            ssl.create_default_context(cafile=self.ca_file)
        except OSError as error:  # Also what `ssl` raises for a file without certificates.
            raise invalid_option(
                f"no certificates: {error}", "ca_file", self.ca_file, "a PEM file"
            ) from error


def broker_of(options: Mapping[str, Any], environment: Mapping[str, str]) -> ForeignBroker | None:
    """Return the broker in the options of `towpath check`, if any. Raises `TowpathError` (invalid)."""
    address = options["broker"]
    username, tls, ca_file = options["username"], options["tls"], options["ca_file"]
    if address is None:
        for field, value in (("username", username), ("tls", tls or None), ("ca_file", ca_file)):
            if value is not None:
                raise invalid_option("there is no broker that it is for", field, value, "with --broker only")
        return None
    if ca_file is not None and not tls:
        raise invalid_option("nothing is checked with it", "ca_file", ca_file, "with --tls only")
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) <= _MOST_PORT:
        raise invalid_option("not an address", "broker", address, "HOST:PORT")
    password = environment.get(PASSWORD) if username is not None else None
    return ForeignBroker(host, int(port), username, password, tls, None if ca_file is None else Path(ca_file))
