"""Sites by their addresses: SpecK names engines and brokers by host and port."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import SiteName, is_name
from towpath.contracts.site import SiteStatus

_SCHEME = re.compile(r"^[a-z][a-z0-9+.-]*://", re.I)


@dataclass(frozen=True)
class Address:
    """A host, and a port unless it was left out."""

    host: str
    port: int | None

    @classmethod
    def of(cls, text: str) -> Address | None:
        """The address in `host:port`, with or without a scheme before and a path behind; None: there is none.

        `localhost` is 127.0.0.1: sites say the one, people the other.
        """
        try:
            parts = urlsplit(f"//{_SCHEME.sub('', text.strip())}")
            host, port = parts.hostname, parts.port
        except ValueError:
            return None
        return cls("127.0.0.1" if host == "localhost" else host, port) if host else None


class AddressBook:
    """The sites of a mesh by name and by address. An empty one takes every name for a site's."""

    def __init__(self, sites: Sequence[SiteStatus]) -> None:
        self._names = sorted(status.site for status in sites)
        self._listeners: dict[Address, set[SiteName]] = {}
        self._hosts: dict[str, set[SiteName]] = {}
        for status in sites:
            for address in (
                Address.of(status.nats_url),
                Address.of(f"{status.mqtt_host}:{status.mqtt_port}"),
            ):
                if address is not None:
                    self._listeners.setdefault(address, set()).add(status.site)
                    self._hosts.setdefault(address.host, set()).add(status.site)

    def site(self, address: str, field: str) -> SiteName:
        """The site with this name, or with a server at this `host:port`.

        The port may be any, or left out, where no other site has the host.

        Raises `TowpathError` (unknown site), naming `field`, when there is no such site or more than one.
        """
        if address in self._names or (not self._names and is_name(address)):
            return address
        wanted = Address.of(address)
        if wanted is None:
            raise self._unknown("neither a site nor an address", address, field)
        if wanted.host in self._names:
            return wanted.host
        found = self._listeners.get(wanted) or self._hosts.get(wanted.host, set())
        if len(found) == 1:
            return next(iter(found))
        if found:
            what = f"{', '.join(sorted(found))} have this host, and none or several of them this port"
            raise self._unknown(what, address, field)
        raise self._unknown("no site has this address", address, field)

    def _unknown(self, message: str, address: str, field: str) -> TowpathError:
        listeners = sorted(
            f"{a.host}:{a.port} ({', '.join(sorted(names))})" for a, names in self._listeners.items()
        )
        return TowpathError(
            ErrorCode.UNKNOWN_SITE, message, field=field, value=address, allowed=[*self._names, *listeners]
        )
