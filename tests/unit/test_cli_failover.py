"""`towpath failover` of a site: its jobs do not wait for each other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from towpath.cli import failover
from towpath.cli.__main__ import app
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.standby import FailOverJob
from towpath.mesh.home import Home


def test_failover_of_a_site_when_its_first_job_is_refused_then_the_others_have_begun_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, told = list[FailOverJob](), list[FailOverJob]()

    async def jobs_of(home: Home, lost: str) -> list[str]:
        return ["first", "second", "third"]

    async def request(command: FailOverJob, **_: Any) -> None:
        if command.job == "first":
            raise TowpathError(ErrorCode.SITE_DOWN, "its standby is down")
        begun.append(command)

    @asynccontextmanager
    async def open_bus(home: Home) -> AsyncIterator[Any]:
        yield SimpleNamespace(request=request)

    async def carry_out(home: Home, commands: list[FailOverJob], **_: Any) -> None:
        told.extend(commands)

    monkeypatch.setattr(failover, "_jobs_of", jobs_of)
    monkeypatch.setattr(failover, "open_bus", open_bus)
    monkeypatch.setattr(failover, "carry_out", carry_out)

    ended = CliRunner().invoke(app, ["--home", str(tmp_path), "failover", "jfk"])

    assert ended.exit_code == 0, ended.output
    assert [(command.job, command.wait) for command in begun] == [("second", False), ("third", False)]
    assert [command.job for command in told] == ["first", "second", "third"]
    assert [command.id for command in begun] == [command.id for command in told[1:]]


async def test_failover_of_a_site_when_some_jobs_have_no_standby_then_they_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def job(name: str, standby: str | None) -> SimpleNamespace:
        place = None if standby is None else SimpleNamespace(site=standby)
        return SimpleNamespace(site="jfk", spec=SimpleNamespace(name=name, standby=place))

    async def ask(home: Home, command: Any) -> SimpleNamespace:
        return SimpleNamespace(
            jobs=[job("safe", "lga"), job("alone", None)], sites=[SimpleNamespace(site="jfk")]
        )

    monkeypatch.setattr(failover, "ask", ask)
    assert await failover._jobs_of(Home(Path("none")), "jfk") == ["safe"]
    assert "left behind: alone" in capsys.readouterr().err


def test_failover_of_a_site_when_no_job_has_a_standby_then_json_is_an_empty_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def jobs_of(home: Home, lost: str) -> list[str]:
        return []

    monkeypatch.setattr(failover, "_jobs_of", jobs_of)
    ended = CliRunner().invoke(app, ["--home", str(tmp_path), "failover", "jfk", "--json"])
    assert (ended.exit_code, ended.stdout) == (0, "[]\n")
