"""The REST service in front of a stand-in for the coordinator with prepared answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
from aiohttp.test_utils import TestClient, TestServer

from towpath.api.app import application
from towpath.api.settings import ApiSettings
from towpath.bus import Bus
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import Command, Event, Model
from towpath.mesh.home import Home

TOKEN = "t0ken"
Answering = Callable[[Any], Model]


@dataclass
class StandIn:
    """A bus whose other end answers each kind of command by a function."""

    answers: dict[type[Command[Any]], Answering] = field(default_factory=dict)
    asked: list[Command[Any]] = field(default_factory=list)
    connection: Any = field(default_factory=lambda: SimpleNamespace(is_connected=True))
    failure: TowpathError | None = None
    published: list[Event] = field(default_factory=list)

    async def request(self, command: Command[Any], *, deadline_s: float, attempt_s: float) -> Model:
        self.asked.append(type(command).from_bytes(command.to_bytes()))
        if self.failure is not None:
            raise self.failure
        if type(command) not in self.answers:
            raise TowpathError(ErrorCode.UNREACHABLE, "no one answers this command")
        return self.answers[type(command)](command)

    async def publish(self, event: Event) -> None:
        self.published.append(event)

    def newest(self) -> Any:
        return self.asked[-1]


@dataclass
class Trial:
    """A client that shows the token, unless told otherwise, and what stands behind the service."""

    client: TestClient[Any, Any]
    coordinator: StandIn

    async def send(
        self, method: str, path: str, *, headers: dict[str, str] | None = None, **options: Any
    ) -> tuple[aiohttp.ClientResponse, Any]:
        """The response, and its body if that is JSON."""
        shown = {"Authorization": f"Bearer {TOKEN}", **(headers or {})}
        async with self.client.request(method, path, headers=shown, **options) as response:
            text = await response.text()
            return response, await response.json(content_type=None) if text else None


@asynccontextmanager
async def running_api(home: Path = Path("nowhere")) -> AsyncIterator[Trial]:
    settings = ApiSettings(Home(home), "nats://nowhere", "hub.api", "", "127.0.0.1", 0, TOKEN)
    coordinator = StandIn()
    made = application(settings, cast("Bus", coordinator), asyncio.Event())
    async with TestClient(TestServer(made)) as client:
        yield Trial(client, coordinator)
