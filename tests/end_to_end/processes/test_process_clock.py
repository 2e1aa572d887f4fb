"""The clock of one process is set, while it runs."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from towpath.lab.faults.process_clock import Offsets, set_off

SLEEPER = """
import json, sys, threading, time
def ask():
    while True:
        time.time()
for _ in range(3):
    threading.Thread(target=ask, daemon=True).start()
for _ in sys.stdin:
    boot = time.clock_gettime(time.CLOCK_BOOTTIME)
    print(json.dumps({"time": time.time(), "boot": boot, "steady": time.monotonic()}), flush=True)
"""


class Asked:
    """A process that is asked for the time, while three of its threads ask all the time."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.pid = process.pid
        self._process = process

    def clocks(self) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


@pytest.fixture
def asked() -> Iterator[Asked]:
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", SLEEPER], stdin=pipe, stdout=pipe, text=True) as process:
        yield Asked(process)
        process.kill()


@pytest.mark.parametrize("ahead_s", [3600, -3600, -round(time.time())])
def test_clock_when_set_off_then_the_process_sees_it_until_it_is_set_back(asked: Asked, ahead_s: int) -> None:
    for offsets in (Offsets(ahead_s, 600), Offsets()):
        set_off(asked.pid, offsets)
        seen = asked.clocks()
        assert seen["time"] == pytest.approx(time.time() + offsets.realtime_s, abs=2)
        assert seen["boot"] == pytest.approx(time.clock_gettime(time.CLOCK_BOOTTIME) + offsets.boot_s, abs=2)
        assert seen["steady"] == pytest.approx(time.monotonic(), abs=2)


def test_clock_when_the_process_has_ended_then_says_so() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    with pytest.raises(ProcessLookupError):
        set_off(ended.pid, Offsets(1))
