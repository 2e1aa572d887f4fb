"""All applications of a gateway: start, stop, replace and list them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from towpath.atomic_write import make_private_directory
from towpath.gateway.application import CRASH_LOOPS, Application, Begin
from towpath.gateway.application_input import ApplicationInput
from towpath.gateways.package_shelf import Installed, PackageShelf
from towpath.mqtt.broker_address import BrokerAddress

Keep = Callable[[str, str, list[dict[str, Any]]], None]
"""Takes application, topic and results."""

STOPPED = "stopped"


class Applications:
    """The running applications by name."""

    def __init__(
        self,
        shelf: PackageShelf,
        directory: Path,
        brokers: dict[str, BrokerAddress],
        prefix: str,
        keep: Keep,
        begin: Begin,
    ) -> None:
        """`brokers`: addresses of `local` and `site`. `prefix`: begin of the names of MQTT sessions."""
        self._shelf = shelf
        self._states = make_private_directory(directory / "states")
        for scratch in self._states.glob(".*.tmp"):
            scratch.unlink()
        self._brokers = brokers
        self._prefix = prefix
        self._keep = keep
        self._begin = begin
        self._running: dict[str, Application] = {}

    def start_all(self) -> None:
        """Start all installed applications that were not stopped on purpose. Needs no broker."""
        for name, record in self._shelf.installed.items():
            if record.started:
                self.start(name)

    def start(self, name: str) -> Application:
        """Start an application, unless it runs. Return it."""
        if name not in self._running:
            record = self._shelf.record(name)
            application = Application(
                record,
                self._shelf.directory(name),
                self._states / f"{name}.json",
                self._input(name, record),
                lambda results: self._keep(name, record.manifest.output, results),
                self._begin,
            )
            application.start()
            self._running[name] = application
        return self._running[name]

    async def stop(self, name: str) -> None:
        """Stop an application, if it runs. The broker keeps its input."""
        application = self._running.pop(name, None)
        if application is not None:
            await application.close()

    async def forget(self, record: Installed) -> None:
        """Delete an application's state and its session at the broker."""
        (self._states / f"{record.manifest.name}.json").unlink(missing_ok=True)
        await self.forget_input(record)

    async def forget_input(self, record: Installed) -> None:
        """Delete the session at the broker that an application had for the topics it read."""
        await self._input(record.manifest.name, record).forget()

    async def configure(self, name: str, record: Installed) -> None:
        """Change the properties of an application, if it runs."""
        if name in self._running:
            await self._running[name].configure(record)

    async def close(self) -> None:
        """Stop all."""
        for name in [*self._running]:
            await self.stop(name)

    def described(self) -> list[dict[str, Any]]:
        """Return the states of all installed applications."""
        return [
            self._running[name].described()
            if name in self._running
            else {"name": name, "version": record.manifest.version, "state": STOPPED}
            for name, record in self._shelf.installed.items()
        ]

    def crash_loops(self) -> list[str]:
        """Return the names of applications that end again and again."""
        return sorted(name for name, each in self._running.items() if each.state == CRASH_LOOPS)

    def _input(self, name: str, record: Installed) -> ApplicationInput:
        source = record.manifest.input
        # Other topics are another session: the former one stays until the application runs with the new.
        topics = hashlib.sha256("\0".join([source.broker, *source.topics]).encode()).hexdigest()[:8]
        session = f"{self._prefix}-{name}-{topics}"
        return ApplicationInput(self._brokers[source.broker], session, source.topics)
