"""Services beside the hub import nothing that only engines and reports need."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from towpath.cli.endings import EXTRAS, OneLineGroup
from towpath.mesh.service_table import hub_services

MODULES = [service.module for service in hub_services()]
ROOT = Path(__file__).resolve().parents[2]

WITHOUT = """
import importlib, sys, traceback
names, modules = sys.argv[1].split(","), sys.argv[2:]
for name in names:
    sys.modules[name] = None
for module in modules:
    try:
        importlib.import_module(f"{module}.app")
        importlib.import_module(f"{module}.settings")
    except ImportError:
        print(f"{module}:", traceback.format_exc())
"""


def test_services_when_no_engine_is_installed_then_import() -> None:
    command = [sys.executable, "-c", WITHOUT, ",".join(sorted(EXTRAS)), *MODULES]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert (ended.stdout, ended.returncode) == ("", 0), ended.stderr


def test_extras_when_listed_then_are_those_of_the_project() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    called = {"cel": "common-expression-language"}
    for package, extra in EXTRAS.items():
        name = called.get(package, package)
        assert any(requirement.startswith(name) for requirement in extras[extra])


@pytest.mark.parametrize("package", sorted(EXTRAS))
def test_command_when_a_package_is_missing_then_says_how_to_install_it(package: str) -> None:
    ended = CliRunner().invoke(with_a_command_of("towpath.cli.drawing", package), ["draw"])
    assert ended.exit_code == 1
    assert ended.stderr == f"towpath: {package} is not installed: pip install 'towpath[{EXTRAS[package]}]'\n"


def test_command_of_the_laboratory_when_a_package_is_missing_then_names_the_extra_that_brings_all() -> None:
    ended = CliRunner().invoke(with_a_command_of("towpath.lab.cli.drawing", "pandas"), ["draw"])
    assert ended.exit_code == 1
    assert ended.stderr == "towpath: pandas is not installed: pip install 'towpath[lab]'\n"


def with_a_command_of(module: str, missing: str) -> typer.Typer:
    """A command line whose command `draw`, of this module, misses a package."""
    names = {"__name__": module}
    exec(f"def draw(): raise ModuleNotFoundError('No module', name={missing!r})", names)
    app = typer.Typer(cls=OneLineGroup)
    app.command()(names["draw"])  # type: ignore[type-var]

    @app.command()
    def other() -> None:
        """A group has at least two."""

    return app
