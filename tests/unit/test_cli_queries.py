"""`towpath query check` and `explain`: need no mesh, and tell errors with file, line and column."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from running.places import EXAMPLES
from towpath.cli import queries as queries_module
from towpath.cli.__main__ import app
from towpath.cli.endings import BAD_INPUT
from towpath.contracts.commands import ListSites, SiteList
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import now
from towpath.contracts.pipeline import EXAMPLE_PIPELINE, ApplyState, ApplyView, PipelineSpec, PipelineView
from towpath.contracts.pipeline_commands import PipelineList, ShowPipeline
from towpath.contracts.site import SiteState, SiteStatus
from towpath.queries.compilation import Asked, compiled

DEPARTURES = str(EXAMPLES / "queries" / "departures.sight")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["query", *arguments])


def test_check_when_the_text_is_right_then_lists_its_queries() -> None:
    result = run("check", DEPARTURES, "--json")

    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)[0] == {
        "query": "mean_delay",
        "moments": "every 600 s",
        "by": ["carrier"],
        "reads": ["departures"],
    }


def test_check_when_a_name_is_wrong_then_says_where_and_what_is_allowed(tmp_path: Path) -> None:
    file = tmp_path / "wrong.sight"
    file.write_text('s = STREAM FROM topic(topic="site/a")\nq = COMPUTE AGV(x, 10 SECONDS)\n')

    result = run("check", str(file))

    assert result.exit_code == BAD_INPUT
    assert f"{file}: line 2, column 13: there is no function 'AGV'" in result.stderr
    assert result.stdout == ""


def test_check_when_a_placeholder_is_filled_then_its_text_stands_in_the_stream(tmp_path: Path) -> None:
    file = tmp_path / "pod.sight"
    file.write_text('s = STREAM FROM topic(topic="site/a", pod="{name}")\nq = COMPUTE AVG(x, 10 SECONDS)\n')

    assert run("check", str(file)).exit_code == BAD_INPUT
    assert run("check", str(file), "--set", "name=p1").exit_code == 0


def test_explain_when_events_are_at_several_sites_then_each_makes_panes_and_one_answers() -> None:
    result = run("explain", DEPARTURES, "--at", "cloud", "--sites", "jfk,lga,cloud", "--json")

    plan = json.loads(result.stdout)
    assert [site["site"] for site in plan["sites"]] == ["cloud", "jfk", "lga"]
    assert [job["name"] for job in plan["jobs"]] == [
        "departures-cloud",
        "departures-jfk",
        "departures-lga",
        "departures",
    ]
    assert plan["jobs"][-1]["site"] == "cloud"


def test_explain_when_two_queries_use_a_number_then_it_is_kept_once() -> None:
    result = run("explain", DEPARTURES, "--at", "jfk", "--sites", "jfk")

    assert result.exit_code == 0, result.stderr
    assert "count of delay of departures → mean_delay, late_share" in result.stdout
    assert result.stdout.count("count of delay of departures →") == 1


def test_explain_when_a_query_names_a_scheduler_then_says_that_its_policy_finds_the_site(
    tmp_path: Path,
) -> None:
    file = tmp_path / "lean.sight"
    text = 's = STREAM FROM topic(topic="site/a")\nq = COMPUTE AVG(x, 10 SECONDS) EVERY 10 SECONDS'
    file.write_text(text)
    assert (
        "answers are made at the site that asks"
        in run("explain", str(file), "--at", "a", "--sites", "a").stdout
    )

    file.write_text(f"{text} WITH SCHEDULER=RAINBOW_EnergyAware")

    found = run("explain", str(file), "--at", "a", "--sites", "a").stdout
    assert "answers are made at a site that the policy energy finds" in found


@pytest.mark.parametrize("compared", ["[bold]", "[/bold]"])
def test_explain_when_a_text_has_brackets_then_prints_them_as_they_are(tmp_path: Path, compared: str) -> None:
    file = tmp_path / "brackets.sight"
    file.write_text(
        's = STREAM FROM topic(topic="site/a", fields="x:double")\n'
        f'q = COMPUTE COUNT(x WHEN kind == "{compared}", 10 SECONDS) EVERY 10 SECONDS'
    )

    result = run("explain", str(file), "--at", "a", "--sites", "a")

    assert result.exit_code == 0, result.exception
    assert f'kind == "{compared}"' in result.stdout


def test_list_when_a_text_has_the_word_elsewhere_then_only_queries_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = (
        '# COMPUTE nothing here\ns = STREAM FROM topic(topic="site/a")\n'
        "recompute = COMPUTE SUM(x, 10 SECONDS) EVERY 10 SECONDS"
    )
    apply = ApplyView(
        apply="a1", pipeline="one", version=1, state=ApplyState.COMPLETED, begun_at=now(), changes=[]
    )
    spec = compiled(Asked("one", "jfk", text, {}, ["jfk"])).pipeline

    async def ask(*_: object) -> PipelineList:
        return PipelineList(pipelines=[PipelineView(pipeline="one", version=1, spec=spec, apply=apply)])

    monkeypatch.setattr(queries_module, "ask", ask)

    assert run("list").stdout.splitlines()[1].split() == ["one", "jfk", "recompute", "completed"]


@pytest.fixture
def bus(monkeypatch: pytest.MonkeyPatch) -> dict[type[Any], Any]:
    """Return the answers of the mesh by command; `ShowPipeline` is refused without one."""
    site = SiteStatus(site="jfk", state=SiteState.UP, nats_url="nats://a:1", mqtt_host="a", mqtt_port=2)
    answers: dict[type[Any], Any] = {ListSites: SiteList(sites=[site])}

    async def request(command: Any, **_: float) -> Any:
        if type(command) not in answers:
            raise TowpathError(ErrorCode.UNKNOWN_PIPELINE, "there is none")
        return answers[type(command)]

    @asynccontextmanager
    async def open_bus(_: object) -> AsyncIterator[Any]:
        yield SimpleNamespace(request=request, connection=None)

    monkeypatch.setattr(queries_module, "open_bus", open_bus)
    return answers


@pytest.mark.usefixtures("bus")
def test_run_when_answers_come_before_the_apply_has_ended_then_they_are_followed_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stored, followed = [3], []

    async def newest_serial(*_: object) -> int:
        return stored[-1]

    async def carry_out(*_: object, **__: object) -> None:
        stored.append(5)

    async def follow_answers(*_: object, after: int, **__: object) -> None:
        followed.append(after)

    monkeypatch.setattr(queries_module, "newest_serial", newest_serial)
    monkeypatch.setattr(queries_module, "carry_out", carry_out)
    monkeypatch.setattr(queries_module, "follow_answers", follow_answers)

    assert run("run", DEPARTURES, "--at", "jfk", "--follow").exit_code == 0
    assert followed == [3]


def test_run_when_another_pipeline_has_the_name_then_it_is_refused(
    bus: dict[type[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    applied: list[object] = []

    async def carry_out(*command: object, **_: object) -> None:
        applied.append(command)

    apply = ApplyView(
        apply="a1", pipeline="delays", version=1, state=ApplyState.COMPLETED, begun_at=now(), changes=[]
    )
    spec = PipelineSpec.model_validate(EXAMPLE_PIPELINE)
    bus[ShowPipeline] = PipelineView(pipeline="delays", version=1, spec=spec, apply=apply)
    monkeypatch.setattr(queries_module, "carry_out", carry_out)

    result = run("run", DEPARTURES, "--at", "jfk", "--name", "delays")

    assert (result.exit_code, applied) == (BAD_INPUT, [])
    assert "another pipeline has this name" in result.stderr
