"""Down ends all within ten seconds, and up tells the supervisor what an earlier one did not."""

from __future__ import annotations

import signal
from pathlib import Path
from types import SimpleNamespace

import pytest

from towpath.mesh import lifecycle
from towpath.mesh.home import Home
from towpath.mesh.lifecycle import down, up
from towpath.mesh.names import SUPERVISOR
from towpath.mesh.provisioning import provision
from towpath.mesh.settings import spec_of_sites


def test_down_when_nothing_ends_by_itself_then_waits_ten_seconds_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed_s = 0.0
    graces: dict[str, float] = {}

    def stop(run: Path, name: str, *, grace_s: float) -> bool:
        nonlocal passed_s
        graces[name] = grace_s
        passed_s += grace_s if name == SUPERVISOR else 0  # The others are stopped at the same time.
        return True

    running = [SimpleNamespace(name=name, process=object()) for name in (SUPERVISOR, "a-agent", "hub")]
    monkeypatch.setattr(lifecycle, "time", SimpleNamespace(monotonic=lambda: passed_s))
    monkeypatch.setattr(lifecycle, "listed", lambda run: running if not graces else running[1:])
    monkeypatch.setattr(lifecycle, "stop", stop)

    assert sorted(down(Home(tmp_path))) == ["a-agent", "hub", SUPERVISOR]

    others = [grace_s for name, grace_s in graces.items() if name != SUPERVISOR]
    assert len(others) == 2
    assert graces[SUPERVISOR] + max(others) <= 10


def test_up_when_an_earlier_one_was_killed_before_it_told_the_supervisor_then_tells_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[int, int]] = []
    monkeypatch.setattr(lifecycle, "find", lambda run, name: SimpleNamespace(pid=4711))
    monkeypatch.setattr(lifecycle.os, "kill", lambda pid, number: told.append((pid, number)))
    home, spec = Home(tmp_path), spec_of_sites("jfk,lga")
    provision(home, spec)

    up(home, spec, supervisor=["unused"])

    assert told == [(4711, signal.SIGHUP)]
