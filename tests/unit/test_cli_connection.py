"""A command says whether no mesh runs, or one whose hub does not answer."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import psutil
import pytest
from service_trial import mesh_in

from towpath.cli import connection
from towpath.cli.connection import open_bus
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.mesh.home import Home
from towpath.mesh.names import SUPERVISOR
from towpath.processes import PidRecord
from towpath.processes.record import write_record


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A mesh whose hub does not listen."""
    monkeypatch.setattr(connection, "CONNECT_WITHIN_S", 0.05)
    home = Home(tmp_path).create()
    mesh_in(home)
    return home


async def refusal(home: Home) -> TowpathError:
    with pytest.raises(TowpathError) as refused:
        async with open_bus(home, within_s=0.3):
            pass
    return refused.value


async def test_command_when_no_supervisor_runs_then_says_how_to_start_a_mesh(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = await refusal(home)
    assert refused.detail.code is ErrorCode.UNREACHABLE
    assert "towpath up" in refused.detail.message
    assert capsys.readouterr().err == ""


async def test_command_when_the_hub_of_a_mesh_that_runs_is_away_then_says_so_and_before_that_what_it_awaits(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    this = await asyncio.to_thread(psutil.Process)
    record = PidRecord(name=SUPERVISOR, command=(), pid=os.getpid(), create_time=this.create_time())
    write_record(home.run, record)
    refused = await refusal(home)
    assert refused.detail.code is ErrorCode.UNREACHABLE
    assert "the hub does not answer" in refused.detail.message
    assert "the hub does not answer yet" in capsys.readouterr().err
