"""The way to the devices of plans: through the agent of the site that each is connected to."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator

from nats.errors import Error as NatsError

from towpath.bus import Bus
from towpath.contracts.device_commands import AskDevice, DeviceAnswer, DeviceChanged, ListDevices
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.plans.devices import DeviceRequest

log = logging.getLogger(__name__)

LOOK_EVERY_S = 30.0
"""Pause between two questions for the devices of a site. News of a change may be lost, and an agent that was
restarted tells none until it is asked."""

WAY_S = 2.0
"""Time for a question to an agent and its answer to cross the mesh."""


class MeshDevices:
    """Implements `towpath.plans.devices.Devices` for all plans."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._sites: set[str] = set()
        """Sites that have been asked for a device."""
        self._watchers: set[asyncio.Queue[tuple[str, bool]]] = set()

    async def request(
        self, site: str, device: str, request: DeviceRequest, *, request_id: str, timeout_s: float
    ) -> DeviceAnswer:
        """See `Devices.request`."""
        self._sites.add(site)
        command = AskDevice(
            site=site,
            device=device,
            application=request.application,
            method=request.verb,
            resource=request.resource,
            body=request.body,
            request=request_id,
            timeout_s=timeout_s,
        )
        try:
            return await self._bus.request(command, deadline_s=timeout_s + WAY_S)
        except (NatsError, OSError) as error:
            raise TowpathError(ErrorCode.UNREACHABLE, f"{type(error).__name__}: {error}") from error

    async def presence(self) -> AsyncGenerator[tuple[str, bool], None]:
        """See `Devices.presence`."""
        news: asyncio.Queue[tuple[str, bool]] = asyncio.Queue()
        self._watchers.add(news)
        try:
            while True:
                yield await news.get()
        finally:
            self._watchers.discard(news)

    async def watch(self) -> None:
        """Ask for the devices of all sites now and then while plans are rolled out. Until cancelled."""
        await self._bus.subscribe(DeviceChanged, self._heard)
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            for site in sorted(self._sites) if self._watchers else []:
                with contextlib.suppress(TowpathError, NatsError, OSError):
                    seen = await self._bus.request(ListDevices(site=site), deadline_s=WAY_S)
                    for device, online in seen.online.items():
                        self._tell(device, online)

    async def _heard(self, event: DeviceChanged) -> None:
        self._tell(event.device, event.online)

    def _tell(self, device: str, online: bool) -> None:
        for watcher in self._watchers:
            watcher.put_nowait((device, online))
