"""`towpath query check` and `explain`: need no mesh, and tell errors with file, line and column."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner, Result

from running.places import EXAMPLES
from towpath.cli.__main__ import app
from towpath.cli.endings import BAD_INPUT

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
