"""The wiring of a gateway."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any

import msgspec

from towpath import tasks
from towpath.atomic_write import make_private_directory
from towpath.contracts.gateway import Presence
from towpath.gateway.application import Begin
from towpath.gateway.applications import Applications
from towpath.gateway.commands import Commands, Hold
from towpath.gateway.delivery import DeliveryRoutes
from towpath.gateway.settings import GatewaySettings
from towpath.gateway.site_session import SiteSession
from towpath.gateway.worker_process import WorkerProcess
from towpath.gateways.forwarding import Result
from towpath.gateways.package_shelf import PackageShelf
from towpath.gateways.refusal import Refusal
from towpath.gateways.request_journal import RequestJournal
from towpath.gateways.result_log import ResultLog

log = logging.getLogger(__name__)

VERSION = "0.1.0"
"""Version of Towpath, as in pyproject.toml. Reading it from the installation would take 3 MB."""


async def run(settings: GatewaySettings, stop: asyncio.Event) -> None:
    """Run a gateway until `stop` is set. The next run goes on where it stood.

    Raises `Refusal` if another process has its directory, and `OSError`.
    """
    directory = make_private_directory(Path(settings.directory))
    with _claimed(directory):
        gateway = Gateway(settings, directory)
        try:
            await gateway.run(stop)
        finally:
            gateway.results.close()


class Gateway:
    """All parts of a gateway, built from what is on its disk. It needs no connection for that."""

    def __init__(
        self, settings: GatewaySettings, directory: Path, begin: Begin = WorkerProcess.start
    ) -> None:
        """`begin` starts the process of an application."""
        site = settings.site.address()
        local = site if settings.local is None else settings.local.address()
        self._device = settings.device
        self._session_name = token_hex(6)
        self.results = ResultLog(directory / "results", budget_bytes=int(settings.store.budget_mb * 1e6))
        self._hold = Hold(directory / "hold")
        shelf = PackageShelf(directory, settings.packages)
        self._applications = Applications(
            shelf,
            directory,
            {"local": local, "site": site},
            settings.device,
            f"gateway-{settings.account}-{settings.device}",
            self._keep,
            begin,
        )
        self._delivery = DeliveryRoutes(settings, site, self.results, directory / "delivery.json")
        self._session = SiteSession(
            site,
            settings.account,
            settings.device,
            self._delivery,
            lambda topic, payload: self._commands.receive(topic, payload),
            self._presence,
        )
        self._commands = Commands(
            settings.account,
            settings.device,
            RequestJournal(directory / "requests"),
            shelf,
            self._applications,
            self._hold,
            self._delivery,
            self._status,
            self._session.publish,
        )

    @property
    def is_connected(self) -> bool:
        """True while the gateway is connected to its site."""
        return self._session.is_connected

    async def run(self, stop: asyncio.Event) -> None:
        """Start the applications, then go on with what was begun, then connect."""
        self._applications.start_all()
        self._commands.go_on()
        connections = [asyncio.create_task(each.run()) for each in (self._session, self._delivery)]
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({*connections, stopping}, return_when=asyncio.FIRST_COMPLETED)
            for each in connections:
                if each.done():
                    each.result()  # Raises: it does not end by itself.
        finally:
            await self._commands.close()
            await self._applications.close()
            await tasks.end([*connections, stopping])

    def _keep(self, application: str, topic: str, results: list[dict[str, Any]]) -> None:
        self.results.append([msgspec.json.encode(Result(application, topic, each)) for each in results])
        self._session.wake()
        self._delivery.wake()

    def _presence(self) -> Presence:
        loops = self._applications.crash_loops()
        return Presence(self._device, True, self._session_name, VERSION, loops, self._delivery.site)

    def _status(self) -> dict[str, Any]:
        return {
            "version": VERSION,
            "session": self._session_name,
            "hold": self._hold.is_set,
            "memory_kb": memory_kb(),
            "results": {
                "log": self.results.identity,
                "last": self.results.last,
                "waiting": self.results.waiting(),
                "dropped": self.results.dropped,
                "bytes": self.results.bytes,
            },
        }


@contextmanager
def _claimed(directory: Path) -> Iterator[None]:
    """Hold the directory for this process. The lock goes with it, however it ends."""
    descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise Refusal.bad("another gateway runs there", field="directory", value=str(directory)) from None
    finally:
        os.close(descriptor)


def memory_kb(pid: int | str = "self") -> int:
    """Return the resident memory of a process in kB."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0
