"""The MQTT broker that `towpath check --broker` collects from: anybody's, with or without a login and TLS."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from towpath.checker.collector import ResultCollector
from towpath.cli.check_options import invalid_option
from towpath.contracts.message import new_identifier

PASSWORD = "TOWPATH_BROKER_PASSWORD"
"""Environment variable: not an option, which whoever lists processes would see."""

_MOST_PORT = 65_535


@dataclass(frozen=True)
class ForeignBroker:
    """How a broker is reached that is no site's."""

    host: str
    port: int
    username: str | None = None
    password: str | None = None
    tls: bool = False
    ca_file: Path | None = None
    """Certificates that the broker's is checked with; null: those of this machine."""

    def collector(self, topic: str) -> ResultCollector:
        """Who collects a topic there. Raises `TowpathError` (invalid): there are no such certificates."""
        if self.tls:
            self._check_certificates()
        return ResultCollector(
            self.host,
            self.port,
            [topic],
            f"check-{new_identifier()}",
            username=self.username,
            password=self.password,
            tls=self.tls,
            ca_file=self.ca_file,
        )

    def _check_certificates(self) -> None:
        """Now: later it would look like a broker that is not there yet."""
        try:
            ssl.create_default_context(cafile=self.ca_file)
        except OSError as error:  # Also what `ssl` raises for a file without certificates.
            raise invalid_option(
                f"no certificates: {error}", "ca_file", self.ca_file, "a PEM file"
            ) from error


def broker_of(options: Mapping[str, Any], environment: Mapping[str, str]) -> ForeignBroker | None:
    """The broker that the options of `towpath check` name, if they do. Raises `TowpathError` (invalid)."""
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
