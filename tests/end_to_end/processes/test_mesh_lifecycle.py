"""Up and down of a mesh, with a stand-in for the local supervisor."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from running.waiting import until
from towpath.contracts.errors import TowpathError
from towpath.mesh import lifecycle
from towpath.mesh.home import Home
from towpath.mesh.lifecycle import down, processes, up
from towpath.mesh.names import SUPERVISOR
from towpath.mesh.settings import spec_of_sites
from towpath.processes import ChildSpec, find, launch, listed, stop

SPEC = spec_of_sites("jfk")

STAND_IN = """
import asyncio, signal, sys
from pathlib import Path
from towpath.processes import ChildSpec, Supervisor
from towpath.processes.claim import ALREADY_CLAIMED, AlreadyClaimedError, claim

async def main(run):
    signals = asyncio.Queue()
    for number in (signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, signals.put_nowait, number)
    sleeper = (sys.executable, "-c", "import time; time.sleep(600)")
    async with Supervisor([ChildSpec("child", sleeper, run / "child.log")], run) as supervisor:
        await supervisor.wait_ready(20)
        print("ready", flush=True)
        while await signals.get() is signal.SIGHUP:
            print("read again", flush=True)

run = Path(sys.argv[1])
try:
    claim(run, "local", sys.argv)
except AlreadyClaimedError:
    sys.exit(ALREADY_CLAIMED)
asyncio.run(main(run))
"""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    yield Home(tmp_path / "home")
    for record in listed(tmp_path / "home" / "run"):
        stop(tmp_path / "home" / "run", record.name, grace_s=0)


def stand_in(home: Home) -> list[str]:
    return [sys.executable, "-c", STAND_IN, str(home.run)]


def pid(home: Home, name: str) -> int:
    record = find(home.run, name)
    assert record is not None
    return record.pid


def log(home: Home) -> str:
    return home.log(SUPERVISOR).read_text()


def test_supervisor_runs_on_its_own_when_up_returns(home: Home) -> None:
    state = up(home, SPEC, supervisor=stand_in(home))
    assert list(state.sites) == ["jfk"]
    until(lambda: "ready" in log(home))
    assert {p.name: p.running for p in processes(home)} == {"child": True, SUPERVISOR: True}
    assert os.getsid(pid(home, SUPERVISOR)) == pid(home, SUPERVISOR)


def test_one_supervisor_stays_when_up_comes_twice(home: Home) -> None:
    first = up(home, SPEC, supervisor=stand_in(home))
    supervisor = pid(home, SUPERVISOR)
    assert up(home, SPEC, supervisor=stand_in(home)) == first
    assert pid(home, SUPERVISOR) == supervisor
    until(lambda: "ready" in log(home))
    assert "read again" not in log(home)


def test_running_supervisor_reads_the_mesh_again_when_up_adds_a_site(home: Home) -> None:
    up(home, SPEC, supervisor=stand_in(home))
    until(lambda: "ready" in log(home))
    state = up(home, spec_of_sites("jfk,lga"), supervisor=stand_in(home))
    assert list(state.sites) == ["jfk", "lga"]
    until(lambda: "read again" in log(home))


def test_up_says_where_to_look_when_the_supervisor_does_not_start(home: Home) -> None:
    with pytest.raises(TowpathError, match=r"local\.log"):
        up(home, SPEC, supervisor=[sys.executable, "-c", "raise SystemExit('broken')"])
    assert "broken" in log(home)


def test_everything_ends_when_down_is_called(home: Home) -> None:
    up(home, SPEC, supervisor=stand_in(home))
    until(lambda: "ready" in log(home))
    pids = [pid(home, "child"), pid(home, SUPERVISOR)]
    assert sorted(down(home)) == ["child", SUPERVISOR]
    assert [p for p in pids if psutil.pid_exists(p) and psutil.Process(p).status() != "zombie"] == []
    assert (processes(home), down(home)) == ([], [])


def test_orphans_end_when_down_comes_after_the_supervisor_was_killed(home: Home) -> None:
    up(home, SPEC, supervisor=stand_in(home))
    until(lambda: "ready" in log(home))
    child = pid(home, "child")
    os.kill(pid(home, SUPERVISOR), signal.SIGKILL)
    until(lambda: find(home.run, SUPERVISOR) is None)
    assert [p.running for p in processes(home) if p.name == "child"] == [True]
    assert down(home) == ["child"]
    until(lambda: not psutil.pid_exists(child) or psutil.Process(child).status() == "zombie")


def test_orphans_are_adopted_when_up_comes_after_the_supervisor_was_killed(home: Home) -> None:
    up(home, SPEC, supervisor=stand_in(home))
    until(lambda: "ready" in log(home))
    child, killed = pid(home, "child"), pid(home, SUPERVISOR)
    os.kill(killed, signal.SIGKILL)
    until(lambda: find(home.run, SUPERVISOR) is None)
    up(home, SPEC, supervisor=stand_in(home))
    until(lambda: "ready" in log(home))
    assert pid(home, "child") == child
    assert pid(home, SUPERVISOR) != killed


def test_everything_is_killed_when_down_is_called_and_nothing_ends_by_itself(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle, "STOP_DEADLINE_S", 0.5)
    stubborn = "import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True); time.sleep(600)"
    home.create()
    specs = [
        ChildSpec(name, (sys.executable, "-c", stubborn), home.log(name))
        for name in (SUPERVISOR, "a-agent", "hub")
    ]
    for spec in specs:
        launch(spec, home.run)
        until(lambda spec=spec: spec.log.read_text())
    assert sorted(down(home)) == ["a-agent", "hub", SUPERVISOR]
    assert listed(home.run) == []
