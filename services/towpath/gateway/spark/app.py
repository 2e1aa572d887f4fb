"""The wiring of a Spark application's process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import shutil
import socket
import sys
from pathlib import Path
from typing import Any

import msgspec

from towpath import tasks
from towpath.atomic_write import make_private_directory
from towpath.gateway.spark.commands import JOB, MASTER, Machine, checkpoint, wanted
from towpath.gateway.spark.job_feed import LONGEST_LINE, JobFeed
from towpath.gateway.spark.processes import Processes
from towpath.gateway.worker import COMMIT_EVERY_S, Start, write_line
from towpath.gateways.kinds.spark import SHARED, share_in, spark_home

log = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0
"""Time between two looks at the master's page."""

PAGE_WITHIN_S = 5.0


class NotStarted(Exception):
    """The job has ended before it ran. Its text says why."""


class SparkApplication:
    """Master, workers and job on this device, as its properties want them."""

    def __init__(self, start: Start, output: int) -> None:
        self._start = start
        self._output = output
        self._properties = start.properties
        own = make_private_directory(Path(start.state_directory).absolute())
        self._feed = JobFeed(own / "input", start.input_session, self._write)
        self._machine = _machine(start, own, self._feed)
        self._feed.go_on(start.state, checkpoint(self._machine, start.properties))
        self._processes = Processes(make_private_directory(own / "logs"), self._process_ended)
        self._failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._told: dict[str, Any] = {}

    async def run(self, lines: asyncio.StreamReader) -> None:
        """Work until the input ends. Raises `NotStarted`."""
        await self._feed.open()
        reading = asyncio.create_task(self._read(lines))
        others: list[asyncio.Task[Any]] = []
        try:
            await self._processes.apply(wanted(self._machine, self._properties))
            if JOB in self._processes.pids():
                others.append(asyncio.create_task(self._feed.started.wait()))
                await asyncio.wait({reading, self._failed, *others}, return_when=asyncio.FIRST_COMPLETED)
                if self._failed.done() and not reading.done():
                    raise NotStarted(self._failed.result())
                # Not earlier: if a new package does not start, the former one goes on.
                await asyncio.to_thread(_delete_old_state, self._machine, self._properties)
            self._write({"ready": True})
            self._feed.ready.set()
            others += [asyncio.create_task(each) for each in (self._store(), self._observe())]
            await asyncio.wait({reading, *others[-2:]}, return_when=asyncio.FIRST_COMPLETED)
            for each in (reading, *others):
                if each.done():
                    each.result()
        finally:
            await tasks.end([reading, *others])
            await self._processes.close()
            await self._feed.close()

    async def _read(self, lines: asyncio.StreamReader) -> None:
        while line := await lines.readline():
            match msgspec.json.decode(line):
                case {"n": number, "event": event}:
                    self._feed.take(number, event)
                case {"configure": properties}:
                    await self._configure(properties)
                case {"confirmed": number}:
                    self._feed.confirmed(number)

    async def _configure(self, properties: dict[str, Any]) -> None:
        if properties[SHARED] != self._properties[SHARED]:
            self._write({"refused": "another directory for the state needs a restart"})
            return
        self._properties = properties
        await self._processes.apply(wanted(self._machine, properties))
        self._write({"configured": True})

    async def _store(self) -> None:
        while True:
            try:
                self._feed.store()
            except OSError as error:
                log.error("events wait, as they cannot be kept: %s", error)
            await asyncio.sleep(COMMIT_EVERY_S)

    async def _observe(self) -> None:
        """Tell the gateway of the processes when something has changed."""
        while True:
            self._processes.reap()
            self._processes.shorten_logs()
            pids, loops = self._processes.pids(), self._processes.crash_loops()
            seen = {"pids": pids, **(await self._cluster() if MASTER in pids else {})}
            told = {"processes": seen, "trouble": self._processes.trouble(), "crash_loop": bool(loops)}
            if told != self._told:
                self._told = told
                self._feed.tell(**told)
            await asyncio.sleep(LOOK_EVERY_S)

    async def _cluster(self) -> dict[str, Any]:
        """Return what the master's page says; nothing while it does not answer."""
        host = share_in(self._properties, self._machine.device).address
        try:
            async with asyncio.timeout(PAGE_WITHIN_S):
                page = await _page(host, self._machine.page_port)
        except (OSError, TimeoutError, ValueError):
            return {}
        alive = [each for each in page["workers"] if each["state"] == "ALIVE"]
        return {
            "workers": len(alive),
            "cores": sum(each["cores"] for each in alive),
            "cores_used": sum(each["coresused"] for each in alive),
        }

    def _process_ended(self, name: str, why: str) -> None:
        if name == JOB and not self._feed.started.is_set() and not self._failed.done():
            self._failed.set_result(why)

    def _write(self, line: dict[str, Any]) -> None:
        write_line(self._output, line)


async def run(output: int) -> int:
    """Run the application whose description comes first on standard input. Return the exit code."""
    lines = asyncio.StreamReader(limit=LONGEST_LINE)
    protocol = asyncio.StreamReaderProtocol(lines)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
    first = await lines.readline()
    if not first:
        return 0
    try:
        start = msgspec.convert(msgspec.json.decode(first)["start"], Start)
        await SparkApplication(start, output).run(lines)
    except (NotStarted, OSError) as error:
        with contextlib.suppress(OSError):
            write_line(output, {"refused": str(error)})
        return 1
    return 0


def _machine(start: Start, own: Path, feed: JobFeed) -> Machine:
    home = spark_home()
    if home is None:
        raise NotStarted("PySpark is not installed on this device any more")
    scratch = own / "scratch"
    shutil.rmtree(scratch, ignore_errors=True)
    return Machine(
        spark_home=home,
        script=Path(start.directory, start.script).absolute(),
        device=start.device,
        scratch=make_private_directory(scratch),
        own=own,
        generation=f"{start.sha256[:16]}-{feed.identity}",
        feed=feed.name,
        alone_port=_free_port(),
        page_port=_free_port(),
    )


def _delete_old_state(machine: Machine, properties: dict[str, Any]) -> None:
    """Delete the state of the jobs of former packages."""
    present = checkpoint(machine, properties)
    for old in present.parent.glob("checkpoint-*"):
        if old != present:
            shutil.rmtree(old, ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


async def _page(host: str, port: int) -> dict[str, Any]:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(b"GET /json/ HTTP/1.0\r\n\r\n")
        return json.loads((await reader.read()).partition(b"\r\n\r\n")[2])
    finally:
        writer.close()
