"""Every command that a page shows works, in the order of the page, on a fresh mesh."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from running.command_line import DOWN_S, CommandLine
from running.pages import PAGES, blocks, files, script
from running.places import ROOT

PAGE_S = 1_200
"""Time limit for the commands of one page. Some bring a mesh up twice."""

LEFT_OUT = (".git", ".venv", ".towpath", "*_cache", ".hypothesis", "__pycache__", "results")
RUN_HERE = [page for page in PAGES if any(block.is_run for block in blocks(page))]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a copy of the checkout, so that commands write no files into this one."""
    copy = tmp_path / "towpath"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*LEFT_OUT), symlinks=True)
    (copy / ".venv").symlink_to(sys.prefix)
    return copy


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """Return the directory of the page's mesh. Stop the mesh in the end if the page did not."""
    directory = tmp_path / "home"
    yield directory
    CommandLine(directory).run("down", within_s=DOWN_S)


@pytest.mark.timeout(PAGE_S + 2 * DOWN_S)
@pytest.mark.parametrize("page", RUN_HERE, ids=lambda page: page.stem)
def test_page_when_its_commands_run_in_order_then_each_succeeds(
    page: Path, checkout: Path, home: Path, tmp_path: Path
) -> None:
    for name, text in files(blocks(page)).items():
        (checkout / name).write_text(text)

    code, transcript = run(script(blocks(page)), checkout, home, tmp_path / "transcript")

    assert code == 0, transcript[-4_000:]


def run(commands: str, checkout: Path, home: Path, transcript: Path) -> tuple[int, str]:
    """Run a script in a shell. Return its exit code and its output."""
    environment = {**os.environ, "TOWPATH_HOME": str(home), "PYTHONUNBUFFERED": "1"}
    environment["PATH"] = f"{checkout / '.venv' / 'bin'}{os.pathsep}{environment['PATH']}"
    with transcript.open("w") as said:
        shell = subprocess.Popen(
            ["bash", "-c", commands],
            cwd=checkout,
            env=environment,
            stdout=said,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            process_group=0,
        )
        try:
            code = shell.wait(PAGE_S)
        finally:
            end_group(shell.pid)
    return code, transcript.read_text()


def end_group(group: int) -> None:
    """Kill what a page left in the background. A mesh has process groups of its own, and stays."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return
