"""Keep a changing set of processes running. Each leads a process group and ends with all that is in it."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import os
import re
import shutil
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from towpath import tasks
from towpath.gateway.parent_death import end_with_parent
from towpath.gateway.restarts import STEADY_S, Restarts, ending

log = logging.getLogger(__name__)

GRACE_S = 3.0
"""Time between SIGTERM and SIGKILL: a worker tells the master meanwhile, and ends its executors."""

CLEAR_S = 5.0
"""Time for the kernel to end a killed group."""

LOOK_S = 0.02
CONNECT_S, CONNECT_AGAIN_S = 5.0, 0.2
LONGEST_LOG = 1024**2
_TAIL = 65_536
_LONGEST_WORDS = 500
_ERROR = re.compile(r"^[A-Za-z_][\w.]*(Error|Exception|Interrupt|Exit)\w*(:|$)")
_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True)
class Command:
    """A process: what to run, and its environment beside that of this process."""

    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    after: tuple[str, int] | None = None
    """Address that must accept connections before the process starts."""


@dataclass
class _Running:
    command: Command
    task: asyncio.Task[None]
    restarts: Restarts = field(default_factory=Restarts)
    pid: int | None = None
    began: float = 0.0
    trouble: str | None = None
    """Reason for the end of the last run."""

    @property
    def is_loop(self) -> bool:
        """True if it ended again and again, and has not run for long since."""
        return self.restarts.is_loop and time.monotonic() - self.began < STEADY_S


class Processes:
    """The processes by name. `ended` is called with name and reason when one ends by itself."""

    def __init__(self, logs: Path, ended: Callable[[str, str], None]) -> None:
        self._logs = logs
        self._ended = ended
        self._running: dict[str, _Running] = {}
        self._leaders: set[int] = set()
        """Processes that are not reaped yet, also if they are not wanted any more."""

    async def apply(self, wanted: Mapping[str, Command]) -> None:
        """End processes that are not wanted so, and start those that are missing. The others go on."""
        await self._end([name for name, each in self._running.items() if wanted.get(name) != each.command])
        for name, command in wanted.items():
            if name not in self._running:
                task = asyncio.create_task(self._keep(name, command))
                self._running[name] = _Running(command, task)

    async def close(self) -> None:
        """End all, the last one first: the job before the cluster under it."""
        await self._end([*self._running][-1:])
        await self._end([*self._running])
        end = time.monotonic() + CLEAR_S
        while (left := _orphans()) and time.monotonic() < end:
            for pid in left:  # Daemons of Spark that lead groups of their own.
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.reap()
            await asyncio.sleep(LOOK_S)

    def reap(self) -> None:
        """Reap processes that were adopted and have ended. Leaders of groups have other waiters."""
        with contextlib.suppress(ChildProcessError):
            while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                if ended.si_pid in self._leaders:
                    return
                os.waitpid(ended.si_pid, 0)

    async def _end(self, names: list[str]) -> None:
        ending = [self._running.pop(name).task for name in names]
        await tasks.end(ending)

    def pids(self) -> dict[str, int | None]:
        """Return the process of each name; None while it waits for its restart."""
        return {name: each.pid for name, each in self._running.items()}

    def trouble(self) -> str | None:
        """Return why a process that is to run does not, or not for long; None if all run."""
        for name, each in self._running.items():
            if each.trouble and (each.pid is None or each.is_loop):
                return f"{name}: {each.trouble}"
        return None

    def crash_loops(self) -> list[str]:
        """Return the names of processes that end again and again."""
        return [name for name, each in self._running.items() if each.is_loop]

    def shorten_logs(self) -> None:
        """Move what logs have beyond their size aside. Processes append, so they go on in the same file."""
        for path in self._logs.glob("*.log"):
            if path.stat().st_size > LONGEST_LOG:
                shutil.copy(path, path.with_suffix(".log.1"))
                os.truncate(path, 0)

    async def _keep(self, name: str, command: Command) -> None:
        await asyncio.sleep(0)  # `apply` registers it first.
        here = self._running[name]
        while True:
            if command.after is not None:
                await _until_reachable(*command.after, here)
            here.began = time.monotonic()
            here.trouble = await self._run(name, command, here)
            here.restarts.ended(time.monotonic() - here.began)
            log.warning("%s: %s; restarting in %g s", name, here.trouble, here.restarts.delay_s)
            self._ended(name, here.trouble)
            await asyncio.sleep(here.restarts.delay_s)

    async def _run(self, name: str, command: Command, here: _Running) -> str:
        """Run a process once. Return why it ended. Nothing of its group is left behind, also if cancelled."""
        path = self._logs / f"{name}.log"
        try:
            with path.open("ab") as output:
                process = await asyncio.create_subprocess_exec(
                    *command.arguments,
                    env={**os.environ, **command.environment},
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    cwd=self._logs,
                    process_group=0,
                    preexec_fn=end_with_parent,
                )
        except OSError as error:
            return f"cannot be started: {error}"
        here.pid = process.pid
        self._leaders.add(process.pid)
        try:
            code = await process.wait()
        finally:
            here.pid = None
            await tasks.to_the_end(_end_group(process))
            self._leaders.discard(process.pid)
        return f"{ending(code)}: {_last_words(path)}"


def adopt_orphans() -> None:
    """Let this process become the parent of descendants whose parents die, so that it can reap them."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


async def _until_reachable(host: str, port: int, here: _Running) -> None:
    while True:
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(CONNECT_S):
                _, writer = await asyncio.open_connection(host, port)
            writer.close()
            return
        here.trouble = here.trouble or f"waits for {host}:{port}"
        await asyncio.sleep(CONNECT_AGAIN_S)


def _orphans() -> list[int]:
    """Return the children of this process."""
    return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]


async def _end_group(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        _signal(process.pid, signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GRACE_S):
                await process.wait()
    end = time.monotonic() + CLEAR_S
    while _signal(process.pid, signal.SIGKILL) and time.monotonic() < end:
        await asyncio.sleep(LOOK_S)
        if process.returncode is not None:  # Then those that are left were adopted.
            _reap_group(process.pid)
    await process.wait()


def _reap_group(group: int) -> None:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(-group, os.WNOHANG)


def _signal(group: int, number: signal.Signals) -> bool:
    """Signal a process group. Return False if it has no process any more."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    return True


def _last_words(path: Path) -> str:
    """Return the last error of a Python program in a log, or the last line."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL))
        lines = file.read().decode(errors="replace").splitlines()
    said = [line.strip() for line in lines if line.strip()]
    errors = [line for line in said if _ERROR.match(line)]
    return (errors or said or ["it wrote nothing"])[-1][:_LONGEST_WORDS]
