"""The list of commands agrees with the commands, and showing it imports none of them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from towpath.cli.__main__ import COMMANDS
from towpath.cli.listing import ListedCommand

HEAVY = (
    *("aiohttp", "asyncio", "docker", "matplotlib", "nats", "natsrpy", "numpy", "opentelemetry", "orjson"),
    *("pandas", "paho", "prometheus_client", "psutil", "pyarrow", "pydantic", "pyspark", "redis", "yaml"),
)
"""Modules that commands need and `--help` does not."""


def loaded_by(*arguments: str) -> set[str]:
    """The modules that a run of the command line with these arguments has loaded when it ends."""
    program = "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
    program += "from towpath.cli.__main__ import main; main()"
    ended = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return set(ended.stderr.split())


@pytest.mark.parametrize("listed", list(COMMANDS), ids=lambda listed: listed.name)
def test_help_line_when_listed_then_is_the_first_paragraph_of_the_command(listed: ListedCommand) -> None:
    paragraph, _, _ = listed.load().help.partition("\n\n")
    assert listed.help == " ".join(paragraph.split())


def test_help_when_asked_for_then_no_command_and_nothing_heavy_is_imported() -> None:
    loaded = loaded_by("--help")
    commands = {listed.target.partition(":")[0] for listed in COMMANDS}
    assert loaded.isdisjoint({*HEAVY, *commands, "towpath.contracts"})


def test_help_of_a_command_when_asked_for_then_no_other_command_is_imported() -> None:
    loaded = loaded_by("jobs", "--help")
    commands = {listed.target.partition(":")[0] for listed in COMMANDS}
    assert loaded & commands == {"towpath.cli.jobs"}


def test_jobs_when_imported_then_what_only_changes_and_files_need_is_not() -> None:
    loaded = loaded_by("jobs", "--help")
    assert loaded.isdisjoint({"aiohttp.client", "opentelemetry.sdk", "redis", "yaml", "numpy", "pyspark"})
