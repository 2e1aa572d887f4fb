"""`towpath upgrade hub`: which processes restart, in which order, and where it is refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner

from towpath.cli import upgrading_hub
from towpath.cli.__main__ import app
from towpath.cli.upgrading_hub import _check_run, in_turn
from towpath.contracts.errors import TowpathError
from towpath.contracts.site import MeshSpec, SiteSpec, TlsSpec
from towpath.mesh.home import Home
from towpath.mesh.provisioning import new_mesh
from towpath.processes import PidRecord

SPEC = MeshSpec(sites=[SiteSpec(name="jfk")], coordinators=2)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def run(monkeypatch: pytest.MonkeyPatch, names: Sequence[str]) -> None:
    monkeypatch.setattr(upgrading_hub, "find", lambda _, name: name if name in names else None)


@pytest.mark.parametrize("leader", ["coordinator", "coordinator-2"])
def test_processes_when_they_restart_then_the_supervisor_is_first_and_the_leader_last(
    monkeypatch: pytest.MonkeyPatch, home: Home, leader: str
) -> None:
    run(
        monkeypatch,
        ["local", "hub", "redis", "jfk-agent", "coordinator", "coordinator-2", "api", "collector"],
    )
    first, *others, last = in_turn(home, new_mesh(SPEC), leader)
    assert (first, last) == ("local", leader)
    assert {*others, last} == {"coordinator", "coordinator-2", "api", "collector"}


def test_service_when_it_does_not_run_then_is_not_restarted(
    monkeypatch: pytest.MonkeyPatch, home: Home
) -> None:
    run(monkeypatch, ["local", "coordinator"])
    assert in_turn(home, new_mesh(SPEC), "coordinator") == ["local", "coordinator"]


def test_hub_when_it_is_encrypted_then_the_door_to_redis_restarts_too(
    monkeypatch: pytest.MonkeyPatch, home: Home
) -> None:
    run(monkeypatch, ["redis-door", "redis"])
    spec = SPEC.model_copy(update={"tls": TlsSpec(enabled=True)})
    assert in_turn(home, new_mesh(spec), "") == ["local", "redis-door"]


def test_machine_of_a_spare_when_it_is_upgraded_then_its_coordinator_restarts(
    monkeypatch: pytest.MonkeyPatch, home: Home
) -> None:
    run(monkeypatch, ["local", "redis", "coordinator-4"])
    spare = new_mesh(SPEC).model_copy(update={"spare": 4})
    assert in_turn(home, spare, "coordinator") == ["local", "coordinator-4"]


@pytest.mark.parametrize(("option", "field"), [(["--to", "cloud"], "--to"), (["--in-place"], "--in-place")])
def test_option_about_jobs_when_given_for_the_hub_then_is_refused(
    tmp_path: Path, option: list[str], field: str
) -> None:
    ended = CliRunner().invoke(app, ["--home", str(tmp_path), "upgrade", "hub", *option])
    assert ended.exit_code == 2
    assert field in ended.stderr


def test_hub_when_no_mesh_is_here_then_is_refused(tmp_path: Path) -> None:
    ended = CliRunner().invoke(app, ["--home", str(tmp_path), "upgrade", "hub"])
    assert ended.exit_code != 0
    assert "towpath up" in ended.stderr


def test_upgrade_when_a_service_ends_again_then_is_said_with_its_log(home: Home) -> None:
    stays = psutil.Process()
    here = PidRecord(name="api", command=(), pid=stays.pid, create_time=stays.create_time())
    gone = here.model_copy(update={"name": "collector", "create_time": 1.0})
    _check_run(home, [here])
    with pytest.raises(TowpathError, match=r"^collector did not stay up, see .*collector"):
        _check_run(home, [here, gone])
