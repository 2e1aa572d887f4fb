"""Pass requests on to the devices of this site, such as gateways, and tell which of them come and go."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from towpath.bus import Bus
from towpath.contracts.device_commands import (
    AskDevice,
    DeviceAnswer,
    DeviceChanged,
    DevicesSeen,
    ListDevices,
)
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.gateway import ACCOUNT
from towpath.contracts.message import Event
from towpath.gateways.client import Answer, GatewayClient
from towpath.mesh.site_broker import gateway_broker
from towpath.mesh.state import SiteAccess
from towpath.tasks import end

CONNECT_WITHIN_S = 5.0


class SiteDevices:
    """Connects to the site's broker when it is first asked for a device."""

    def __init__(self, access: SiteAccess, publish: Callable[[Event], Awaitable[None]]) -> None:
        self._access = access
        self._publish = publish
        self._wanted = asyncio.Event()
        self._client: asyncio.Future[GatewayClient] = asyncio.get_running_loop().create_future()
        self._asking: dict[tuple[str, str], asyncio.Task[Answer]] = {}
        """Device and request → its task: who asks again after a restart joins it."""

    def take_keys(self, access: SiteAccess) -> None:
        """Log in with these keys from now on."""
        self._access = access
        if self._client.done():
            self._client.result().log_in_at(gateway_broker(access))

    async def serve(self, bus: Bus) -> None:
        """Answer commands about devices."""
        await bus.serve(AskDevice, self.ask, site=self._access.spec.name)
        await bus.serve(ListDevices, self.show, site=self._access.spec.name)

    async def ask(self, command: AskDevice) -> DeviceAnswer:
        """See `AskDevice`."""
        client = await self._connected()
        key = command.device, command.request
        if key not in self._asking:
            self._asking[key] = asyncio.create_task(_ask(client, command), name=f"ask {command.device}")
            self._asking[key].add_done_callback(lambda _: self._asking.pop(key))
        answer = await asyncio.shield(self._asking[key])
        return DeviceAnswer(code=answer.code, body=answer.body)

    async def show(self, _: ListDevices) -> DevicesSeen:
        """See `ListDevices`."""
        client = await self._connected()
        await client.connected(CONNECT_WITHIN_S)
        return DevicesSeen(online=client.online)

    async def watch(self) -> None:
        """Keep the connection, once it is wanted, and publish what changes. Until cancelled."""
        await self._wanted.wait()
        site = self._access.spec.name
        try:
            async with GatewayClient(gateway_broker(self._access), ACCOUNT) as client:
                self._client.set_result(client)
                async for device, online in client.presence():
                    await self._publish(DeviceChanged(site=site, device=device, online=online))
        finally:
            await end(self._asking.values())

    async def _connected(self) -> GatewayClient:
        gateway_broker(self._access)  # Refuses a site without a login for gateways.
        self._wanted.set()
        try:
            async with asyncio.timeout(CONNECT_WITHIN_S):
                return await asyncio.shield(self._client)
        except TimeoutError:
            raise TowpathError(ErrorCode.UNREACHABLE, "the agent starts or ends; ask again") from None


async def _ask(client: GatewayClient, command: AskDevice) -> Answer:
    return await client.request(
        command.device,
        command.application,
        command.method,
        command.resource,
        command.body,
        request_id=command.request,
        timeout_s=command.timeout_s,
    )
