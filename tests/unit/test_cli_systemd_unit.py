"""The unit of systemd that runs a site. A program stands in for `systemctl`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from towpath.cli import systemd_unit
from towpath.contracts.errors import TowpathError
from towpath.mesh.home import Home


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file with what systemd is asked. Units of this test are in its own directory."""
    log, program = tmp_path / "asked", tmp_path / "bin" / "systemctl"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$@" >> "{log}"\ntest ! -e "{tmp_path}/refuses" || exit 1\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(systemd_unit, "SYSTEM_UNITS", tmp_path / "system")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "own"))
    return log


def test_unit_when_installed_then_runs_the_supervisor_of_this_home(tmp_path: Path, asked: Path) -> None:
    path = systemd_unit.install(Home(tmp_path / "barge home"), "barge")

    text = path.read_text()
    assert f'-m towpath.supervisor --home "{tmp_path}/barge home"' in text
    assert "Restart=always" in text
    assert [line.removeprefix("--user ") for line in asked.read_text().splitlines()] == [
        "daemon-reload",
        "enable --now towpath-barge.service",
    ]


def test_unit_when_uninstalled_then_is_gone_and_a_repetition_does_nothing(
    tmp_path: Path, asked: Path
) -> None:
    path = systemd_unit.install(Home(tmp_path / "home"), "barge")
    assert systemd_unit.uninstall("barge")
    assert not path.exists()
    assert not systemd_unit.uninstall("barge")


def test_unit_when_systemd_does_not_run_then_says_so(tmp_path: Path, asked: Path) -> None:
    (tmp_path / "refuses").touch()
    with pytest.raises(TowpathError, match="systemctl daemon-reload"):
        systemd_unit.install(Home(tmp_path / "home"), "barge")
