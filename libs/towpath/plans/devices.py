"""Interface to the devices that run the operations of plans.

A step becomes one request of the thesis (section 3.6) in the form of gateways (`towpath.contracts.gateway`):

- `DEPLOY-V2 EXEC packages/install`: fetch, verify, configure and start. Another package of that name is
  replaced. If that fails, the device is as it was before;
- `DEPLOY-V2 EXEC packages/uninstall`: stop and delete;
- `CONF-V1 PUT configurations/<application>`: change the properties while it runs.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any, Protocol

from towpath.contracts.device_commands import DeviceAnswer


@dataclass(frozen=True)
class DeviceRequest:
    """A request to a device."""

    application: str
    verb: str
    resource: str
    body: dict[str, Any]


class Devices(Protocol):
    """Sends requests to devices.

    A device must remember the outcome of each request id, and give it again instead of acting twice. It does
    not remember the codes 202 and 423. A request that failed has changed nothing on the device.
    """

    async def request(
        self, site: str, device: str, request: DeviceRequest, *, request_id: str, timeout_s: float
    ) -> DeviceAnswer:
        """Send one request and return the device's answer.

        Raises `TowpathError` (unreachable, deadline) when none comes in time: the device may have done what
        it was asked, or may never have heard of it.
        """
        ...

    def presence(self) -> AsyncGenerator[tuple[str, bool], None]:
        """Yield a device and True when it comes, False when it goes; first for all that are known.

        The same news may come twice.
        """
        ...
