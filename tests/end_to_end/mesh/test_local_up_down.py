"""A whole mesh on this machine: up, survived, extended, down."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import psutil
import pytest

from towpath.mesh.home import Home
from towpath.mesh.lifecycle import down, processes, up
from towpath.mesh.names import SUPERVISOR
from towpath.mesh.settings import spec_of_sites
from towpath.processes import find

SHARED = {"hub", "redis", "coordinator", "monitor", "injector", "collector", SUPERVISOR}
UP_S = 120.0
"""An engine starts in five seconds when it has the machine for itself."""


def of_site(site: str) -> set[str]:
    return {f"{site}-agent", f"{site}-nats", f"{site}-engine"}


def wait_for(condition: Callable[[], object], within_s: float = UP_S) -> None:
    end = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end, "the condition did not come true"
        time.sleep(0.05)


def running(home: Home) -> dict[str, int]:
    return {p.name: p.pid for p in processes(home) if p.running and p.pid is not None}


def tree(pids: Iterable[int]) -> set[psutil.Process]:
    found: set[psutil.Process] = set()
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            found |= {process, *process.children(recursive=True)}
    return found


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    yield Home(tmp_path / "mesh")
    down(Home(tmp_path / "mesh"))


def test_mesh_goes_on_and_grows_when_its_supervisor_was_killed_and_ends_soon(
    home: Home,
) -> None:
    up(home, spec_of_sites("jfk"))
    wait_for(lambda: SHARED | of_site("jfk") <= running(home).keys())

    before = running(home)
    os.kill(before[SUPERVISOR], signal.SIGKILL)
    wait_for(lambda: find(home.run, SUPERVISOR) is None)
    up(home, spec_of_sites("jfk,lga"))
    wait_for(lambda: SHARED | of_site("jfk") | of_site("lga") <= running(home).keys())
    after = running(home)
    adopted = ("coordinator", "jfk-agent", "jfk-nats")  # Hub and Redis start anew: they learn of the site.
    assert {name: after[name] for name in adopted} == {name: before[name] for name in adopted}

    everything = tree(running(home).values())
    begun = time.monotonic()
    stopped = down(home)
    assert time.monotonic() - begun < 30
    assert SHARED | of_site("jfk") | of_site("lga") <= set(stopped)
    wait_for(lambda: all(has_ended(process) for process in everything))
    assert (running(home), of_home(home)) == ({}, [])
    assert down(home) == []


def test_nothing_is_left_when_down_comes_while_everything_starts(home: Home) -> None:
    up(home, spec_of_sites("jfk,lga"))
    wait_for(lambda: "jfk-agent" in running(home))
    everything = tree(running(home).values())
    begun = time.monotonic()
    down(home)
    assert time.monotonic() - begun < 30
    wait_for(lambda: all(has_ended(process) for process in everything))
    assert of_home(home) == []


def has_ended(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def of_home(home: Home) -> list[list[str]]:
    """Command lines of live processes that work in this home."""
    found: list[list[str]] = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if any(str(home.root) in argument for argument in process.cmdline()):
                found.append(process.cmdline())
    return found
