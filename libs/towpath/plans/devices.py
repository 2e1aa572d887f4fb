"""Interface to the devices that run the operations of plans.

Resources are those of the thesis (section 3.6):

- `EXEC packages/install` with `name`, `version`, `url`, `sha256` and `signature`;
- `EXEC packages/uninstall`, `applications/start` and `applications/stop` with `name`;
- `PUT configurations/<application>` with `properties`, `GET packages`, `GET configurations/<application>`.

Answers have the codes of gateways. A device that says 202 works on it: the same request, asked again, returns
the outcome.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from enum import StrEnum
from typing import Any, Protocol

from towpath.contracts.message import Model


class Verb(StrEnum):
    """Verb of a request to a device."""

    GET = "GET"
    PUT = "PUT"
    EXEC = "EXEC"


class Answer(Model):
    """Answer of a device."""

    code: int
    body: dict[str, Any] = {}


class DeviceOffline(Exception):
    """No answer came. The device may have done what it was asked, or may never have heard of it."""


class Devices(Protocol):
    """Sends requests to devices.

    A device must remember the outcome of each request id, and give it again instead of acting twice. It does
    not remember the codes 202 and 423. A request that failed has changed nothing on the device.
    """

    async def request(
        self,
        device: str,
        application: str,
        verb: Verb,
        resource: str,
        body: Mapping[str, Any],
        *,
        request_id: str,
        timeout_s: float,
    ) -> Answer:
        """Send one request and return the device's answer. Raises `DeviceOffline` when none comes in time."""
        ...

    def presence(self) -> AsyncIterator[tuple[str, bool]]:
        """Yield a device and True when it comes, False when it goes; first for all that are known.

        An asynchronous generator. The same news may come twice.
        """
        ...
