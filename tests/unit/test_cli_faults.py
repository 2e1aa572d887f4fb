"""`towpath faults` reports mistakes in a file with file and line, and ends with exit code 2."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from towpath.cli.__main__ import app
from towpath.contracts.errors import ErrorCode, ErrorDetail, TowpathError
from towpath.contracts.faults import Rule
from towpath.lab.cli.fault_files import read_files, telling
from towpath.lab.cli.fault_views import condition_of

GOOD = """\
rules:
  - name: slow
    event: {point: operator.event}
    actions: [{fault: delay, parameters: {ms: 10}}]
  - name: cut
    event:
      target: link
      name: ewr
    actions: [{fault: cut}]
"""


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], Path]:
    def written(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return written


def run(home: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["--home", str(home), "faults", *arguments])


def refused(detail: ErrorDetail) -> TowpathError:
    return TowpathError.of(detail.model_copy(update={"errors": [detail]}))


WRONG = {
    "a point that does not exist": (GOOD.replace("operator.event", "operator.evnt"), ":3:", "operator.event"),
    "a bad condition": (GOOD.replace("event}\n", "event}\n    condition: count >\n"), ":4:", "CEL"),
    "an unknown fault": (GOOD.replace("fault: delay", "fault: delya"), ":4:", "delay"),
    "a parameter with a typo": (GOOD.replace("{ms: 10}", "{msec: 10}"), ":4:", "ms"),
    "a field with a typo": (GOOD.replace("event:\n", "evnt:\n"), ":6:", "event"),
    "no YAML": ("rules: [", ": not YAML at line 1,", ""),
}


@pytest.mark.parametrize("what", WRONG)
def test_file_is_refused_with_line_and_what_is_allowed_when_it_has(
    what: str, write: Callable[[str, str], Path], tmp_path: Path
) -> None:
    text, line, allowed = WRONG[what]
    path = write("rules.yaml", text)
    result = run(tmp_path, "load", str(path))
    assert result.exit_code == 2
    lines = result.stderr.splitlines()
    assert any(f"{path}{line}" in each and allowed in each for each in lines)
    assert all(each.startswith("towpath: ") for each in lines)


def test_line_of_the_field_is_told_when_the_mesh_refuses_a_rule(
    write: Callable[[str, str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    path = write("rules.yaml", GOOD)
    read = read_files([path])
    detail = ErrorDetail(
        code=ErrorCode.INVALID,
        message="there is no such link",
        field="rules.1.event.name",
        value="ewr",
        allowed=["jfk", "lga"],
    )
    with pytest.raises(typer.Exit) as ended, telling(read):
        raise refused(detail)
    assert ended.value.exit_code == 2
    told = capsys.readouterr().err
    assert told == (
        f"towpath: {path}:8: there is no such link; field event.name = 'ewr'; allowed: jfk, lga\n"
    )


def test_errors_that_are_not_the_file_s_go_on_when_no_one_answers(write: Callable[[str, str], Path]) -> None:
    read = read_files([write("rules.yaml", GOOD)])
    with pytest.raises(TowpathError), telling(read):
        raise TowpathError(ErrorCode.UNREACHABLE, "no one answers this command")


def test_files_are_refused_when_two_have_a_rule_of_the_same_name(
    write: Callable[[str, str], Path], tmp_path: Path
) -> None:
    one, two = write("one.yaml", GOOD), write("two.yaml", GOOD)
    result = run(tmp_path, "load", str(one), str(two))
    assert result.exit_code == 2
    assert f"{two}:2: a rule of {one} has this name, too" in result.stderr


def test_rules_of_all_files_are_read_in_order_and_stay_as_long_as_asked(
    write: Callable[[str, str], Path],
) -> None:
    one = write("one.yaml", GOOD)
    two = write("two.json", '{"name": "die", "event": {"target": "process", "name": "jfk-engine"}, '
                '"actions": [{"fault": "kill"}]}')  # fmt: skip
    read = read_files([one, two], for_s=30)
    assert [(each.rule.name, each.rule.for_s) for each in read] == [("slow", 30), ("cut", 30), ("die", 30)]
    assert read_files([one])[0].rule.for_s is None


def test_unload_is_refused_when_it_says_neither_names_nor_all_or_both(tmp_path: Path) -> None:
    for arguments in ((), ("slow", "--all")):
        result = run(tmp_path, "unload", *arguments)
        assert result.exit_code == 2
        assert "--all" in result.stderr


def test_missing_file_is_named_when_it_is_to_be_loaded(tmp_path: Path) -> None:
    result = run(tmp_path, "explain", str(tmp_path / "nowhere.yaml"))
    assert result.exit_code == 2
    assert "nowhere.yaml" in result.stderr


def test_help_shows_a_rule_when_it_is_asked_for(tmp_path: Path) -> None:
    told = run(tmp_path, "--help").stdout
    assert "every: 1000" in told
    assert all(word in told for word in ("load", "unload", "list", "explain", "describe", "metrics"))


@pytest.mark.parametrize(
    ("when", "shown"),
    [
        ({}, "true"),
        ({"every": 1000, "condition": "event.delay > 15.0"}, "every 1000, event.delay > 15.0"),
        ({"probability": 0.1, "once": True}, "probability 0.1, once"),
    ],
)
def test_rule_when_it_is_listed_then_its_condition_has_all_that_decides(
    when: dict[str, object], shown: str
) -> None:
    rule = {"name": "r", "event": {"point": "sink.publish"}, "actions": [{"fault": "drop"}], **when}
    assert condition_of(Rule.model_validate(rule)) == shown
