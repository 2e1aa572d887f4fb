"""Carry out what requests ask for: each once, those for one application in the order in which they came.

A request that changes something is written down before it is acknowledged to the broker, and carried out
again after a kill. So every action here may be repeated: its outcome is the same.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from towpath import tasks
from towpath.contracts.gateway import (
    COMMANDS,
    CONFIGURATIONS,
    EXEC,
    GET,
    PACKAGES,
    PUT,
    Code,
    Configuration,
    Delivery,
    InstallPackage,
    Named,
    Notification,
    Problem,
    Reply,
    Request,
)
from towpath.gateway.applications import Applications
from towpath.gateway.delivery import DeliveryRoutes
from towpath.gateways import control
from towpath.gateways.control import Address, body_as
from towpath.gateways.package_shelf import Installed, PackageShelf
from towpath.gateways.refusal import Refusal
from towpath.gateways.request_journal import Entry, RequestJournal

log = logging.getLogger(__name__)

IN_PROGRESS, COMPLETED, FAILED = "IN_PROGRESS", "COMPLETED", "FAILED"
NOTIFY_PERCENT = 10
"""Progress between two notifications."""

KURA_RESOURCES = {"install": "packages/install", "uninstall": "packages/uninstall", "bundles": "applications"}
"""Names that Eclipse Kura's clients use → ours."""

Publish = Callable[[str, bytes], None]
Outcome = tuple[Code, Any]


class Hold:
    """The state "moving, not now": a file, which other programs on the device may create and delete, too."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def check(self) -> None:
        """Raise `Refusal` (423) while the gateway is on hold."""
        if self.is_set:
            raise Refusal(
                Code.NOT_NOW, Problem("the gateway is on hold; try again later", allowed=str(self._path))
            )

    @property
    def is_set(self) -> bool:
        """True while the gateway is on hold."""
        return self._path.exists()

    def set(self, held: bool) -> None:
        """Begin or end the hold."""
        if held:
            self._path.touch()
        else:
            self._path.unlink(missing_ok=True)


class Commands:
    """Takes requests, and owns the tasks that carry them out."""

    def __init__(
        self,
        account: str,
        device: str,
        journal: RequestJournal,
        shelf: PackageShelf,
        applications: Applications,
        hold: Hold,
        delivery: DeliveryRoutes,
        status: Callable[[], dict[str, Any]],
        publish: Publish,
    ) -> None:
        self._account = account
        self._device = device
        self._journal = journal
        self._shelf = shelf
        self._applications = applications
        self._hold = hold
        self._delivery = delivery
        self._status = status
        self._publish = publish
        self._tasks: set[asyncio.Task[None]] = set()
        self._locks: dict[str, asyncio.Lock] = {}
        self._stopping = False

    def go_on(self) -> None:
        """Carry out again what a former run had begun."""
        for entry in self._journal.unanswered():
            self._begin(control.parse_address(entry.topic), entry, again=True)

    async def close(self) -> None:
        """Cancel all work. The next run carries it out again."""
        self._stopping = True
        await tasks.end(self._tasks)

    def receive(self, topic: str, payload: bytes) -> None:
        """Take a request. What it changes is written down when this returns. Raises `OSError`."""
        try:
            address = control.parse_address(topic)
            request = control.decode_request(address, payload)
        except Refusal as refusal:
            self._refuse_unread(topic, payload, refusal)
            return
        if address.verb == GET:
            self._answer(address, request, *self._read(address))
            return
        try:
            known = self._journal.known(address, request)
        except Refusal as refusal:
            self._answer(address, request, refusal.code, _body(refusal))
            return
        if known is None:
            self._begin(address, self._journal.begin(address, request), again=False)
        elif known.code is not None:
            self._answer(address, request, known.code, known.body)
        else:
            known.request = request  # The answer goes to whom asked last.
            self._answer(address, request, Code.ACCEPTED, None)

    def _refuse_unread(self, topic: str, payload: bytes, refusal: Refusal) -> None:
        """Answer a wrong request if it says at least whom to answer."""
        log.warning("refused %s: %s", topic, refusal)
        levels = topic.split("/")
        try:
            request = control.decode(payload, Request)
            reply = Reply(refusal.code, request.request_id, self._device, _body(refusal))
            to = control.reply_topic(self._account, request.requester_id, levels[3], request.request_id)
        except (Refusal, IndexError):
            return
        if not set("+#\0") & set(to):
            self._publish(to, control.encode(reply))

    def _begin(self, address: Address, entry: Entry, *, again: bool) -> None:
        task = asyncio.create_task(self._carry_out(address, entry, again))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry_out(self, address: Address, entry: Entry, again: bool) -> None:
        try:
            code, body = await self._do(address, entry, again)
        except Refusal as refusal:
            code, body = refusal.code, _body(refusal)
        except Exception as error:
            log.exception("%s failed", address.topic)
            code, body = Code.FAILED, {"errors": [{"message": f"{type(error).__name__}: {error}"}]}
        if self._stopping:
            return
        if code is Code.NOT_NOW:
            self._journal.forget(entry)  # Nothing was done: the same request may come again.
        else:
            self._journal.answer(entry, code, body)
        log.info("%s %s %s: %d", address.verb, address.resource, entry.request.request_id, code)
        self._answer(address, entry.request, code, body)

    def _answer(self, address: Address, request: Request, code: Code | int, body: Any) -> None:
        to = control.reply_topic(
            address.account, request.requester_id, address.application, request.request_id
        )
        self._publish(to, control.encode(Reply(int(code), request.request_id, self._device, body)))

    def _read(self, address: Address) -> Outcome:
        match address.application, address.resource.split("/"):
            case "DEPLOY-V2", ["packages"]:
                found = self._shelf.installed.values()
                return Code.OK, [
                    {"name": each.manifest.name, "version": each.manifest.version, "sha256": each.sha256}
                    for each in found
                ]
            case "DEPLOY-V2", ["applications" | "bundles"]:
                return Code.OK, self._applications.described()
            case "CONF-V1", ["configurations"]:
                return Code.OK, {name: each.properties for name, each in self._shelf.installed.items()}
            case "CONF-V1", ["configurations", name]:
                try:
                    return Code.OK, {"properties": self._shelf.record(name).properties}
                except Refusal as refusal:
                    return refusal.code, _body(refusal)
            case "CONF-V1", ["delivery"]:
                return Code.OK, self._delivery.described()
            case "CMD-V1", ["status"]:
                return Code.OK, self._status()
        return Code.NOT_FOUND, _body(_no_such_resource(address))

    async def _do(self, address: Address, entry: Entry, again: bool) -> Outcome:
        body = entry.request.body
        first, *rest = address.resource.split("/")
        resource = KURA_RESOURCES.get(address.resource, address.resource)
        match address.application, address.verb, resource:
            case "DEPLOY-V2", "EXEC", "packages/install":
                wanted = body_as(body, InstallPackage)
                return await self._for(wanted.name, self._install(address, entry, wanted))
            case "DEPLOY-V2", "EXEC", "packages/uninstall":
                name = body_as(body, Named).name
                return await self._for(name, self._uninstall(name, again))
            case "DEPLOY-V2", "EXEC", "applications/start" | "applications/stop":
                name = body_as(body, Named).name
                return await self._for(name, self._set_started(name, resource.endswith("start")))
            case "CONF-V1", "PUT", _ if first == "configurations" and len(rest) == 1:
                change = body_as(body, Configuration)
                return await self._for(rest[0], self._configure(rest[0], change.properties, change.replace))
            case "CONF-V1", "PUT", "delivery":
                return Code.OK, self._delivery.change(body_as(body, Delivery))
            case "CMD-V1", "EXEC", "hold" | "release":
                self._hold.set(resource == "hold")
                return Code.OK, {"hold": self._hold.is_set}
        raise _no_such_resource(address)

    async def _for(self, name: str, work: Awaitable[Outcome]) -> Outcome:
        """Do work for one application after what was asked for it before."""
        lock = self._locks.setdefault(name, asyncio.Lock())
        try:
            await lock.acquire()
        except BaseException:
            getattr(work, "close", lambda: None)()
            raise
        try:
            return await work
        finally:
            lock.release()

    async def _install(self, address: Address, entry: Entry, wanted: InstallPackage) -> Outcome:
        control.check_name("body.name", wanted.name)
        if not self._shelf.is_installed(wanted):
            self._hold.check()
            self._answer(address, entry.request, Code.ACCEPTED, None)
            progress = _Progress(asyncio.get_running_loop(), lambda n: self._notify(address, entry, n))
            await tasks.to_the_end(
                asyncio.to_thread(self._shelf.fetch, wanted, lambda n: progress.report(n, self._stopping))
            )
            await self._applications.stop(wanted.name)
            try:
                self._shelf.install(wanted)
            except Refusal:
                self._start_again(self._shelf.installed.get(wanted.name))
                raise
        elif wanted.properties or wanted.replace:
            await self._configure(wanted.name, wanted.properties, wanted.replace)
        await self._settle(wanted.name)
        version = self._shelf.record(wanted.name).manifest.version
        return Code.OK, {"name": wanted.name, "version": version, "sha256": wanted.sha256}

    async def _settle(self, name: str) -> None:
        """Start what is installed. Raises `Refusal` if it does not start; then all is as it was before."""
        if self._shelf.record(name).started:
            trouble = await self._applications.start(name).settle()
            if trouble is not None:
                await self._undo(name)
                raise Refusal(
                    Code.FAILED, Problem(f"the application does not start: {trouble}", "name", name)
                )
        record = self._shelf.settle(name)
        if record.former is not None:
            await self._applications.forget_input(record.former, record)

    async def _undo(self, name: str) -> None:
        """Go back to what was there before an installation, unless the application has started once."""
        record = self._shelf.record(name)
        if record.settled:
            return
        await self._applications.stop(name)
        former = self._shelf.undo(name)
        if former is None:
            self._shelf.clear(name)
            await self._applications.forget(record)
        else:
            await self._applications.forget_input(record, former)
        self._start_again(former)

    def _start_again(self, record: Installed | None) -> None:
        if record is not None and record.started:
            self._applications.start(record.manifest.name)

    def _notify(self, address: Address, entry: Entry, percent: int) -> None:
        request = entry.request
        to = control.notify_topic(
            address.account, request.requester_id, address.application, self._device, address.resource
        )
        news = Notification(request.request_id, self._device, IN_PROGRESS, percent)
        self._publish(to, control.encode(news))

    async def _uninstall(self, name: str, again: bool) -> Outcome:
        if again and name not in self._shelf.installed:  # The former run was killed behind this line.
            self._shelf.clear(name)
            return Code.OK, {"name": name}
        self._hold.check()
        record = self._shelf.record(name)
        self._shelf.uninstall(name)
        await self._applications.stop(name)
        self._shelf.clear(name)
        await self._applications.forget(record)
        return Code.OK, {"name": name}

    async def _set_started(self, name: str, started: bool) -> Outcome:
        self._shelf.set_started(name, started)
        if not started:
            await self._applications.stop(name)
        elif trouble := await self._applications.start(name).settle():
            raise Refusal(Code.FAILED, Problem(f"the application does not start: {trouble}", "name", name))
        return Code.OK, {"name": name, "started": started}

    async def _configure(self, name: str, changes: dict[str, Any], replace: bool) -> Outcome:
        record = self._shelf.changed(name, changes, replace=replace)
        await self._applications.leave_topics(self._shelf.record(name), record)
        self._shelf.keep(name, record)
        await self._applications.configure(name, record)
        return Code.OK, {"properties": record.properties}


class _Progress:
    """Tells of a download from its thread, in steps."""

    def __init__(self, loop: asyncio.AbstractEventLoop, notify: Callable[[int], None]) -> None:
        self._loop = loop
        self._notify = notify
        self._told = 0

    def report(self, percent: int, stopping: bool) -> None:
        """Notify if it is time to. Raises `InterruptedError` when the gateway ends."""
        if stopping:
            raise InterruptedError("the gateway ends")
        if percent >= self._told + NOTIFY_PERCENT:
            self._told = percent
            self._loop.call_soon_threadsafe(self._notify, percent)


def _body(refusal: Refusal) -> dict[str, Any]:
    return {"errors": [msgspec.to_builtins(problem) for problem in refusal.problems]}


def _no_such_resource(address: Address) -> Refusal:
    known = [
        f"{PACKAGES} {GET} packages",
        f"{PACKAGES} {GET} applications",
        f"{PACKAGES} {EXEC} packages/install",
        f"{PACKAGES} {EXEC} packages/uninstall",
        f"{PACKAGES} {EXEC} applications/start",
        f"{PACKAGES} {EXEC} applications/stop",
        f"{CONFIGURATIONS} {GET} configurations/<application>",
        f"{CONFIGURATIONS} {PUT} configurations/<application>",
        f"{CONFIGURATIONS} {GET} delivery",
        f"{CONFIGURATIONS} {PUT} delivery",
        f"{COMMANDS} {GET} status",
        f"{COMMANDS} {EXEC} hold",
        f"{COMMANDS} {EXEC} release",
    ]
    given = f"{address.application} {address.verb} {address.resource}"
    return Refusal(Code.NOT_FOUND, Problem("no such resource", "resource", given, known))
