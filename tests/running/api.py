"""The REST service as a process, on real servers, with the services that it asks, and a client."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from nats.js.errors import NotFoundError

from running.coordinator import FILTER, Trial
from running.mesh import Mesh
from running.waiting import WITHIN_S, eventually
from towpath.contracts.events import EVENTS_STREAM, SiteChanged
from towpath.contracts.site import SiteState
from towpath.mesh.servers import port_open

WAIT = {"Prefer": f"wait={WITHIN_S:.0f}"}

MODULES = {"injector": "towpath.lab.injector", "collector": "towpath.collector"}
"""Other services that clients reach through the interface."""
JOB: dict[str, Any] = {
    "name": "late",
    "site": "jfk",
    "inputs": [{"site": "jfk", "topic": "site/departures"}],
    "output": {"topic": "departures/late"},
    "operator": FILTER,
}


@dataclass
class Api:
    """A REST service that tests can kill, a client that shows the token, and the coordinator's trial."""

    trial: Trial
    client: aiohttp.ClientSession
    process: asyncio.subprocess.Process | None = None
    others: dict[str, asyncio.subprocess.Process] = field(default_factory=dict)
    """Services that it asks beside the coordinator, by name."""

    @property
    def running(self) -> Mesh:
        return self.trial.running

    async def start(self) -> None:
        """Start the service and the services it asks, unless they run. Wait until all events about sites are
        published: no others come by themselves."""
        if self.process is None or self.process.returncode is not None:
            self.process = await self._start("api", "towpath.api")
        await self.start_others()
        await eventually(self._sites_were_said_to_be_up)

    async def start_others(self) -> None:
        """Start the other services that do not run."""
        for service, module in MODULES.items():
            process = self.others.get(service)
            if process is None or process.returncode is not None:
                self.others[service] = await self._start(service, module)
        await eventually(self.works)

    async def _start(self, service: str, module: str) -> asyncio.subprocess.Process:
        command = [sys.executable, "-m", module, "--home", str(self.running.home.root)]
        with self.running.home.log(service).open("ab") as log:
            return await asyncio.create_subprocess_exec(*command, stdout=log, stderr=log)

    async def works(self) -> bool:
        """True if requests reach the coordinator."""
        if not await port_open("127.0.0.1", self.running.state.spec.api_port):
            return False
        statuses = [
            (await self.send("GET", path))[0] for path in ("/sites", "/faults/rules", "/series/definitions")
        ]
        return set(statuses) == {200}

    async def _sites_were_said_to_be_up(self) -> bool:
        """True if the coordinator's last event about every site says that it is up."""
        async with self.running.coordinator() as hub:
            for site in self.running.state.sites:
                try:
                    subject = SiteChanged(site=site, state=SiteState.UP).to_subject()
                    newest = await hub.jetstream().get_last_msg(EVENTS_STREAM, subject)
                except NotFoundError:
                    return False
                said = SiteChanged.model_validate_json(newest.data or b"")
                if said.at < self.trial.started_at or said.state is not SiteState.UP:
                    return False
        return True

    async def end(self, number: signal.Signals = signal.SIGTERM, within_s: float = WITHIN_S) -> int:
        assert self.process is not None
        if self.process.returncode is None:
            os.kill(self.process.pid, number)
        return await asyncio.wait_for(self.process.wait(), within_s)

    async def send(self, method: str, path: str, **options: Any) -> tuple[int, Any]:
        """Send a request. Return status and body."""
        async with self.client.request(method, path, **options) as response:
            return response.status, await response.json(content_type=None)

    @asynccontextmanager
    async def events(
        self, query: str = "", last: int | None = None
    ) -> AsyncIterator[AsyncIterator[tuple[int, str, Any]]]:
        """Open a stream of events, each with serial number, subject and body."""
        headers = {} if last is None else {"Last-Event-ID": str(last)}
        async with self.client.get(f"/events{query}", headers=headers) as response:
            assert (response.status, response.content_type) == (200, "text/event-stream")
            await response.content.readuntil(b"\n\n")
            yield self._parsed(response)

    async def _parsed(self, response: aiohttp.ClientResponse) -> AsyncIterator[tuple[int, str, Any]]:
        serial = 0
        async for line in response.content:
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name == "id":
                serial = int(value)
            elif name == "data":
                data = json.loads(value)
                yield serial, data["subject"], data["body"]


@asynccontextmanager
async def running_api(trial: Trial) -> AsyncIterator[Api]:
    """Run the REST service in front of a coordinator. Kill it, and the services it asks, in the end."""
    state, timeout = trial.running.state, aiohttp.ClientTimeout(total=2 * WITHIN_S)
    headers = {"Authorization": f"Bearer {state.api_token}"}
    async with aiohttp.ClientSession(state.api_url, headers=headers, timeout=timeout) as client:
        api = Api(trial, client)
        try:
            await api.start()
            yield api
        finally:
            await api.end(signal.SIGKILL)
            for process in api.others.values():
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
