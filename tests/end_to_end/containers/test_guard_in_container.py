"""The faults that a guard holds in other containers are undone, even when its own is killed or hangs."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from docker.errors import ImageNotFound, NotFound
from docker.models.containers import Container

from running.docker import Yard, build_images, status, until_daemon_says, yard
from running.rules import Rules, rule
from towpath.containers.errors import HOST
from towpath.contracts.faults import RuleSet
from towpath.lab.guard.process import held_path
from towpath.mesh.home import Home

IMAGE = f"towpath-services:{os.environ.get('TOWPATH_TAG', 'local')}"
INSIDE = "/var/lib/towpath"
SCOPE = "hub"
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module", autouse=True)
def image(docker_daemon: str) -> None:
    """Build the image if it is missing: a run of all tests has just built it."""
    with yard() as made:
        try:
            made.docker.images.get(IMAGE)
        except ImageNotFound:
            build_images(IMAGE.partition(":")[2])


@dataclass
class Trial:
    """A guard in a container, its rules, and a container to hit."""

    place: Yard
    home: Home
    rules: Rules
    victim: Container
    guard: Container

    def load(self, container: Container, fault: str, *, once: bool = False) -> None:
        event = {"target": "container", "name": container.name}
        self.rules.load(rule(event, fault, once=once))

    def end_lease(self) -> None:
        """Let the lease end, as when no agent renews it."""
        told = RuleSet.model_validate_json(self.rules.file.read_bytes())
        part = self.rules.file.with_suffix(".part")
        part.write_text(told.model_copy(update={"expires_at": time.time()}).model_dump_json())
        part.replace(self.rules.file)

    def watchdog(self) -> Container | None:
        try:
            return self.place.docker.containers.get(f"{self.guard.name}-watchdog-{SCOPE}")
        except NotFound:
            return None


@pytest.fixture
def trial(busybox: str, tmp_path: Path) -> Iterator[Trial]:
    socket = os.environ[HOST].removeprefix("unix://")
    if not Path(socket).is_socket():
        pytest.skip(f"{os.environ[HOST]} cannot be mounted into a container")
    home = Home(tmp_path / "home").create()
    rules = Rules(home.fault_rules(SCOPE))
    with yard() as place:
        guard = place.create(
            "guard",
            IMAGE,
            ["python", "-m", "towpath.lab.guard", "--home", INSIDE, "--scope", SCOPE],
            environment={HOST: f"unix://{socket}"},
            volumes=[f"{home.root}:{INSIDE}", f"{socket}:{socket}"],
            user=f"{os.getuid()}:{os.getgid()}",
            group_add=[str(Path(socket).stat().st_gid)],
            restart_policy={"Name": "unless-stopped"},
            network_mode="none",
            read_only=True,
            tmpfs={"/tmp": ""},
        )
        made = Trial(place, home, rules, place.run("victim"), guard)
        yield made
        rules.unload()
        guard.remove(force=True)
        until_daemon_says(lambda: made.watchdog() is None)


def test_victim_runs_again_after_the_lease_when_the_container_of_the_guard_is_killed(trial: Trial) -> None:
    trial.load(trial.victim, "stop")
    trial.guard.start()
    until_daemon_says(lambda: status(trial.victim) == "exited")
    assert trial.watchdog() is not None
    trial.guard.kill()
    trial.end_lease()
    until_daemon_says(lambda: status(trial.victim) == "running")
    assert status(trial.guard) == "exited", "it was not the guard"
    until_daemon_says(lambda: not held_path(trial.home, SCOPE).exists())


def test_container_of_the_guard_goes_on_after_the_lease_when_a_rule_has_paused_it(trial: Trial) -> None:
    trial.load(trial.guard, "pause")
    trial.guard.start()
    until_daemon_says(lambda: status(trial.guard) == "paused")
    trial.end_lease()
    until_daemon_says(lambda: status(trial.guard) == "running")


def test_container_of_the_guard_runs_again_when_a_rule_has_killed_it(trial: Trial) -> None:
    trial.load(trial.guard, "kill", once=True)
    trial.guard.start()
    until_daemon_says(lambda: status(trial.guard) == "exited")
    trial.end_lease()
    until_daemon_says(lambda: status(trial.guard) == "running")
    until_daemon_says(lambda: not held_path(trial.home, SCOPE).exists())


def test_no_one_watches_any_more_when_the_guard_has_released_all_itself(trial: Trial) -> None:
    trial.load(trial.victim, "pause")
    trial.guard.start()
    until_daemon_says(lambda: status(trial.victim) == "paused")
    trial.rules.unload()
    until_daemon_says(lambda: status(trial.victim) == "running")
    assert trial.watchdog() is not None
    until_daemon_says(lambda: trial.watchdog() is None)
    assert status(trial.guard) in ("running", "restarting"), "it is not because its container ended"
