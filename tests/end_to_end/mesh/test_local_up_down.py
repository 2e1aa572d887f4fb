"""A whole mesh on this machine: up, survived, extended, down."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path

import psutil
import pytest

from running.command_line import UP_S
from running.waiting import until
from towpath.contracts.site import EngineSpec, EngineStart, MeshSpec
from towpath.mesh.home import Home
from towpath.mesh.lifecycle import down, processes, up
from towpath.mesh.names import SUPERVISOR
from towpath.mesh.settings import spec_of_sites
from towpath.processes import find

SHARED = {"hub", "redis", "coordinator", "monitor", "collector", SUPERVISOR}


def of_site(site: str) -> set[str]:
    return {f"{site}-agent", f"{site}-nats", f"{site}-engine"}


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


def with_engines(sites: str) -> MeshSpec:
    """Settings of a mesh whose engines run without jobs, too."""
    spec = spec_of_sites(sites)
    engine = EngineSpec(start=EngineStart.ALWAYS)
    return spec.model_copy(update={"sites": [s.model_copy(update={"engine": engine}) for s in spec.sites]})


def test_mesh_when_its_supervisor_was_killed_then_goes_on_and_grows_and_down_ends_it_all(home: Home) -> None:
    up(home, with_engines("jfk"))
    until(lambda: SHARED | of_site("jfk") <= running(home).keys(), UP_S)

    before = running(home)
    os.kill(before[SUPERVISOR], signal.SIGKILL)
    until(lambda: find(home.run, SUPERVISOR) is None)
    up(home, with_engines("jfk,lga"))
    until(lambda: SHARED | of_site("jfk") | of_site("lga") <= running(home).keys(), UP_S)
    after = running(home)
    adopted = ("coordinator", "jfk-agent", "jfk-nats")  # Hub and Redis restart: they learn of the site.
    assert {name: after[name] for name in adopted} == {name: before[name] for name in adopted}

    everything = tree(running(home).values())
    stopped = down(home)
    assert SHARED | of_site("jfk") | of_site("lga") <= set(stopped)
    until(lambda: all(has_ended(process) for process in everything))
    assert (running(home), of_home(home)) == ({}, [])
    assert down(home) == []


def test_mesh_when_down_comes_while_everything_starts_then_nothing_is_left(home: Home) -> None:
    up(home, spec_of_sites("jfk,lga"))
    until(lambda: "jfk-agent" in running(home))
    everything = tree(running(home).values())
    down(home)
    until(lambda: all(has_ended(process) for process in everything))
    assert of_home(home) == []


def has_ended(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def of_home(home: Home) -> list[list[str]]:
    """Return the command lines of live processes that work in this home."""
    found: list[list[str]] = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if any(str(home.root) in argument for argument in process.cmdline()):
                found.append(process.cmdline())
    return found
