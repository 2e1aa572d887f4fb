"""A changing set of processes: what is wanted runs, what ends is restarted, and no group leaves anything."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from running.servers import free_port
from running.waiting import eventually
from towpath.gateway.spark.processes import Command, Processes

SLEEPS = Command(("sleep", "1000"), {})
WITH_CHILD = Command(("sh", "-c", "sleep 1000 & wait"), {})


@pytest.fixture
async def processes(tmp_path: Path) -> AsyncIterator[Processes]:
    running = Processes(tmp_path, lambda *_: None)
    yield running
    await running.close()


async def pid_of(processes: Processes, name: str, other_than: int | None = None) -> int:
    await eventually(lambda: processes.pids()[name] not in (None, other_than))
    pid = processes.pids()[name]
    assert pid is not None
    return pid


async def test_processes_when_others_are_wanted_then_those_that_stay_are_not_touched(
    processes: Processes,
) -> None:
    await processes.apply({"a": SLEEPS, "b": SLEEPS})
    a, b = await pid_of(processes, "a"), await pid_of(processes, "b")

    await processes.apply({"a": SLEEPS, "b": Command(("sleep", "999"), {}), "c": SLEEPS})

    assert await pid_of(processes, "a") == a
    assert await pid_of(processes, "b", other_than=b) != b
    await processes.apply({"a": SLEEPS})
    assert processes.pids() == {"a": a}


async def test_process_when_killed_then_what_it_started_goes_with_it_and_another_has_its_place(
    processes: Processes,
) -> None:
    await processes.apply({"a": WITH_CHILD})
    leader = psutil.Process(await pid_of(processes, "a"))
    await eventually(lambda: bool(leader.children()))
    (child,) = leader.children()

    os.kill(leader.pid, signal.SIGKILL)

    await pid_of(processes, "a", other_than=leader.pid)
    await eventually(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)


async def test_process_when_it_always_ends_at_once_then_is_told_as_a_crash_loop(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("towpath.gateway.restarts.FIRST_S", 0.01)

    await processes.apply({"a": Command(("sh", "-c", "echo no disk; exit 3"), {}), "b": SLEEPS})

    await eventually(lambda: processes.crash_loops() == ["a"])
    assert processes.trouble() == "a: exit code 3: no disk"


async def test_process_when_a_python_error_is_not_its_last_line_then_the_error_is_told(
    processes: Processes, tmp_path: Path
) -> None:
    text = "Traceback\n  line\na.b.StreamError: no file\n=== Plan ===\n+- Scan\n"
    (tmp_path / "text").write_text(text)

    await processes.apply({"a": Command(("sh", "-c", f"cat {tmp_path}/text; exit 1"), {})})

    await eventually(lambda: processes.trouble() == "a: exit code 1: a.b.StreamError: no file")


async def test_process_when_it_needs_a_server_then_waits_for_it(processes: Processes) -> None:
    port = free_port()
    await processes.apply({"a": Command(("sleep", "1000"), {}, ("127.0.0.1", port))})
    await eventually(lambda: processes.trouble() == f"a: waits for 127.0.0.1:{port}")
    assert processes.pids() == {"a": None}

    async with await asyncio.start_server(lambda *_: None, "127.0.0.1", port):
        await pid_of(processes, "a")

    assert processes.trouble() is None
