"""Find sites by address: SpecK names engines and brokers by host and port."""

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
    """A host and, unless it was left out, a port."""

    host: str
    port: int | None

    @classmethod
    def of(cls, text: str) -> Address | None:
        """Parse `host:port`, with or without a scheme before and a path behind. None if it is no address.

        `localhost` becomes 127.0.0.1, because sites announce the number and people write the name.
        """
        try:
            parts = urlsplit(f"//{_SCHEME.sub('', text.strip())}")
            host, port = parts.hostname, parts.port
        except ValueError:
            return None
        return cls("127.0.0.1" if host == "localhost" else host, port) if host else None


class AddressBook:
    """The sites of a mesh by name and by address. An empty book accepts every name as a site."""

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
        """Return the site with this name, or with a server at this `host:port`.

        If no other site has the host, the port may be any or left out.

        Raises `TowpathError` (unknown site), naming `field`, if no site or more than one matches.
        """
        if address in self._names or (not self._names and is_name(address)):
            return address
        wanted = Address.of(address)
        if wanted is None:
            raise self._unknown("this is neither the name of a site nor an address", address, field)
        if wanted.host in self._names:
            return wanted.host
        found = self._listeners.get(wanted) or self._hosts.get(wanted.host, set())
        if len(found) == 1:
            return next(iter(found))
        if found:
            what = f"{', '.join(sorted(found))} have this host; the port matches none or several of them"
            raise self._unknown(what, address, field)
        raise self._unknown("no site has this address", address, field)

    def _unknown(self, message: str, address: str, field: str) -> TowpathError:
        listeners = sorted(
            f"{a.host}:{a.port} ({', '.join(sorted(names))})" for a, names in self._listeners.items()
        )
        return TowpathError(
            ErrorCode.UNKNOWN_SITE, message, field=field, value=address, allowed=[*self._names, *listeners]
        )
