"""Run `towpath` as users do: in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from towpath.cli.__main__ import app

UP_S = 400
"""Engines need a minute to start, and minutes while other tests start some, too."""

START_S, STEP_S, CHECK_S, DOWN_S = UP_S + 30, 150, 400, 90
"""Longer than the command line's own deadlines, so that a failing test shows its message."""

MESH_TIMEOUT_S = START_S + 3 * STEP_S + CHECK_S + DOWN_S
"""Time limit of a module's first test, which brings the mesh up and deploys to it."""


PARTS = ("contracts", "libs", "services")
"""Directories of the program."""


class CommandLine:
    """Run `towpath` as users do: in a process of its own."""

    def __init__(self, home: Path, program: Path | None = None) -> None:
        """`program`: a directory with another version of Towpath."""
        self.home = home
        self.program = program

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "towpath.cli", "--home", str(self.home), *arguments]
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        if self.program is not None:
            environment["PYTHONPATH"] = ":".join(str(self.program / part) for part in PARTS)
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def run(
        self, *arguments: str, within_s: float = STEP_S, stdin: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        process = self.start(*arguments)
        try:
            out, err = process.communicate(stdin, timeout=within_s)
        finally:
            process.kill()
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def call(self, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command in this process, which saves seconds, for tests of its answer, not of its end."""
        invoke = partial(CliRunner().invoke, app, ["--home", str(self.home), *arguments], input=stdin)
        with ThreadPoolExecutor(1) as thread:  # The caller may be in an event loop; commands run their own.
            ended = thread.submit(invoke).result()
        return subprocess.CompletedProcess(arguments, ended.exit_code, ended.stdout, ended.stderr)

    def succeed(self, *arguments: str) -> str:
        """Run a command that must succeed. Return what it prints."""
        ended = self.call(*arguments)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def json(self, *arguments: str) -> Any:
        """Run a command with --json. Return its answer; it must succeed and print nothing else."""
        return json.loads(self.succeed(*arguments, "--json"))


def read_line(process: subprocess.Popen[str], stream: str) -> str:
    """Return the next line that a running command prints; the test's time limit ends a wait in vain."""
    pipe = getattr(process, stream)
    text = pipe.readline()
    assert text, f"{process.args} ended with {process.wait()}"
    return text
