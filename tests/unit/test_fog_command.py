"""`towpath fog` without a daemon: refusals in one line, and lists."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from towpath.cli.__main__ import app

TOO_LARGE = {"name": "large", "host_clock_ghz": 2.0, "nodes": [{"name": "jfk", "cores": 512}]}


@pytest.fixture(autouse=True)
def no_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/missing.sock")


def towpath(home: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["--home", str(home), "fog", *arguments])


@pytest.fixture
def topology(tmp_path: Path) -> Path:
    return tmp_path / "mine.yaml"


def test_list_when_asked_for_json_then_has_the_ready_topologies(tmp_path: Path) -> None:
    found = json.loads(towpath(tmp_path, "list", "--json").stdout)
    assert {entry["name"]: entry["nodes"] for entry in found} == {
        "city-traffic": 4,
        "factory": 10,
        "railway": 3,
    }


def test_show_when_written_to_a_file_then_is_read_again(tmp_path: Path, topology: Path) -> None:
    topology.write_text(towpath(tmp_path, "show", "railway").stdout)
    assert towpath(tmp_path, "show", str(topology), "--json").stdout == (
        towpath(tmp_path, "show", "railway", "--json").stdout
    )


def test_up_when_no_daemon_answers_then_says_so_in_one_line_and_writes_nothing(
    tmp_path: Path, topology: Path
) -> None:
    small = {"name": "small", "nodes": [{"name": "jfk", "cores": 0.5, "clock_ghz": 0.1}]}
    topology.write_text(yaml.safe_dump({**small, "host_clock_ghz": 2.0}))
    ran = towpath(tmp_path, "up", str(topology))
    assert ran.exit_code == 1
    assert "no container daemon answers" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert not (tmp_path / "fog").exists()


def test_up_when_a_node_is_larger_than_the_machine_then_is_refused_with_field_and_what_is_allowed(
    tmp_path: Path, topology: Path
) -> None:
    topology.write_text(yaml.safe_dump(TOO_LARGE))
    ran = towpath(tmp_path, "up", str(topology))
    assert ran.exit_code == 2
    assert "nodes.0.cores" in ran.stderr
    assert "allowed" in ran.stderr


def test_status_when_nothing_is_up_then_says_how_to_bring_something_up(tmp_path: Path) -> None:
    ran = towpath(tmp_path, "status")
    assert ran.exit_code == 1
    assert "towpath fog up" in ran.stderr


def test_run_when_the_scenario_names_no_topology_then_says_what_runs_it(tmp_path: Path) -> None:
    ran = towpath(tmp_path, "run", "lossy-link")
    assert ran.exit_code == 2
    assert "towpath scenario run" in ran.stderr
