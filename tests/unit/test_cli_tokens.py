"""`towpath token` shows a token once, lists all without their texts, and keeps the owner's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from towpath.cli.__main__ import app
from towpath.mesh.home import Home
from towpath.mesh.provisioning import provision
from towpath.mesh.settings import spec_of_sites


@pytest.fixture
def home(tmp_path: Path) -> Path:
    provision(Home(tmp_path / "home"), spec_of_sites("jfk"))
    return tmp_path / "home"


def run(home: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["--home", str(home), "token", *arguments])


def test_token_when_added_then_is_printed_once_and_listed_without_its_text(home: Path) -> None:
    added = run(home, "add", "ada", "--role", "operate", "--expires", "30d")
    listed = json.loads(run(home, "list", "--json").stdout)

    text = added.stdout.strip()
    assert (added.exit_code, text.startswith("towpath_"), "\n" in text) == (0, True, False)
    assert [(token["name"], token["role"]) for token in listed] == [("owner", "admin"), ("ada", "operate")]
    assert text not in run(home, "list").stdout + json.dumps(listed) + (home / "mesh.json").read_text()
    assert run(home, "revoke", "ada").stdout == "revoked ada\n"
    assert "ada" not in run(home, "list").stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("revoke", "owner"), "name"),
        (("revoke", "eve"), "no such token"),
        (("add", "owner", "--role", "view"), "there is a token of this name"),
        (("add", "ada@home", "--role", "view"), "ada@home"),
        (("add", "ada", "--role", "root"), "root"),
        (("add", "ada"), "--role"),
        (("add", "ada", "--role", "view", "--expires", "soon"), "expires"),
        (("add", "ada", "--role", "view", "--expires", "999999d"), "up to 36500d"),
    ],
)
def test_command_when_its_input_is_bad_then_ends_with_2_and_one_line(
    home: Path, arguments: tuple[str, ...], said: str
) -> None:
    result = run(home, *arguments)
    assert (result.exit_code, result.stderr.count("\n"), result.stdout) == (2, 1, "")
    assert said in result.stderr
