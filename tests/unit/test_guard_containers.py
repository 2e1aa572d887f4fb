"""A guard's changes to a container are undone, by any process and in any order."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from running.guard_trial import SCOPE, counts, loaded, new_home, tell
from towpath.containers.errors import NoDaemon, NoSuchContainer
from towpath.contracts.faults import LoadedRule
from towpath.lab.containers import control
from towpath.lab.faults import container_fault
from towpath.lab.guard import watchdog
from towpath.lab.guard.guard import Guard
from towpath.lab.guard.process import held_path
from towpath.mesh.home import Home

NAME, CPUS = "towpath-jfk", 2.0


class Container:
    """A double of a container: the calls that faults make to it."""

    def __init__(self, container_id: str, policy: str = "unless-stopped") -> None:
        self.id, self.name, self.status = container_id, NAME, "running"
        self.attrs = {"HostConfig": {"NanoCpus": int(CPUS * 10**9), "RestartPolicy": {"Name": policy}}}

    @property
    def cpus(self) -> float:
        return self.attrs["HostConfig"]["NanoCpus"] / 10**9

    def kill(self) -> None:
        self.status = "exited"

    def stop(self, timeout: int) -> None:
        self.status = "exited"

    def start(self) -> None:
        self.status = "running"


class Daemon:
    """A daemon with one container. It can stop answering."""

    def __init__(self) -> None:
        self.container = Container("1a")
        self.away = False
        self.api = self

    @contextmanager
    def answering(self) -> Iterator[Daemon]:
        if self.away:
            raise NoDaemon("unix:///missing.sock", "No such file or directory")
        yield self

    def find(self, _: Any, name: str) -> Container:
        if name not in (self.container.id, NAME):
            raise NoSuchContainer(name, [NAME])
        return self.container

    def _url(self, path: str, container_id: str) -> str:
        assert container_id == self.container.id
        return path

    def _post_json(self, _: str, data: dict[str, int]) -> None:
        self.container.attrs["HostConfig"].update(data)

    def _raise_for_status(self, answer: None) -> None:
        pass


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return new_home(tmp_path)


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Daemon:
    fake = Daemon()
    monkeypatch.setattr(watchdog, "own_id", lambda: None)
    for module in (container_fault, control):
        monkeypatch.setattr(module, "daemon", fake.answering)
        monkeypatch.setattr(module, "find", fake.find)
    return fake


def limiting(cpus: float, version: int = 1) -> LoadedRule:
    return loaded("cpu_limit", "container", NAME, version=version, cpus=cpus)


def test_limit_is_put_back_when_the_guard_died_after_it_was_lowered(home: Home, daemon: Daemon) -> None:
    tell(home, limiting(0.5))
    Guard(home, SCOPE).look()
    assert daemon.container.cpus == 0.5
    next_guard = Guard(home, SCOPE)
    next_guard.look()
    assert daemon.container.cpus == 0.5
    tell(home)
    assert not next_guard.look()
    assert daemon.container.cpus == CPUS
    assert not held_path(home, SCOPE).exists()


@pytest.mark.parametrize("first_to_end", [0, 1])
def test_limit_is_the_strictest_when_two_rules_lower_it_and_the_first_one_in_the_end(
    home: Home, daemon: Daemon, first_to_end: int
) -> None:
    rules = [limiting(0.5, version=1), limiting(0.25, version=2)]
    guard = Guard(home, SCOPE)
    tell(home, rules[0])
    guard.look()
    tell(home, *rules)
    guard.look()
    guard.look()
    assert daemon.container.cpus == 0.25
    left = rules[1 - first_to_end]
    tell(home, left)
    guard.look()
    assert daemon.container.cpus == (0.25 if left is rules[1] else 0.5)
    tell(home)
    assert not guard.look()
    assert daemon.container.cpus == CPUS


def test_limit_is_the_first_one_in_the_end_when_guards_of_two_scopes_lower_it(
    home: Home, daemon: Daemon
) -> None:
    guards = Guard(home, SCOPE), Guard(home, "hub")
    tell(home, limiting(0.5))
    guards[0].look()
    shutil.copy(home.fault_rules(SCOPE), home.fault_rules("hub"))
    guards[1].look()
    tell(home)
    guards[0].look()
    assert daemon.container.cpus == CPUS
    guards[1].look()
    assert daemon.container.cpus == 0.5
    home.fault_rules("hub").unlink()
    guards[1].look()
    assert daemon.container.cpus == CPUS


def test_limit_is_what_others_have_made_of_it_when_they_raised_it_meanwhile(
    home: Home, daemon: Daemon
) -> None:
    guard = Guard(home, SCOPE)
    tell(home, limiting(0.5))
    guard.look()
    daemon.container.attrs["HostConfig"]["NanoCpus"] = 1_500_000_000
    guard.look()
    assert daemon.container.cpus == 0.5
    tell(home)
    guard.look()
    assert daemon.container.cpus == 1.5


def test_container_is_left_alone_when_it_was_made_again_and_the_rule_is_gone(
    home: Home, daemon: Daemon
) -> None:
    guard = Guard(home, SCOPE)
    tell(home, limiting(0.5))
    guard.look()
    daemon.container = Container("2b")
    daemon.container.attrs["HostConfig"]["NanoCpus"] = 10**9
    tell(home)
    assert not guard.look()
    assert daemon.container.cpus == 1


def test_new_container_gets_its_own_limit_back_when_the_rule_went_on_over_its_making(
    home: Home, daemon: Daemon
) -> None:
    guard = Guard(home, SCOPE)
    tell(home, limiting(0.5))
    guard.look()
    daemon.container = Container("2b")
    daemon.container.attrs["HostConfig"]["NanoCpus"] = 10**9
    guard.look()
    assert daemon.container.cpus == 0.5
    tell(home)
    guard.look()
    assert daemon.container.cpus == 1


def test_limit_is_put_back_when_the_daemon_was_away_as_the_rule_ended(home: Home, daemon: Daemon) -> None:
    guard = Guard(home, SCOPE)
    tell(home, limiting(0.5))
    guard.look()
    daemon.away = True
    tell(home)
    assert guard.look()
    daemon.away = False
    assert not guard.look()
    assert daemon.container.cpus == CPUS


@pytest.mark.parametrize("status", ["running", "exited"])
def test_container_is_started_after_a_stop_only_when_it_ran_before(
    home: Home, daemon: Daemon, status: str
) -> None:
    daemon.container.status = status
    tell(home, loaded("stop", "container", NAME))
    for _ in range(3):
        guard = Guard(home, SCOPE)
        guard.look()
        assert daemon.container.status == "exited"
    tell(home)
    guard.look()
    assert daemon.container.status == status


@pytest.mark.parametrize(
    ("policy", "status"), [("unless-stopped", "running"), ("on-failure", "running"), ("no", "exited")]
)
def test_killed_container_runs_again_only_when_its_restart_policy_has_it_so(
    home: Home, daemon: Daemon, policy: str, status: str
) -> None:
    daemon.container = Container("1a", policy)
    tell(home, loaded("kill", "container", NAME, once=True))
    Guard(home, SCOPE).look()
    assert daemon.container.status == status
    assert not held_path(home, SCOPE).exists()


def test_killed_container_is_started_when_the_guard_died_in_between(
    home: Home, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(container: Container) -> None:
        container.status = "exited"
        raise KeyboardInterrupt

    tell(home, loaded("kill", "container", NAME, once=True))
    with monkeypatch.context() as dying:
        dying.setattr(Container, "kill", die)
        with pytest.raises(KeyboardInterrupt):
            Guard(home, SCOPE).look()
    assert daemon.container.status == "exited"
    Guard(home, SCOPE).look()
    assert daemon.container.status == "running"
    assert not held_path(home, SCOPE).exists()


def test_rule_fails_and_holds_nothing_when_the_container_is_not_there(home: Home, daemon: Daemon) -> None:
    guard = Guard(home, SCOPE)
    tell(home, loaded("stop", "container", "towpath-lga"))
    guard.look()
    guard.release_all()
    assert counts(home) == {"stop-towpath-lga": (1, 1, 1)}
    assert not held_path(home, SCOPE).exists()
