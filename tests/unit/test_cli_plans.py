"""`towpath plan check`: needs no mesh, and tells all errors with file and place; JSON alone if asked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from towpath.cli.__main__ import app
from towpath.cli.endings import BAD_INPUT

EXAMPLES = Path(__file__).parents[2] / "examples" / "plans"
CATALOGUE = str(EXAMPLES / "catalogue.yaml")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["plan", *arguments])


def test_check_when_the_plan_fits_then_prints_what_each_device_gets() -> None:
    result = run("check", str(EXAMPLES / "temperatures.yaml"), "--catalogue", CATALOGUE, "--json")

    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert [(o["order"], o["operation"]) for o in found["operations"]] == [
        (1, "readings"),
        (2, "average"),
        (2, "forecast"),
    ]


def test_check_when_the_plan_is_the_listing_then_warnings_go_to_stderr() -> None:
    result = run(
        "check",
        str(EXAMPLES / "thesis-a1.json"),
        "--catalogue",
        str(EXAMPLES / "thesis-catalogue.yaml"),
        "--name",
        "thesis",
    )

    assert result.exit_code == 0
    assert "softeware_stack" in result.stderr
    assert "timeseries-forecast.jar" in result.stdout
    assert "softeware_stack" not in result.stdout


def test_check_when_devices_are_unknown_then_each_error_has_file_and_place() -> None:
    listing = str(EXAMPLES / "thesis-a1.json")

    result = run("check", listing, "--catalogue", CATALOGUE)

    assert (result.exit_code, result.stdout) == (BAD_INPUT, "")
    lines = result.stderr.splitlines()
    assert all(line.startswith(f"{listing}: Computation[") for line in lines)
    assert "Computation[0].Operation (placement.devices[0]): unknown device; did you mean 'pi-1'?" in lines[0]


@pytest.mark.parametrize("text", ["devices: [{id: a, memory: 5}]", "nothing", "{"])
def test_check_when_the_catalogue_is_wrong_then_is_bad_input(text: str, tmp_path: Path) -> None:
    catalogue = tmp_path / "catalogue.yaml"
    catalogue.write_text(text)

    result = run("check", str(EXAMPLES / "temperatures.yaml"), "--catalogue", str(catalogue))

    assert (result.exit_code, result.stdout) == (BAD_INPUT, "")
    assert str(catalogue) in result.stderr
