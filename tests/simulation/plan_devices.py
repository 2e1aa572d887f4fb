"""Devices that remember request identifiers, as the interface asks, and a network that loses and repeats."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from typing import Any

from towpath.contracts.device_commands import DeviceAnswer
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.gateway import Code
from towpath.plans.devices import DeviceRequest

FATES = ("deliver", "lose request", "lose answer", "slow answer", "repeat", "late", "repeat late")
"""Fates of a request. One that is late arrives when its sender has given up."""


@dataclass
class SimulatedDevice:
    """A device: what runs on it, and with which arguments."""

    packages: dict[str, str] = field(default_factory=dict)
    """Application → version of its package."""
    configurations: dict[str, dict[str, Any]] = field(default_factory=dict)
    outcomes: dict[str, DeviceAnswer] = field(default_factory=dict)
    log: list[tuple[str, str]] = field(default_factory=list)
    """Requests that it acted on: resource and application."""
    refuses: Callable[[str], int | None] = lambda resource: None
    """Code with which it refuses a resource."""
    not_now: int = 0
    """So many requests are answered "not now"."""
    slow: int = 0
    """So many requests are answered "accepted"."""
    online: bool = True

    def handle(self, request: DeviceRequest, request_id: str) -> DeviceAnswer:
        """Act once on each identifier."""
        if request_id in self.outcomes:
            return self.outcomes[request_id]
        if self.not_now:
            self.not_now -= 1
            return DeviceAnswer(code=Code.NOT_NOW)
        if self.slow:
            self.slow -= 1
            return DeviceAnswer(code=Code.ACCEPTED)
        code = self.refuses(request.resource)
        refusal = {"errors": [{"message": "refused"}]}
        answer = DeviceAnswer(code=code, body=refusal) if code else self._act(request)
        self.outcomes[request_id] = answer
        return answer

    def _act(self, request: DeviceRequest) -> DeviceAnswer:
        resource, body = request.resource, request.body
        application = body.get("name") or resource.rpartition("/")[2]
        self.log.append((resource, application))
        match resource.split("/"):
            case ["packages", "install"]:
                assert self.packages.get(application) != body["version"], "installed twice"
                self.packages[application] = body["version"]
                self.configurations[application] = dict(body["properties"])
            case ["packages", "uninstall"]:
                if self.packages.pop(application, None) is None:
                    return DeviceAnswer(code=Code.NOT_FOUND)
                self.configurations.pop(application)
            case ["configurations", _]:
                assert application in self.packages, "configured before it is there"
                self.configurations[application] = dict(body["properties"])
        return DeviceAnswer(code=Code.OK)


@dataclass
class SimulatedDevices:
    """Implements `towpath.plans.devices.Devices`."""

    devices: dict[str, SimulatedDevice]
    network: Callable[[str], str] = lambda device: "deliver"
    """Fate of a request: one of `FATES`."""
    around: Callable[[str, str], None] = lambda device, request_id: None
    """Called before a request is sent."""
    late: set[asyncio.Task[None]] = field(default_factory=set)
    """Requests that are still on their way, although no one waits for them."""
    news: asyncio.Queue[tuple[str, bool]] = field(default_factory=asyncio.Queue)
    most_at_once: int = 0
    _under_way: int = 0

    async def request(
        self, site: str, device: str, request: DeviceRequest, *, request_id: str, timeout_s: float
    ) -> DeviceAnswer:
        self._under_way += 1
        self.most_at_once = max(self.most_at_once, self._under_way)
        try:
            return await self._carried(device, request, request_id, timeout_s)
        finally:
            self._under_way -= 1

    async def _carried(
        self, device: str, request: DeviceRequest, request_id: str, timeout_s: float
    ) -> DeviceAnswer:
        self.around(device, request_id)
        asked, fate = self.devices[device], self.network(device)
        if fate in ("late", "repeat late"):
            task = asyncio.create_task(self._come_late(asked, request, request_id, 3 * timeout_s))
            self.late.add(task)
            task.add_done_callback(self.late.discard)
        await asyncio.sleep(0.01)
        if not asked.online or fate in ("lose request", "late"):
            await asyncio.sleep(timeout_s)
            raise TowpathError(ErrorCode.UNREACHABLE, device)
        answer = asked.handle(request, request_id)
        if fate == "repeat":
            answer = asked.handle(request, request_id)
        if fate == "slow answer":
            await asyncio.sleep(timeout_s / 2)
        if fate == "lose answer":
            await asyncio.sleep(timeout_s)
            raise TowpathError(ErrorCode.DEADLINE, device)
        return answer

    async def _come_late(
        self, asked: SimulatedDevice, request: DeviceRequest, request_id: str, after_s: float
    ) -> None:
        await asyncio.sleep(after_s)
        asked.handle(request, request_id)

    async def presence(self) -> AsyncGenerator[tuple[str, bool], None]:
        while True:
            yield await self.news.get()

    def come(self, device: str) -> None:
        """Bring a device back, and say so."""
        self.devices[device].online = True
        self.news.put_nowait((device, True))

    def go(self, device: str) -> None:
        """Take a device away, and say so."""
        self.devices[device].online = False
        self.news.put_nowait((device, False))
