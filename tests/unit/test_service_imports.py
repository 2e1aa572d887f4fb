"""What runs beside the hub needs nothing that only engines and reports need."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from towpath.cli.endings import EXTRAS, OneLineGroup

PARTS = ("coordinator", "monitor", "injector", "collector", "api", "links")
ROOT = Path(__file__).resolve().parents[2]

WITHOUT = """
import sys
for name in {names!r}:
    sys.modules[name] = None
import towpath.{part}.app, towpath.{part}.settings
"""


@pytest.mark.parametrize("part", PARTS)
def test_service_when_no_engine_is_installed_then_imports(part: str) -> None:
    script = WITHOUT.format(names=sorted(EXTRAS), part=part)
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr


def test_extras_when_listed_then_are_those_of_the_project() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for package, extra in EXTRAS.items():
        assert any(requirement.startswith(package) for requirement in extras[extra])


@pytest.mark.parametrize("package", sorted(EXTRAS))
def test_command_when_a_package_is_missing_then_says_how_to_install_it(package: str) -> None:
    app = typer.Typer(cls=OneLineGroup)

    @app.command()
    def draw() -> None:
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)

    @app.command()
    def other() -> None:
        """A group has at least two."""

    ended = CliRunner().invoke(app, ["draw"])
    assert ended.exit_code == 1
    assert ended.stderr == f"towpath: {package} is not installed: pip install 'towpath[{EXTRAS[package]}]'\n"
