"""A single-shot fault strikes when its condition holds, and not again because the guard died."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from running.guard_trial import SCOPE, WITH_CHILD, counts, is_gone, loaded, new_home, running, tell
from running.waiting import until
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.lab.containers import control
from towpath.lab.guard.guard import Guard
from towpath.mesh.home import Home

ENDS_IN_ORDER = """\
import pathlib, signal, sys, time
def end(*_):
    pathlib.Path(sys.argv[1]).write_text("ended")
    sys.exit()
signal.signal(signal.SIGTERM, end)
pathlib.Path(sys.argv[1]).write_text("runs")
while True: time.sleep(0.05)
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return new_home(tmp_path)


def test_family_is_killed_when_a_rule_kills_an_engine(home: Home) -> None:
    with running(home, "jfk-engine", WITH_CHILD) as engine:
        until(engine.children)
        [child] = engine.children()
        tell(home, loaded("kill", "process", "jfk-engine", once=True))
        Guard(home, SCOPE).look()
        until(lambda: is_gone(engine) and is_gone(child))


def test_process_ends_in_good_order_when_a_rule_restarts_it(home: Home) -> None:
    with running(home, "jfk-nats", ENDS_IN_ORDER) as process:
        said = home.root / "jfk-nats.txt"
        until(lambda: said.exists() and said.read_text() == "runs")
        tell(home, loaded("restart", "process", "jfk-nats", once=True))
        Guard(home, SCOPE).look()
        until(lambda: is_gone(process))
        assert said.read_text() == "ended"


def test_process_is_killed_once_when_the_guard_dies_and_the_lease_is_over_meanwhile(home: Home) -> None:
    rule = loaded("kill", "process", "jfk-nats", once=True)
    tell(home, rule)
    with running(home, "jfk-nats") as process:
        Guard(home, SCOPE).look()
        until(lambda: is_gone(process))
    with running(home, "jfk-nats") as process:
        tell(home, rule, lease_s=-1)
        Guard(home, SCOPE).look()
        tell(home, rule)
        for guard in (Guard(home, SCOPE), Guard(home, SCOPE)):
            guard.look()
            guard.look()
            guard.release_all()
        assert lives_on(process)
        tell(home, loaded("kill", "process", "jfk-nats", once=True, version=2))
        Guard(home, SCOPE).look()
        until(lambda: is_gone(process))


def lives_on(process: psutil.Process) -> bool:
    """True if the process was not killed. It waits, because a signal takes a moment."""
    try:
        process.wait(0.5)
    except psutil.TimeoutExpired:
        return True
    return False


def test_rule_waits_when_its_process_does_not_run(home: Home) -> None:
    guard = Guard(home, SCOPE)
    tell(home, loaded("kill", "process", "jfk-nats", once=True))
    assert guard.look()
    with running(home, "jfk-nats") as process:
        guard.look()
        until(lambda: is_gone(process))
    guard.release_all()
    assert counts(home) == {"kill-jfk-nats": (1, 1, 0)}


def test_rule_acts_at_every_third_look_when_its_condition_says_so(home: Home) -> None:
    guard = Guard(home, SCOPE)
    with running(home, "jfk-nats"):
        tell(home, loaded("restart", "process", "jfk-nats", every=3))
        with running(home, "jfk-agent"):
            for _ in range(2):
                guard.look()
            guard.release_all()
            assert counts(home) == {"restart-jfk-nats": (2, 0, 0)}
            guard.look()
        guard.release_all()
    assert counts(home) == {"restart-jfk-nats": (3, 1, 0)}


def test_rule_about_a_container_fails_with_the_reason_when_there_is_no_daemon(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/missing.sock")
    guard = Guard(home, SCOPE)
    tell(home, loaded("pause", "container", "towpath-hub"))
    guard.look()
    guard.release_all()
    assert counts(home) == {"pause-towpath-hub": (1, 1, 1)}
    with pytest.raises(TowpathError, match="container daemon") as refused:
        control.kill("towpath-hub")
    assert refused.value.detail.code is ErrorCode.UNREACHABLE
