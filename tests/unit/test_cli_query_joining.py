"""`towpath query … --into`, and `remove --query`: running texts change, and no change in between is lost."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from towpath.cli import connection, queries
from towpath.cli.__main__ import app
from towpath.cli.endings import BAD_INPUT
from towpath.contracts.commands import ListSites, SiteList
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import Command, now
from towpath.contracts.pipeline import ApplyState, ApplyView, PipelineView
from towpath.contracts.pipeline_commands import ApplyPipeline, ListPipelines, PipelineList, ShowPipeline
from towpath.contracts.site import SiteState, SiteStatus
from towpath.queries.compilation import Asked, compiled

TEXT = """\
# Airports.
departures = STREAM FROM topic(topic="site/departures", sites="*");
mean_delay = COMPUTE AVG(delay, 1 HOURS) EVERY 10 MINUTES BY carrier;
"""
MORE = "worst = COMPUTE MAX(delay, 2 HOURS) EVERY 10 MINUTES;\n"
DONE = ApplyView(
    apply="a7", pipeline="airports", version=3, state=ApplyState.COMPLETED, begun_at=now(), changes=[]
)


class Mesh:
    """A mesh of two sites on which a text runs, with a trigger and a webhook that were chosen."""

    def __init__(self, text: str = TEXT) -> None:
        self.asked = Asked("airports", "cloud", text, {}, ["jfk", "cloud"], 3.0, "https://a/b")
        self.sent: list[Any] = []
        self.refusal: TowpathError | None = None

    async def subscribe(self, *_: Any, **__: Any) -> None: ...

    async def request(self, command: Command[Any], **_: Any) -> Any:
        view = PipelineView(pipeline="airports", version=3, spec=compiled(self.asked).pipeline, apply=DONE)
        match command:
            case ListSites():
                status = {"state": SiteState.UP, "nats_url": "nats://a:1", "mqtt_host": "a", "mqtt_port": 2}
                return SiteList(sites=[SiteStatus(site=name, **status) for name in self.asked.sites])
            case ShowPipeline():
                return view
            case ListPipelines():
                return PipelineList(pipelines=[view])
        self.sent.append(command)
        if self.refusal is not None:
            raise self.refusal
        return DONE

    def run(self, *arguments: str) -> Result:
        return CliRunner().invoke(app, ["query", *arguments])


@pytest.fixture
def mesh(monkeypatch: pytest.MonkeyPatch) -> Mesh:
    found = Mesh()

    @asynccontextmanager
    async def opened(_: object, **__: object) -> AsyncIterator[Mesh]:
        yield found

    for module in (connection, queries):
        monkeypatch.setattr(module, "open_bus", opened)
    return found


@pytest.fixture
def more(tmp_path: Path) -> Path:
    path = tmp_path / "more.sight"
    path.write_text(MORE)
    return path


def test_file_when_it_joins_then_both_texts_are_applied_to_what_was_seen(mesh: Mesh, more: Path) -> None:
    result = mesh.run("run", str(more), "--into", "airports", "--drop-state", "airports-jfk")

    assert result.exit_code == 0, result.stderr
    (command,) = mesh.sent
    wanted = Asked("airports", "cloud", f"{TEXT}\n{MORE}", {}, ["jfk", "cloud"], 3.0, "https://a/b")
    assert command.spec == compiled(wanted).pipeline
    assert (command.expected_apply, command.drop_state) == ("a7", ["airports-jfk"])


def test_file_when_it_does_not_fit_then_the_place_in_it_is_told_and_nothing_is_sent(
    mesh: Mesh, more: Path
) -> None:
    more.write_text("# A comment.\n  mean_delay = COMPUTE MAX(delay, 1 HOURS);\n")

    result = mesh.run("run", str(more), "--into", "airports")

    assert (result.exit_code, mesh.sent) == (BAD_INPUT, [])
    assert f"{more}: line 2, column 3: the running text has another 'mean_delay', in line 3" in result.stderr
    assert "rename it" in result.stderr


def test_file_when_someone_else_has_joined_meanwhile_then_the_refusal_is_told(mesh: Mesh, more: Path) -> None:
    mesh.refusal = TowpathError(ErrorCode.NOT_ALLOWED, "airports was changed meanwhile")

    result = mesh.run("run", str(more), "--into", "airports")

    assert result.exit_code != 0
    assert result.exception is mesh.refusal or "airports was changed meanwhile" in result.stderr


@pytest.mark.parametrize("options", [[], ["--into", "airports", "--name", "other"]])
def test_run_when_site_or_name_are_unclear_then_is_refused(
    mesh: Mesh, more: Path, options: list[str]
) -> None:
    result = mesh.run("run", str(more), *options)

    assert (result.exit_code != 0, mesh.sent) == (True, [])


def test_explanation_when_a_file_joins_then_says_what_is_new_and_shared_and_lost(
    mesh: Mesh, more: Path
) -> None:
    result = mesh.run("explain", str(more), "--into", "airports")

    assert result.exit_code == 0, result.stderr
    plain = " ".join(result.stdout.split())
    assert "worst (new): every 600 s" in plain
    assert "count of delay of departures → mean_delay, worst" in plain
    assert "of 4 number(s) of panes that the new queries need, 2 are kept already" in plain
    assert "airports-jfk would lose its state, and needs --drop-state airports-jfk" in plain
    assert mesh.sent == []


def test_query_when_removed_then_the_others_are_applied(mesh: Mesh) -> None:
    before = mesh.asked
    mesh.asked = Mesh(f"{TEXT}\n{MORE}").asked

    result = mesh.run("remove", "airports", "--query", "worst", "--drop-state", "airports-jfk")

    assert result.exit_code == 0, result.stderr
    (command,) = mesh.sent
    assert isinstance(command, ApplyPipeline)
    assert command.spec == compiled(before).pipeline
    assert (command.expected_apply, command.drop_state) == ("a7", ["airports-jfk"])


@pytest.mark.parametrize("options", [["--query", "mean_delay"], ["--query", "worst", "--purge"]])
def test_query_when_it_cannot_be_removed_alone_then_all_stay(mesh: Mesh, options: list[str]) -> None:
    result = mesh.run("remove", "airports", *options)

    assert (result.exit_code != 0, mesh.sent) == (True, [])


def test_running_text_when_shown_then_can_be_saved_and_its_queries_listed(mesh: Mesh) -> None:
    assert mesh.run("show", "airports").stdout == TEXT
    (listed,) = json.loads(mesh.run("show", "airports", "--queries", "--json").stdout)
    assert (listed["query"], listed["by"]) == ("mean_delay", ["carrier"])
    assert "mean_delay" in mesh.run("list").stdout
