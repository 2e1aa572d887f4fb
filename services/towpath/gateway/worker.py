"""The process in which one application runs: `python -m towpath.gateway.worker`. Lines of JSON in and out.

It lives apart from the gateway, with limits of its own: what a package's code does wrong ends this process
alone. It ends with the gateway, whatever that dies of.

    in    {"start": {...}}                       once, first
          {"n": 7, "event": {...}}               an event; numbers grow
          {"configure": {...}}                   other properties
    out   {"ready": true} or {"refused": "..."}  once
          {"configured": true} or {"refused": "..."}
          {"results": [...], "done": 7, "state": [...], "rejected": 0, "reason": null}

A report of another program for another kind of application (see `libs/towpath/gateways/kinds`) may also have:

          "confirm": 3                           answered by {"confirmed": 3} when its results are kept
          "processes": {...}, "trouble": null, "crash_loop": false
"""

from __future__ import annotations

import os
import resource
import select
import sys
import time
from typing import Any

import msgspec

from towpath.contracts.gateway import Limits
from towpath.gateway.parent_death import end_with_parent
from towpath.gateways.operators.chain import Chain
from towpath.gateways.refusal import Refusal

COMMIT_EVERY_S = 0.05
"""Least time between two reports of results, state and progress.

A broker may send no more than twenty events before one is acknowledged, and they are with a report."""

COMMIT_SHARE = 20
"""Part of the time that reports may take: a large state is reported less often."""

_READ_BYTES = 256 * 1024


class Start(msgspec.Struct, frozen=True):
    """Content of the first line."""

    operators: list[dict[str, Any]]
    properties: dict[str, Any]
    limits: Limits
    directory: str
    """Directory of the package, from which its modules are imported."""
    state: list[Any] | None = None
    """State that the last report of a former run had."""
    kind: str = "operators"
    script: str = ""
    device: str = ""
    state_directory: str = ""
    """Directory of the application's own. It may not exist yet, and goes when the package is uninstalled."""
    sha256: str = ""
    """Digest of the package."""
    input_session: str = ""
    """Changes when the numbers of events begin again."""


class Worker:
    """Reads lines, runs the chain, and writes lines."""

    def __init__(self, start: Start, output: int) -> None:
        self._output = output
        self._limits = start.limits
        self._chain = Chain(start.operators, start.properties)
        self._chain.prepare()
        if start.state is not None:
            self._chain.restore(start.state)
        self._done = self._reported = 0
        self._results: list[dict[str, Any]] = []
        self._committed_at = 0.0
        self._commit_every_s = COMMIT_EVERY_S

    def run(self, rest: bytes) -> None:
        """Work until the input ends. `rest` is what came behind the first line."""
        *lines, rest = rest.split(b"\n")
        while True:
            for line in lines:
                self._take(msgspec.json.decode(line))
            self._results += self._chain.tick(time.time())
            self._commit()
            if not select.select([0], [], [], self._pause())[0]:
                lines = []
                continue
            block = os.read(0, _READ_BYTES)
            if not block:
                return
            *lines, rest = (rest + block).split(b"\n")

    def _take(self, line: dict[str, Any]) -> None:
        _allow_processor_time(self._limits.cpu_s_per_event)
        if "event" in line:
            self._results += self._chain.take(line["event"], time.time())
            self._done = line["n"]
        elif "configure" in line:
            try:
                self._chain.configure(line["configure"])
                self._write({"configured": True})
            except Refusal as refusal:
                self._write({"refused": str(refusal)})

    def _pause(self) -> float:
        """Return how long to wait for input: until a window ends, or a report is due."""
        due = self._chain.next_due()
        until_due = 60.0 if due is None else max(0.0, due - time.time())
        if not self._has_news:
            return until_due
        return min(until_due, max(0.0, self._committed_at + self._commit_every_s - time.monotonic()))

    @property
    def _has_news(self) -> bool:
        return bool(self._results) or self._done > self._reported

    def _commit(self) -> None:
        """Report results and progress with the state behind them, unless the last report was just now."""
        began = time.monotonic()
        if not self._has_news or began < self._committed_at + self._commit_every_s:
            return
        self._write(
            {
                "results": self._results,
                "done": self._done,
                "state": self._chain.state(),
                "rejected": self._chain.rejected,
                "reason": self._chain.last_rejection,
            }
        )
        self._results, self._reported, self._committed_at = [], self._done, time.monotonic()
        self._commit_every_s = max(COMMIT_EVERY_S, COMMIT_SHARE * (self._committed_at - began))

    def _write(self, line: dict[str, Any]) -> None:
        write_line(self._output, line)


def write_line(descriptor: int, line: dict[str, Any]) -> None:
    """Write an object as one line of JSON."""
    data = memoryview(msgspec.json.encode(line) + b"\n")
    while data:
        data = data[os.write(descriptor, data) :]


def main() -> int:
    """Run the application whose description comes first on standard input. Return the exit code."""
    end_with_parent()
    output = os.dup(1)
    os.dup2(2, 1)  # What a package prints goes to the log, not between the lines.
    received = b""
    while b"\n" not in received:
        block = os.read(0, _READ_BYTES)
        if not block:
            return 0
        received += block
    first, rest = received.split(b"\n", 1)
    start = msgspec.convert(msgspec.json.decode(first)["start"], Start)
    _limit(start.limits)
    sys.path.insert(0, start.directory)
    try:
        worker = Worker(start, output)
    except Exception as error:
        write_line(output, {"refused": f"{type(error).__name__}: {error}"})
        return 1
    write_line(output, {"ready": True})
    worker.run(rest)
    return 0


def _limit(limits: Limits) -> None:
    memory = limits.memory_mb * 1024**2
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _allow_processor_time(limits.cpu_s_per_event)
    os.nice(limits.niceness)


def _allow_processor_time(seconds: int) -> None:
    """Let the kernel end this process if its next event takes more processor time than this."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = int(used.ru_utime + used.ru_stime) + seconds + 1
    resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.getrlimit(resource.RLIMIT_CPU)[1]))


if __name__ == "__main__":
    sys.exit(main())
