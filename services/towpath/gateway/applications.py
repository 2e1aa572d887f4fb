"""All applications of a gateway: start, stop, replace and list them."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from towpath.atomic_write import make_private_directory
from towpath.gateway.application import CRASH_LOOPS, Application, Begin
from towpath.gateway.application_input import ApplicationInput
from towpath.gateways.kinds.kind import kind_named
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
        device: str,
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
        self._device = device
        self._prefix = prefix
        self._keep = keep
        self._begin = begin
        self._running: dict[str, Application] = {}

    def start_all(self) -> None:
        """Start all installed applications that were not stopped on purpose. Needs no broker.

        Delete states of others: a former run was killed while it uninstalled them.
        """
        known = {each for name in self._shelf.installed for each in (f"{name}.d", f"{name}.json")}
        for left in [*self._states.iterdir()]:
            if left.name not in known:
                _delete(left)
        for name, record in self._shelf.installed.items():
            if record.started:
                self.start(name)

    def start(self, name: str) -> Application:
        """Start an application, unless it runs. Return it."""
        if name not in self._running:
            record = self._shelf.record(name)
            application = Application(
                record,
                self._device,
                self._shelf.directory(name),
                self._states / name,
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
        name = record.manifest.name
        kind = kind_named(record.manifest.kind)
        outside = kind.directories(record.manifest, record.properties, self._device)
        for state in (self._states / f"{name}.json", self._states / f"{name}.d", *outside):
            await asyncio.to_thread(_delete, state)
        await self.forget_input(record)

    async def forget_input(self, record: Installed, present: Installed | None = None) -> None:
        """Delete the session at the broker that an application had, unless the present one reads the same."""
        if present is None or self._topics(record) != self._topics(present):
            await self._input(record.manifest.name, record).forget()

    async def leave_topics(self, former: Installed, record: Installed) -> None:
        """Stop an application that is to read other topics, and let the broker forget its session.

        This comes before the new record is kept: a gateway that was killed in between knows the session.
        """
        if self._topics(former) != self._topics(record):
            await self.stop(former.manifest.name)
            await self.forget_input(former)

    async def configure(self, name: str, record: Installed) -> None:
        """Change the properties of an application, or start it with them if it was stopped for that."""
        if name in self._running:
            await self._running[name].configure(record)
        elif record.started:
            self.start(name)

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
        topics = self._topics(record)
        broker = record.manifest.input.broker
        # Other topics are another session: the former one stays until the application runs with the new.
        digest = hashlib.sha256("\0".join([broker, *topics]).encode()).hexdigest()[:8]
        return ApplicationInput(self._brokers[broker], f"{self._prefix}-{name}-{digest}", topics)

    def _topics(self, record: Installed) -> list[str]:
        manifest = record.manifest
        return kind_named(manifest.kind).topics(manifest, record.properties, self._device)


def _delete(path: Path) -> None:
    """Delete a file or directory, if it is there. What cannot be deleted goes at the next start."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
