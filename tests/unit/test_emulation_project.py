"""The files that bringing a topology up writes. After any interruption it can be repeated, or taken down."""

from __future__ import annotations

import asyncio
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml

from running.waiting import WITHIN_S
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.topology import Node, Topology
from towpath.lab.emulation import bringing_up, project
from towpath.lab.emulation.bringing_up import Plan, bring_up, emulation, take_down
from towpath.lab.emulation.project import Project
from towpath.lab.topology import shares
from towpath.mesh.home import Home

PAIR = Topology(
    name="pair", host_clock_ghz=2.0, nodes=[Node(name="jfk", cores=0.1), Node(name="lga", cores=0.1)]
)


class Created(Exception):
    """Raised where the containers would be made."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """Return the home of a machine with images, and with a daemon that has no containers."""

    def create(of: Project) -> None:
        raise Created

    monkeypatch.setattr(bringing_up, "check_images", lambda tag: None)
    monkeypatch.setattr(project, "remove_project", lambda name: [])
    monkeypatch.setattr(Project, "create", create)
    return Home(tmp_path / "fog")


def nothing(text: str) -> None:
    """Drop the message."""


async def up(home: Home) -> None:
    await bring_up(home, Plan.of(PAIR), nothing)


def failing(*_: object, **__: object) -> Any:
    raise OSError("no space left on the device")


@pytest.mark.parametrize(
    ("module", "step"),
    [(project, "provision"), (project, "write_secrets"), (project, "compose_text")],
    ids=["before the state", "before the secrets", "before the compose file"],
)
async def test_up_when_interrupted_while_it_writes_then_can_be_repeated_and_taken_down(
    home: Home, monkeypatch: pytest.MonkeyPatch, module: Any, step: str
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(module, step, failing)
        with pytest.raises(OSError, match="no space"):
            await up(home)
    assert Project(home).topology() == PAIR
    with pytest.raises(Created):
        await up(home)
    assert await take_down(home) == [str(home.root)]
    assert not home.root.exists()


async def test_shares_when_the_machine_clocks_down_after_up_then_stay_what_they_were(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    half = Topology(name="half", nodes=[Node(name="jfk", cores=0.5, clock_ghz=1.0)])
    monkeypatch.setattr(shares, "clock_ghz", lambda: 2.0)
    with pytest.raises(Created):
        await bring_up(home, Plan.of(half), nothing)
    monkeypatch.setattr(shares, "clock_ghz", lambda: 1.0)
    there = Project(home).topology()
    assert there is not None
    assert shares.shares(there, shares.this_host(there))["jfk"].cpus == 0.25


async def test_up_when_interrupted_before_there_is_a_mesh_then_nothing_is_up(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(project, "provision", failing)
    with pytest.raises(OSError, match="no space"):
        await up(home)
    with pytest.raises(TowpathError) as refused:
        async with emulation(home):
            pass
    assert refused.value.detail.code is ErrorCode.UNREACHABLE
    assert "towpath fog up" in refused.value.detail.message
    assert Project(home).standing() is None, "a scenario brings it up, and does not look for it"


async def test_up_when_images_have_a_tag_and_jobs_bring_code_then_the_compose_file_says_both(
    home: Home, tmp_path: Path
) -> None:
    with pytest.raises(Created):
        await bring_up(home, Plan.of(PAIR), nothing, tag="v2", artefact_root=str(tmp_path / "code"))
    described = yaml.safe_load(Project(home).compose_file.read_text())["services"]
    assert {
        part["image"].rpartition(":")[2] for name, part in described.items() if "towpath" in part["image"]
    } == {"v2"}
    mounted = [volume for volume in described["coordinator"]["volumes"] if volume.endswith(":ro")]
    assert mounted == [f"{tmp_path / 'code'}:/var/lib/towpath/artefacts:ro"]


async def test_up_when_cancelled_while_it_writes_then_ends_only_when_no_one_writes_any_more(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, released = threading.Event(), threading.Event()
    written: list[str] = []

    def write(*_: object) -> None:
        begun.set()
        assert released.wait(WITHIN_S)
        written.append("secrets")

    monkeypatch.setattr(project, "write_secrets", write)
    running = asyncio.create_task(up(home))
    assert await asyncio.to_thread(begun.wait, WITHIN_S)
    running.cancel()
    await asyncio.sleep(0)
    assert not running.done()
    released.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert written == ["secrets"]
    assert Project(home).compose_file.exists()


async def test_down_when_interrupted_while_it_deletes_then_the_next_one_takes_the_rest_away(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Created):
        await up(home)
    delete = shutil.rmtree
    deleted: list[Path] = []

    def killed(path: Path, **_: object) -> None:
        if deleted:
            failing()
        deleted.append(path)
        delete(path)

    with monkeypatch.context() as broken:
        broken.setattr(shutil, "rmtree", killed)
        with pytest.raises(OSError, match="no space"):
            await take_down(home)
    assert not deleted[0].exists()
    assert Project(home).topology() == PAIR
    assert await take_down(home) == [str(home.root)]
    assert not home.root.exists()


@pytest.mark.parametrize(
    "said",
    [
        "could not find an available, non-overlapping IPv4 address pool among the defaults to assign",
        "Error response from daemon: all predefined address pools have been fully subnetted",
    ],
)
def test_containers_when_the_daemon_has_no_more_networks_then_the_error_says_what_gives_it_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    compose = tmp_path / "compose"
    compose.write_text(f"#!/bin/sh\necho '{said}' >&2\nexit 1\n")
    compose.chmod(0o700)
    monkeypatch.setattr(project, "compose_command", lambda: (str(compose),))
    with pytest.raises(TowpathError, match="address pool") as refused:
        Project(Home(tmp_path)).create()
    assert "default-address-pools" in str(refused.value.detail.allowed)
