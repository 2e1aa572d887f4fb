"""One application: its input, its process and its results. A process that ends by itself is restarted."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from secrets import token_hex
from typing import Any, Protocol

import msgspec

from towpath import tasks
from towpath.atomic_write import write_atomically
from towpath.gateway.application_input import ApplicationInput
from towpath.gateway.restarts import Restarts
from towpath.gateway.worker import Start
from towpath.gateway.worker_process import WorkerEnded
from towpath.gateways.kinds.kind import kind_named
from towpath.gateways.package_shelf import Installed

log = logging.getLogger(__name__)

DISK_RETRY_S = INPUT_RETRY_S = 1.0

STARTING, RUNNING, RESTARTING, CRASH_LOOPS = "starting", "running", "restarting", "crash_loop"


class RunningWorker(Protocol):
    """A run of an application, see `WorkerProcess`."""

    @property
    def pid(self) -> int:
        """Number of its process."""
        ...

    async def send(self, number: int, event: dict[str, Any]) -> None:
        """Hand an event over."""
        ...

    async def configure(self, properties: dict[str, Any]) -> None:
        """Give it other properties. Raises `WorkerEnded` if it does not take them."""
        ...

    async def read(self) -> dict[str, Any]:
        """Return its next report. Raises `WorkerEnded`."""
        ...

    def confirm(self, number: int) -> None:
        """Tell it that the results of a report with this number are kept."""
        ...

    async def kill(self) -> None:
        """End it."""
        ...


Begin = Callable[[Start], Awaitable[RunningWorker]]
"""Starts a run. Raises `WorkerEnded`."""

Sink = Callable[[list[dict[str, Any]]], None]
"""Takes results. Raises `OSError` if the disk is full."""


class Application:
    """Runs an installed package until closed."""

    def __init__(
        self,
        record: Installed,
        device: str,
        directory: Path,
        state: Path,
        source: ApplicationInput,
        sink: Sink,
        begin: Begin,
    ) -> None:
        """`state`: where it keeps its state, a file with `.json` behind and perhaps a directory with `.d`.

        `begin` starts its process.
        """
        self._record = record
        self._device = device
        self._directory = directory
        self._state_directory = state.with_name(f"{state.name}.d")
        self._state_file = state.with_name(f"{state.name}.json")
        self._input = source
        self._sink = sink
        self._begin = begin
        self._worker: RunningWorker | None = None
        self._settled = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._restarts = Restarts()
        self._input_session = token_hex(6)
        self.results = self.rejected = 0
        self.reason: str | None = None
        """Reason of the last rejected event."""
        self.trouble: str | None = None
        """Reason for the end of the last run, if it ended by itself."""
        self.processes: dict[str, Any] | None = None
        """Processes that its process has started, in its own words."""
        self.state = STARTING

    def start(self) -> None:
        """Begin to run."""
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """End the process and the input."""
        await tasks.end([self._task])

    async def settle(self) -> str | None:
        """Wait until the process is ready or has failed to start. Return what is wrong, or None."""
        with contextlib.suppress(TimeoutError):
            kind = kind_named(self._record.manifest.kind)
            async with asyncio.timeout(kind.ready_s(self._record.properties)):
                await self._settled.wait()
        return None if self.state == RUNNING else self.trouble or "not ready yet"

    async def configure(self, record: Installed) -> None:
        """Change the properties of the running computation. One that does not run takes them at its start.

        One that does not answer is restarted with them.
        """
        self._record = record
        if self._worker is None:
            return
        try:
            await self._worker.configure(record.properties)
        except WorkerEnded as error:
            log.warning("%s does not take other properties while it runs: %s", self.name, error)
            if self._worker is not None:
                await self._worker.kill()

    @property
    def name(self) -> str:
        """Name of the application and its package."""
        return self._record.manifest.name

    def described(self) -> dict[str, Any]:
        """Return the state as the answer to GET `applications` has it."""
        return {
            "name": self.name,
            "version": self._record.manifest.version,
            "state": self.state,
            "pid": None if self._worker is None else self._worker.pid,
            "restarts": self._restarts.count,
            "trouble": self.trouble,
            "received": self._input.received,
            "malformed": self._input.malformed,
            "rejected": self.rejected,
            "last_rejection": self.reason,
            "results": self.results,
            **({} if self.processes is None else {"processes": self.processes}),
        }

    async def _run(self) -> None:
        reading = asyncio.create_task(self._take_in())
        try:
            while True:
                await self._run_once()
                delay = self._restarts.delay_s
                log.warning("%s: %s; restarting in %g s", self.name, self.trouble, delay)
                await asyncio.sleep(delay)
        finally:
            await tasks.end([reading])

    async def _take_in(self) -> None:
        while True:
            try:
                await self._input.run()
            except Exception:
                log.exception("%s: its input failed, and begins again", self.name)
            await asyncio.sleep(INPUT_RETRY_S)

    async def _run_once(self) -> None:
        began = time.monotonic()
        try:
            await self._work()
        except WorkerEnded as error:
            self.trouble = str(error)
        except OSError as error:  # No memory or no process for it.
            self.trouble = f"cannot be started: {error}"
        except Exception as error:  # Else it would count as running, and do nothing.
            log.exception("%s failed in the gateway", self.name)
            self.trouble = f"{type(error).__name__}: {error}"
        self.processes = None
        self._restarts.ended(time.monotonic() - began)
        self.state = CRASH_LOOPS if self._restarts.is_loop else RESTARTING
        self._settled.set()

    async def _work(self) -> None:
        manifest = self._record.manifest
        self._input.send_again()
        start = Start(
            manifest.operators,
            self._record.properties,
            manifest.limits,
            str(self._directory),
            self._saved_state(),
            manifest.kind,
            manifest.script,
            self._device,
            str(self._state_directory),
            self._record.sha256,
            self._input_session,
        )
        worker = await self._begin(start)
        if start.properties != self._record.properties:  # Changed meanwhile: the next run has them.
            await worker.kill()
            return
        self._worker, self.state = worker, RUNNING
        self._settled.set()
        feeding = asyncio.create_task(self._feed(worker))
        try:
            while True:
                await self._commit(await worker.read())
        finally:
            self._worker = None
            await tasks.end([feeding])
            await tasks.to_the_end(worker.kill())

    async def _feed(self, worker: RunningWorker) -> None:
        try:
            while True:
                pending = await self._input.next()
                await worker.send(pending.number, pending.event)
        except Exception as error:
            if not isinstance(error, WorkerEnded):
                log.exception("%s gets no events any more, and is restarted", self.name)
            await worker.kill()  # The reader learns that it has ended.

    async def _commit(self, line: dict[str, Any]) -> None:
        """Keep results, then the state, then acknowledge: in this order nothing is lost by a kill."""
        results = line["results"]
        while results:
            try:
                self._sink(results)
                break
            except OSError as error:
                log.error("%s waits, as its results cannot be kept: %s", self.name, error)
                await asyncio.sleep(DISK_RETRY_S)
        self.results += len(results)
        self.rejected, self.reason = line["rejected"], line["reason"]
        if any(each is not None for each in line["state"]):
            kept = {"sha256": self._record.sha256, "state": line["state"]}
            with contextlib.suppress(OSError):
                write_atomically(self._state_file, msgspec.json.encode(kept), durable=False)
        self._input.done(line["done"])
        if (number := line.get("confirm")) is not None and self._worker is not None:
            self._worker.confirm(number)
        if "processes" in line:
            self.processes, self.trouble = line["processes"], line["trouble"]
            self.state = CRASH_LOOPS if line["crash_loop"] else RUNNING

    def _saved_state(self) -> list[Any] | None:
        """Return the state of a former run of the same package, or None."""
        try:
            kept = msgspec.json.decode(self._state_file.read_bytes())
        except (OSError, msgspec.MsgspecError):
            return None
        return kept["state"] if kept.get("sha256") == self._record.sha256 else None
