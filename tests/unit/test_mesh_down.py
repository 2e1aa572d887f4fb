"""Down shares ten seconds between the supervisor and what the supervisor leaves behind."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from towpath.mesh import lifecycle
from towpath.mesh.home import Home
from towpath.mesh.lifecycle import down
from towpath.mesh.names import SUPERVISOR


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
