"""The command line reports every mistake in one line, and its exit code tells whose mistake it is."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner, Result

from running.places import EXAMPLES
from towpath.cli import at_site, connection
from towpath.cli.__main__ import COMMANDS, app
from towpath.cli.endings import BAD_INPUT, FAILED
from towpath.cli.failures import INPUT_CODES, exit_code
from towpath.cli.listing import ListedCommand
from towpath.contracts.errors import RETRYABLE, ErrorCode, TowpathError
from towpath.mesh.home import Home
from towpath.mesh.provisioning import provision
from towpath.mesh.settings import spec_of_sites

GOOD_JOB = """\
name: clean-jfk
site: jfk
inputs: [{site: jfk, topic: site/departures}]
output: {topic: departures/clean}
operator: {kind: clean, fields: {id: {type: long}}}
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def run(home: Path, *arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, ["--home", str(home), *arguments], input=stdin)


def complaint(result: Result) -> str:
    """Return the message on stderr. Fail unless it is exactly one line, and stdout is empty."""
    assert result.stdout == ""
    assert result.stderr.endswith("\n")
    assert result.stderr.count("\n") == 1, result.stderr
    return result.stderr


def write(tmp_path: Path, text: str) -> str:
    path = tmp_path / "spec.yaml"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["jbos"], "jbos"),
        (["deploy"], "SPEC.yaml"),
        (["migrate", "hourly-jfk"], "--to"),
        (["migrate", "hourly-jfk", "--to", "cloud", "--strategy", "magic"], "general"),
        (["migrate", "Hourly", "--to", "cloud"], "job"),
        (["migrate", "hourly-jfk", "--to", "the moon"], "to"),
        (["remove", "a/b"], "a/b"),
        (["operation", "no such id"], "operation"),
        (["migrations", "--limit", "0"], "--limit"),
        (["publish", "fly", "-"], "deploy"),
        (["replay", "arrivals", "--site", "jfk"], "departures"),
        (["replay", "--site", "jfk", "--topic", "departures/clean"], "site/"),
        (["replay", "--site", "jfk", "--topic", "site/#"], "site/#"),
        (["replay", "--site", "jfk", "--limit", "many"], "--limit"),
        (["up", "--sites", "jfk,The Moon"], "The Moon"),
        (["up", "--sites", "jfk,jfk"], "sites"),
        (["up", "--sites", "hub"], "hub"),
        (["up", "--sites", "jfk", "--config", "towpath.toml"], "--sites or --config"),
        (["up", "--config", "no-such-file.toml"], "no-such-file.toml"),
        (["jobs", "--colour"], "--colour"),
        (["check", "departures/hourly", "--site", "jfk"], "--expected"),
        (["check", "t", "--site", "jfk", "--expected", "a", "--against", "departures"], "--expected"),
        (["check", "t", "--site", "jfk", "--expected", "no-such-file.jsonl"], "no-such-file.jsonl"),
        (["check", "t", "--site", "jfk", "--against", "arrivals"], "departures"),
    ],
)
def test_command_line_when_an_argument_is_wrong_then_one_line_names_it_and_the_exit_code_is_2(
    home: Path, arguments: list[str], said: str
) -> None:
    result = run(home, *arguments)
    assert said in complaint(result)
    assert result.exit_code == BAD_INPUT


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: [1, 2\nsite: jfk\n", "line 2, column 5"),
        (GOOD_JOB + "site: lga\n", "line 6, column 1"),
        ("\tname: x\n", "line 1, column 1"),
        ("", "no job in this file"),
        ("- a\n- b\n", "not a mapping"),
        ("jobs: 3\n", "jobs"),
        (GOOD_JOB.replace("site: jfk\n", "site: JFK\n"), "field site = 'JFK'"),
        (GOOD_JOB.replace("type: long", "type: lnog"), "operator.clean.fields.id.type"),
        (GOOD_JOB.replace("kind: clean", "kind: cleen"), "clean"),
        (GOOD_JOB + "priority: 3\n", "field priority"),
        (GOOD_JOB + "---\n" + GOOD_JOB.replace("jfk, topic", "jfk, tpoic"), "inputs.0.t"),
        (GOOD_JOB.replace("topic: departures/clean", "topic: site/x"), "output.topic"),
        (GOOD_JOB.replace("site/departures", "a/b, identity: [id]"), "inputs.0.identity"),
        (GOOD_JOB.replace("departures}", "departures, repeats_within: 0}", 1), "inputs.0.repeats_within"),
        (
            GOOD_JOB.replace(
                "{kind: clean, fields: {id: {type: long}}}",
                "{kind: python, fields: {id: long}, entry: 'm:f', artefact: nowhere.zip}",
            ),
            "nowhere.zip",
        ),
    ],
)
@pytest.mark.parametrize("command", ["deploy", "update"])
def test_deploy_when_the_spec_is_wrong_then_one_line_names_file_and_place_and_the_exit_code_is_2(
    home: Path, tmp_path: Path, command: str, text: str, said: str
) -> None:
    result = run(home, command, write(tmp_path, text))
    line = complaint(result)
    assert said in line
    assert "spec.yaml" in line
    assert result.exit_code == BAD_INPUT


def test_deploy_when_one_of_several_specs_is_wrong_then_names_its_job(home: Path, tmp_path: Path) -> None:
    second = GOOD_JOB.replace("clean-jfk", "clean-lga") + "trigger_s: -1\n"
    line = complaint(run(home, "deploy", write(tmp_path, f"{GOOD_JOB}---\n{second}")))
    assert "job clean-lga" in line
    assert "trigger_s = -1" in line


@pytest.mark.parametrize("missing", ["no-such-file.yaml", "."])
def test_deploy_when_the_file_is_not_readable_then_the_exit_code_is_2(home: Path, missing: str) -> None:
    result = run(home, "deploy", missing)
    assert missing in complaint(result)
    assert result.exit_code == BAD_INPUT


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("{", "JSON"),
        ('{"job": "hourly-jfk"}', "field to"),
        ('{"job": "hourly-jfk", "to": "cloud", "fast": true}', "field fast"),
        ('{"job": "hourly-jfk", "to": "Cloud"}', "field to = 'Cloud'"),
        ('{"job": "hourly-jfk", "to": "cloud", "strategy": "magic"}', "general"),
    ],
)
def test_publish_when_the_message_breaks_the_contract_then_one_line_names_the_field(
    home: Path, body: str, said: str
) -> None:
    result = run(home, "publish", "migrate", "-", stdin=body)
    assert said in complaint(result)
    assert result.exit_code == BAD_INPUT


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}\n", "line 1"),
        ('{"job": "j", "serial": 1, "values": {}}\nnonsense\n', "line 2"),
        ('{"job": "j", "serial": 1, "values": {}}\n\n{"job": "j", "serial": 1, "values": {}}\n', "line 3"),
    ],
)
def test_check_when_a_line_of_the_expected_file_is_no_new_result_then_names_the_line(
    home: Path, tmp_path: Path, text: str, said: str
) -> None:
    result = run(home, "check", "t", "--site", "jfk", "--expected", write(tmp_path, text))
    assert said in complaint(result)
    assert result.exit_code == BAD_INPUT


def test_publish_when_the_file_is_missing_then_the_exit_code_is_2(home: Path, tmp_path: Path) -> None:
    result = run(home, "publish", "migrate", str(tmp_path / "message.json"))
    assert "message.json" in complaint(result)
    assert result.exit_code == BAD_INPUT


@pytest.mark.parametrize(
    "arguments",
    [
        ["status"],
        ["status", "--json"],
        ["sites"],
        ["jobs"],
        ["jobs", "--json"],
        ["deploy", "examples/clean.yaml"],
        ["update", "examples/window.yaml", "--drop-state"],
        ["remove", "hourly-jfk"],
        ["migrate", "hourly-jfk", "--to", "cloud"],
        ["migrations"],
        ["operation", "5f0c9a7be210"],
        ["events", "--follow"],
        ["replay", "--site", "jfk", "--limit", "1"],
        ["check", "departures/hourly", "--site", "jfk", "--against", "departures"],
        ["logs"],
        ["logs", "coordinator"],
    ],
)
def test_command_when_no_mesh_runs_then_one_line_says_to_start_one_and_the_exit_code_is_1(
    home: Path, arguments: list[str]
) -> None:
    result = run(home, *arguments)
    assert "towpath up" in complaint(result)
    assert result.exit_code == FAILED


@pytest.mark.parametrize("command", ["jobs", "sites", "events"])
def test_command_when_the_mesh_was_stopped_then_gives_up_and_says_so(
    home: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "CONNECT_WITHIN_S", 0.1)
    provision(Home(home), spec_of_sites("jfk"))
    result = run(home, command)
    assert "towpath up" in complaint(result)
    assert result.exit_code == FAILED


@pytest.mark.parametrize(
    ("options", "said", "code"),
    [
        (("--here", "jkf"), "did you mean 'jfk'", BAD_INPUT),
        (("--here", "jfk", "--drop-state"), "--drop-state", BAD_INPUT),
        (("--here", "jfk", "--no-wait"), "--no-wait", BAD_INPUT),
        (("--here", "jfk"), "site jfk is down", FAILED),
    ],
)
def test_model_when_it_cannot_be_applied_at_a_site_then_one_line_says_why(
    home: Path, options: tuple[str, ...], said: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(at_site, "CONNECT_WITHIN_S", 0.1)
    provision(Home(home), spec_of_sites("jfk"))
    result = run(home, "edge", "apply", str(EXAMPLES / "edge" / "axles.yaml"), *options)
    assert said in complaint(result)
    assert result.exit_code == code


def test_up_when_java_is_missing_then_one_line_says_what_to_install(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(home / "no-java"))
    result = run(home, "up", "--sites", "jfk")
    assert "openjdk-17" in complaint(result)
    assert result.exit_code == FAILED
    assert not home.exists()


def test_down_when_nothing_runs_then_says_so_and_succeeds(home: Path) -> None:
    result = run(home, "down")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "nothing was running\n", "")


def test_exit_code_when_the_same_request_may_succeed_later_then_is_not_that_of_bad_input() -> None:
    assert RETRYABLE.isdisjoint(INPUT_CODES)
    assert exit_code(TowpathError(ErrorCode.UNKNOWN_SITE, "no such site")) == BAD_INPUT
    assert exit_code(TowpathError(ErrorCode.DEADLINE, "no answer")) == FAILED


@pytest.mark.parametrize("arguments", [[], ["--help"]])
def test_help_when_asked_for_then_lists_every_command(home: Path, arguments: list[str]) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0
    for command in COMMANDS:
        assert str(command.name) in result.stdout


def commands(command: Any, *path: str) -> Iterator[tuple[str, str]]:
    """Yield all commands, those of groups too: the words that call each, and its help text."""
    command = command.load() if isinstance(command, ListedCommand) else command
    inner = getattr(command, "commands", None)
    if inner is None:
        yield " ".join(path), command.help
    for name, each in (inner or {}).items():
        yield from commands(each, *path, name)


def test_help_of_each_command_when_asked_for_then_shows_an_example() -> None:
    found = dict(commands(get_command(app)))
    assert {"jobs", "pipeline apply", "fog run"} <= found.keys()
    for words, text in found.items():
        example = text.partition("Example:")[2]
        assert re.search(rf"towpath (--home \S+ )?{words}\b", example), words


@pytest.mark.parametrize("words", [["jobs"], ["pipeline", "apply"]])
def test_help_of_a_command_when_drawn_then_has_its_example(words: list[str]) -> None:
    result = CliRunner().invoke(app, [*words, "--help"])
    assert result.exit_code == 0
    assert f"towpath {' '.join(words)}" in result.stdout
