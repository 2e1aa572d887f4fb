"""`towpath upgrade`: jobs leave, the site restarts, jobs come back; also when the command is interrupted."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from coordinator_trial import entry, job
from typer.testing import CliRunner, Result

from towpath.cli import upgrading
from towpath.cli.__main__ import app
from towpath.contracts.commands import (
    ForecastMigration,
    JobList,
    JobView,
    ListJobs,
    ListSites,
    MigrateJob,
    MigrationForecast,
    OperationAnswer,
    OperationKind,
    OperationState,
    SiteList,
    StrategyName,
)
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import Standby
from towpath.contracts.message import now
from towpath.contracts.placement import JobPlace, PlacementProposal, ProposePlacement
from towpath.contracts.reply import Done
from towpath.contracts.site import SiteState, SiteStatus
from towpath.contracts.upgrade import RestartSite

BEGUN_AT = now()


@dataclass
class Mesh:
    """Three sites. `counts` has a standby at cloud, `copies` has room at lga."""

    at: dict[str, str] = field(default_factory=lambda: {"counts": "jfk", "copies": "jfk", "other": "lga"})
    moves: list[tuple[str, str]] = field(default_factory=list)
    restarts: int = 0
    pinned: set[str] = field(default_factory=set)
    busy: int = 0
    """Attempts to move a job that find another operation under way."""
    dies_after: int | None = None
    """Requests that are answered before the command is killed."""
    replaced: Path | None = None
    """File that a command writes to replace jfk, after its jobs have left."""
    said: dict[str, Any] = field(default_factory=dict)
    """Fields of the heartbeat of jfk that differ."""

    async def request(self, command: Any, **_: Any) -> Any:
        answer = self._answer(command)
        if self.dies_after is not None:
            self.dies_after -= 1
            if self.dies_after < 0:
                raise KeyboardInterrupt
        return answer

    def _answer(self, command: Any) -> Any:
        match command:
            case ListSites():
                return SiteList(sites=[self._status(site) for site in ("jfk", "cloud", "lga")])
            case ListJobs():
                return JobList(jobs=[self._view(name) for name in self.at])
            case ProposePlacement(jobs=jobs, avoid=avoid):
                assert avoid == ["jfk"]
                return self._proposal(jobs or [])
            case ForecastMigration(job=name, to=to):
                return MigrationForecast(
                    job=name,
                    source=self.at[name],
                    target=to,
                    strategy=StrategyName.HANDOVER,
                    reason="",
                    total_s=3.0,
                    state_bytes=1000,
                    basis="",
                )
            case MigrateJob(job=name, to=to):
                return self._move(name, to)
            case RestartSite(begun_at=begun_at):
                assert "jfk" not in self.at.values() or command.in_place
                self.restarts += begun_at == self._status("jfk").begun_at
                return Done()
        raise AssertionError(command)

    def _move(self, name: str, to: str) -> OperationAnswer:
        if self.busy:
            self.busy -= 1
            raise TowpathError(ErrorCode.BUSY, "another operation is under way")
        assert self.at[name] != to
        self.at[name] = to
        self.moves.append((name, to))
        return OperationAnswer(
            operation="m1", job=name, kind=OperationKind.MIGRATE, state=OperationState.COMPLETED
        )

    def _status(self, site: str) -> SiteStatus:
        example: dict[str, Any] = {**SiteStatus.example, "capabilities": ["standby", "restart"]}
        began = BEGUN_AT + timedelta(hours=self.restarts)
        said = self.said if site == "jfk" else {}
        if site == "jfk" and self.replaced is not None and self.replaced.exists():
            began, said = BEGUN_AT + timedelta(hours=1), {}
        return SiteStatus.model_validate({**example, "site": site, "begun_at": began, **said})

    def _view(self, name: str) -> JobView:
        of = entry(job(name))
        standby = Standby(site="cloud") if name == "counts" else None
        spec = of.spec.model_copy(update={"standby": standby})
        return JobView(
            spec=spec,
            site=self.at[name],
            epoch=1,
            state=None,
            operation=None,
            status=None,
            inputs=of.inputs,
            output=of.output,
        )

    def _proposal(self, jobs: Sequence[str]) -> PlacementProposal:
        figures = {"latency_s": None, "power_w": 0.0, "checked_share": 0.0, "bytes_per_s": 0.0}
        proposed = [
            JobPlace(
                job=name,
                current="jfk",
                proposed="jfk" if name in self.pinned else "lga",
                cores=0.1,
                stays="it is allowed at jfk only" if name in self.pinned else None,
            )
            for name in jobs
        ]
        return PlacementProposal.model_validate(
            {
                "policy": "performance",
                "age_s": 0,
                "jobs": proposed,
                "current": figures,
                "proposed": figures,
                "moves": [],
            }
        )


@pytest.fixture
def mesh(monkeypatch: pytest.MonkeyPatch) -> Mesh:
    played = Mesh()

    @asynccontextmanager
    async def open_bus(_: Any) -> AsyncIterator[Mesh]:
        yield played

    monkeypatch.setattr(upgrading, "open_bus", open_bus)
    monkeypatch.setattr(upgrading, "LOOK_EVERY_S", 0.001)
    return played


def upgrade(home: Path, *options: str) -> Result:
    return CliRunner().invoke(app, ["--home", str(home), "upgrade", "jfk", *options])


def test_upgrade_when_jobs_can_move_then_they_leave_the_site_restarts_and_they_come_back(
    mesh: Mesh, tmp_path: Path
) -> None:
    ended = upgrade(tmp_path)

    assert ended.exit_code == 0, ended.output
    assert mesh.moves == [("counts", "cloud"), ("copies", "lga"), ("copies", "jfk"), ("counts", "jfk")]
    assert mesh.restarts == 1
    assert [*(tmp_path / "upgrades").iterdir()] == []


@pytest.mark.parametrize("answers", range(24))
def test_upgrade_when_it_is_killed_at_any_request_then_a_second_call_ends_it(
    mesh: Mesh, tmp_path: Path, answers: int
) -> None:
    mesh.dies_after = answers
    upgrade(tmp_path, "--to", "lga")
    mesh.dies_after = None

    ended = upgrade(tmp_path, "--to", "lga")

    assert ended.exit_code == 0, ended.output
    assert mesh.at == {"counts": "jfk", "copies": "jfk", "other": "lga"}
    assert mesh.restarts >= 1
    assert [*(tmp_path / "upgrades").iterdir()] == []


def test_upgrade_when_another_operation_holds_a_job_then_waits_for_it(mesh: Mesh, tmp_path: Path) -> None:
    mesh.busy = 3
    assert upgrade(tmp_path).exit_code == 0
    assert mesh.at["counts"] == "jfk"


def test_upgrade_when_a_job_cannot_move_then_is_refused_before_anything_moves(
    mesh: Mesh, tmp_path: Path
) -> None:
    mesh.pinned.add("copies")

    ended = upgrade(tmp_path)

    assert ended.exit_code != 0
    assert "copies cannot leave jfk: it is allowed at jfk only" in ended.output
    assert (mesh.moves, mesh.restarts) == ([], 0)


def test_upgrade_when_a_job_may_stay_then_the_others_move(mesh: Mesh, tmp_path: Path) -> None:
    mesh.pinned.add("copies")

    ended = upgrade(tmp_path, "--in-place")

    assert ended.exit_code == 0, ended.output
    assert mesh.moves == [("counts", "cloud"), ("counts", "jfk")]


def test_upgrade_when_only_asked_what_it_would_do_then_nothing_moves(mesh: Mesh, tmp_path: Path) -> None:
    ended = upgrade(tmp_path, "--dry-run")

    assert ended.exit_code == 0, ended.output
    assert "counts" in ended.output
    assert (mesh.moves, mesh.restarts) == ([], 0)
    assert not (tmp_path / "upgrades").exists()


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"state": SiteState.DOWN}, "site jfk is down"),
        ({"begun_at": None, "version": "", "capabilities": ["standby"]}, "cannot restart by itself"),
    ],
    ids=["down", "of a version that cannot"],
)
def test_upgrade_when_the_site_cannot_restart_then_is_refused(
    mesh: Mesh, tmp_path: Path, said: dict[str, Any], told: str
) -> None:
    mesh.said = said
    ended = upgrade(tmp_path)
    assert told in ended.output
    assert mesh.moves == []


@pytest.mark.parametrize("said", [{}, {"begun_at": None, "version": "", "capabilities": []}])
def test_upgrade_when_a_command_replaces_the_site_then_runs_while_its_jobs_are_elsewhere(
    mesh: Mesh, tmp_path: Path, said: dict[str, Any]
) -> None:
    mesh.replaced, mesh.said = tmp_path / "new site", said

    ended = upgrade(tmp_path, "--with", f"touch '{mesh.replaced}'")

    assert ended.exit_code == 0, ended.output
    assert mesh.moves == [("counts", "cloud"), ("copies", "lga"), ("copies", "jfk"), ("counts", "jfk")]
    assert mesh.restarts == 0


def test_upgrade_when_the_command_fails_then_jobs_stay_away_until_a_second_call_ends_it(
    mesh: Mesh, tmp_path: Path
) -> None:
    mesh.replaced = tmp_path / "new"

    failed = upgrade(tmp_path, "--with", "false")

    assert failed.exit_code == 1
    assert "false" in failed.output
    assert "jfk" not in mesh.at.values()
    assert upgrade(tmp_path, "--with", f"touch {mesh.replaced}").exit_code == 0
    assert mesh.at == {"counts": "jfk", "copies": "jfk", "other": "lga"}


@pytest.mark.parametrize(
    ("site", "command"),
    [("jfk", "touch 'x"), ("jfk", " "), ("hub", "touch x")],
    ids=["an open quote", "no command", "the hub"],
)
def test_upgrade_when_the_command_is_none_or_for_the_hub_then_is_refused(
    mesh: Mesh, tmp_path: Path, site: str, command: str
) -> None:
    ended = CliRunner().invoke(app, ["--home", str(tmp_path), "upgrade", site, "--with", command])

    assert ended.exit_code == 2
    assert "--with" in ended.output
    assert mesh.moves == []


def test_upgrade_when_a_job_has_come_meanwhile_then_no_command_replaces_the_site_under_it(
    mesh: Mesh, tmp_path: Path
) -> None:
    mesh.replaced = tmp_path / "new"
    upgrade(tmp_path, "--with", "false")
    mesh.at["other"] = "jfk"

    ended = upgrade(tmp_path, "--with", f"touch {mesh.replaced}")

    assert ended.exit_code == 2
    assert "other run(s) at jfk now" in ended.output
    assert not mesh.replaced.exists()


def test_upgrade_when_it_goes_on_without_its_command_then_says_that_the_site_cannot_restart(
    mesh: Mesh, tmp_path: Path
) -> None:
    mesh.replaced = tmp_path / "new"
    mesh.said = {"begun_at": None, "version": "", "capabilities": []}
    upgrade(tmp_path, "--with", "false")

    ended = upgrade(tmp_path)

    assert ended.exit_code == 2
    assert "cannot restart by itself" in ended.output
