"""`towpath values`: it says which values are from copies, and which are not all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from towpath.cli import values as values_module
from towpath.cli.__main__ import app
from towpath.contracts.storage import QueryValues, ValueSeriesList


def run(home: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["--home", str(home), "values", *arguments])


def answering(monkeypatch: pytest.MonkeyPatch, **answer: Any) -> list[QueryValues]:
    """Let the collector give this answer; return what it is asked."""
    asked: list[QueryValues] = []

    async def ask(_: object, command: QueryValues) -> ValueSeriesList:
        asked.append(command)
        return ValueSeriesList(series=[], **answer)

    monkeypatch.setattr(values_module, "ask", ask)
    return asked


def test_values_when_copies_answer_then_it_says_for_each_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, copies={"jfk": "cloud", "lga": "cloud"}, nearer=["jfk"])

    said = run(tmp_path).stderr.splitlines()

    assert said == [
        "jfk: from the copy at cloud, which is nearer",
        "lga does not answer: these are from the copy at cloud",
    ]


def test_values_when_a_share_is_wanted_then_it_says_which_sites_dropped_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = answering(monkeypatch, shares={"cloud": 1.0, "jfk": 0.6})

    said = run(tmp_path, "--last", "1h", "--share", "0.8").stderr.splitlines()

    assert said == ["jfk: 60% of its values"]
    assert (asked[0].wanted, asked[0].share) == ("range", 0.8)


def test_values_when_a_share_is_too_small_then_the_option_is_named(tmp_path: Path) -> None:
    result = run(tmp_path, "--last", "1h", "--share", "0.05")

    assert result.exit_code == 2
    assert "field share" in result.output
