"""Keep processes running: adopt, start, watch and restart them, and stop them in order.

A supervisor may be killed at any line. Its children go on, and the next supervisor adopts them by
their pid files. The order of start and stop follows `ChildSpec.after`.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import ParamSpec, Self, TypeVar

import psutil

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.site import ProcessStatus
from towpath.processes.record import find
from towpath.processes.runtime import Runtime, Runtimes, status
from towpath.processes.spec import ChildSpec
from towpath.tasks import end, to_the_end

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

THREADS = 64
"""Threads for blocking calls. All children of a level end together, and each holds a thread for seconds."""

WATCH_INTERVAL_S = 0.2
"""Between looks at a child. An outage is noticed within this time, at the cost of reading one small file
of /proc."""

PROBE_DEADLINE_S = 3.0
"""Deadline for one answer of a readiness probe."""


@dataclass(frozen=True)
class Backoff:
    """Pauses before restarts in seconds: doubled after each failure, from `first_s` up to `longest_s`."""

    first_s: float = 0.2
    longest_s: float = 5.0
    healthy_s: float = 30.0
    """A run of this length clears all failures before it."""

    def pause_s(self, failures: int) -> float:
        """Return the pause after this many failures in a row."""
        return min(self.first_s * 2 ** min(failures, 30), self.longest_s)


@dataclass
class _Child:
    """A child, and the task that keeps it running."""

    spec: ChildSpec
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    fresh: bool = False
    """True if this supervisor started it, and it has not been ready since."""
    restarts: int = 0
    failures: int = 0
    error: str | None = None
    """The way it ended last time, or the reason why it did not start."""
    keeper: asyncio.Task[None] | None = None


class Supervisor:
    """Keeps a list of children running. Use it as an async context manager, or call `start` and `stop`."""

    def __init__(self, children: Sequence[ChildSpec], run: Path, *, backoff: Backoff | None = None) -> None:
        self._run = run
        self._runtimes = Runtimes(run)
        self._backoff = backoff or Backoff()
        self._kept: dict[str, _Child] = {spec.name: _Child(spec) for spec in _ordered(children)}
        self._applying = asyncio.Lock()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="processes")

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def start(self) -> None:
        """Begin to keep all children running. Returns at once. See `wait_ready`."""
        for kept in self._kept.values():
            if kept.keeper is None:
                kept.keeper = asyncio.create_task(self._keep(kept), name=f"keep {kept.spec.name}")

    async def wait_ready(self, within_s: float) -> None:
        """Wait until every child is ready. Raises `TowpathError` (deadline) that names those that are not."""
        try:
            async with asyncio.timeout(within_s):
                for kept in list(self._kept.values()):
                    await kept.ready.wait()
        except TimeoutError as error:
            late = [name for name, kept in self._kept.items() if not kept.ready.is_set()]
            raise TowpathError(
                ErrorCode.DEADLINE, f"not ready within {within_s:g} s: {', '.join(late)}", field="processes"
            ) from error

    async def stop(self) -> None:
        """End all children, those that others need last. Those at the same depth end together."""
        await self._release(list(self._kept.values()))
        for level in reversed(_levels([kept.spec for kept in self._kept.values()])):
            await asyncio.gather(*(self._end(self._kept[name]) for name in level))
        self._threads.shutdown(wait=False)

    async def apply(self, children: Sequence[ChildSpec]) -> None:
        """Replace the list of children: start new ones, end missing ones, replace changed ones."""
        async with self._applying:
            await to_the_end(self._apply(children))

    async def keep(self, spec: ChildSpec) -> None:
        """Keep one more child running, or replace the one of the same name."""
        async with self._applying:
            others = [kept.spec for name, kept in self._kept.items() if name != spec.name]
            await to_the_end(self._apply([*others, spec]))

    async def drop(self, name: str) -> None:
        """End a child and no longer keep it. Without a child of this name, do nothing."""
        async with self._applying:
            others = [kept.spec for kept in self._kept.values() if kept.spec.name != name]
            await to_the_end(self._apply(others))

    def keeps(self, name: str) -> bool:
        """True if there is a child of this name."""
        return name in self._kept

    @property
    def names(self) -> list[str]:
        """Return the names of all children, in order of start."""
        return list(self._kept)

    async def _apply(self, children: Sequence[ChildSpec]) -> None:
        wanted = {spec.name: spec for spec in _ordered(children)}
        changed = [kept for name, kept in self._kept.items() if wanted.get(name) != kept.spec]
        await self._release(changed)
        for kept in reversed(changed):
            spec = wanted.get(kept.spec.name)
            if spec is None or _replaced(kept.spec, spec):
                await self._end(kept)
            kept.spec = spec or kept.spec
        self._kept = {name: self._kept.get(name) or _Child(spec) for name, spec in wanted.items()}
        self.start()

    async def restart(self, name: str) -> None:
        """End a child that runs but does not work. It is then started again."""
        await self._end(self._kept[name])

    async def reload(self, name: str) -> bool:
        """Send SIGHUP to a child that is ready, so that it reads its configuration again.

        Return False if it is not ready: a process that starts may not take the signal yet, and reads its
        configuration anyway.
        """
        return self.is_ready(name) and await self._call(self._hang_up, name)

    def is_ready(self, name: str) -> bool:
        """True if the child runs and has answered its probe since it started."""
        return self._kept[name].ready.is_set()

    def is_starting(self, name: str) -> bool:
        """True if this supervisor started the child, and it has not answered its probe since.

        No one can have asked it for anything yet.
        """
        return self._kept[name].fresh

    async def status(self) -> list[ProcessStatus]:
        """Return the state of all children, in order of start."""
        return await asyncio.gather(*(self._call(self._status, kept) for kept in self._kept.values()))

    def trouble(self, name: str) -> str | None:
        """Return one line that tells why the child is not ready, if that is known."""
        kept = self._kept[name]
        return None if kept.ready.is_set() else kept.error

    def _status(self, kept: _Child) -> ProcessStatus:
        name = kept.spec.name
        record = find(self._run, name)
        if record is None:
            return ProcessStatus(name=name, pid=None, running=False, restarts=kept.restarts, error=kept.error)
        found = status(record)
        return found.model_copy(update={"restarts": kept.restarts, "error": found.error or kept.error})

    def _hang_up(self, name: str) -> bool:
        record = find(self._run, name)
        process = record.process if record else None
        try:
            if process is not None:
                process.send_signal(signal.SIGHUP)
        except psutil.Error:  # It has ended, or belongs to another user in its container.
            return False
        return process is not None

    async def _release(self, children: list[_Child]) -> None:
        """Stop keeping the children, without ending them."""
        await end(kept.keeper for kept in children)
        for kept in children:
            kept.keeper = None

    async def _end(self, kept: _Child) -> None:
        kept.ready.clear()
        kept.fresh = False
        try:
            await self._call(self._runtime(kept).stop, kept.spec.name, grace_s=kept.spec.stop_s)
        except TowpathError as error:
            # The daemon of a container refuses. The other children are ended nevertheless.
            log.error("%s could not be ended: %s", kept.spec.name, error)

    async def _keep(self, kept: _Child) -> None:
        """Run one child until cancelled: start it, wait until it is ready, watch it, pause, start again."""
        loop = asyncio.get_running_loop()
        for name in kept.spec.after:
            await self._kept[name].ready.wait()
        while True:
            begun = loop.time()
            try:
                await to_the_end(self._begin(kept))
                await self._watch(kept)
                kept.error = await self._call(self._runtime(kept).ending, kept.spec.name)
            except (TowpathError, OSError, psutil.Error) as error:
                kept.error = error.detail.one_line() if isinstance(error, TowpathError) else str(error)
            kept.ready.clear()
            if loop.time() - begun >= self._backoff.healthy_s:
                kept.failures = 0
            pause_s = self._backoff.pause_s(kept.failures)
            kept.failures += 1
            kept.restarts += 1
            told = kept.error or "ended"
            log.warning("%s: %s; restart %d in %.1f s", kept.spec.name, told, kept.restarts, pause_s)
            await asyncio.sleep(pause_s)

    async def _begin(self, kept: _Child) -> None:
        """Adopt the running child, or start one. A process of another version is ended first."""
        spec, runtime = kept.spec, self._runtime(kept)
        record = await self._call(runtime.adoptable, spec)
        if record is not None and (record.command, record.version) == (spec.command, spec.kept_version):
            kept.restarts = max(kept.restarts, record.restarts)
            log.info("%s is already running, pid %d", spec.name, record.pid)
            return
        # Stop it also when the leader is gone: what it left behind would be in the way of the new one.
        await self._call(runtime.stop, spec.name, grace_s=spec.stop_s)
        started = await self._call(runtime.launch, spec, restarts=kept.restarts)
        kept.fresh = True
        log.info("%s started, pid %d", spec.name, started.pid)

    async def _watch(self, kept: _Child) -> None:
        """Return when the child has ended. Raises `TowpathError` when it did not become ready in time."""
        end = asyncio.get_running_loop().time() + kept.spec.ready_s
        while await self._call(self._runtime(kept).runs, kept.spec.name):
            if not kept.ready.is_set():
                if await _answers(kept.spec):
                    kept.fresh = False
                    kept.ready.set()
                elif asyncio.get_running_loop().time() > end:
                    await self._end(kept)
                    raise TowpathError(
                        ErrorCode.DEADLINE, f"not ready within {kept.spec.ready_s:g} s", field=kept.spec.name
                    )
            await asyncio.sleep(WATCH_INTERVAL_S)

    async def _call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function that may block in a thread."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, partial(function, *args, **kwargs))

    def _runtime(self, kept: _Child) -> Runtime:
        return self._runtimes.of(kept.spec)


async def _answers(spec: ChildSpec) -> bool:
    if spec.ready is None:
        return True
    try:
        async with asyncio.timeout(PROBE_DEADLINE_S):
            return await spec.ready()
    except (TimeoutError, OSError):
        return False


def _replaced(old: ChildSpec, new: ChildSpec) -> bool:
    return (old.command, old.kept_version) != (new.command, new.kept_version)


def _levels(children: Sequence[ChildSpec]) -> list[list[str]]:
    """Return names grouped by depth: those without needs first. Raises `TowpathError` on a cycle."""
    known = {spec.name for spec in children}
    levels: list[list[str]] = []
    placed: set[str] = set()
    while len(placed) < len(known):
        level = [s.name for s in children if s.name not in placed and set(s.after) <= placed]
        if not level:
            stuck = sorted(known - placed)
            raise TowpathError(
                ErrorCode.INVALID,
                "processes wait for each other, or for one that does not exist",
                field="after",
                value=", ".join(stuck),
                allowed=sorted(known),
            )
        levels.append(level)
        placed |= set(level)
    return levels


def _ordered(children: Sequence[ChildSpec]) -> list[ChildSpec]:
    by_name = {spec.name: spec for spec in children}
    return [by_name[name] for level in _levels(list(by_name.values())) for name in level]
