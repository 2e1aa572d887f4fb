"""The command line as a program: its imports and its failures."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from towpath.cli.endings import FAILED


def test_program_when_it_fails_then_shows_no_traceback(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "towpath.cli", "--home", str(tmp_path / "home"), "jobs"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (FAILED, "", 1)


def test_check_of_files_when_run_then_neither_spark_nor_a_mesh_is_needed(tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    events.write_text('{"id": 1, "level": 3}\n{"id": 2, "level": 5}\n')
    program = (
        "import sys; sys.modules['pyspark'] = None; sys.argv[0] = 'towpath';"
        "from towpath.cli.__main__ import main; main()"
    )
    files = ["--input", str(events), "--output", str(events), "--rule", "pass-through"]
    command = [sys.executable, "-c", program, "--home", str(tmp_path / "none"), "check", *files]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert not (tmp_path / "none").exists()
