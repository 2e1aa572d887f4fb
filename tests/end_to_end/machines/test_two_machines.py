"""Jobs and keys across machines: `make two-machines` ends with its verdict, and leaves nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from running.machines import NAMES, WORK
from running.places import ROOT
from running.waiting import until

PROGRAM = Path(__file__).with_name("two_machines.py")
LONGEST_S = 1800.0
"""About six minutes on two free cores."""

pytestmark = pytest.mark.timeout(LONGEST_S + 60)


def start() -> subprocess.Popen[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]),
    }
    return subprocess.Popen(
        [sys.executable, str(PROGRAM)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def left() -> list[str]:
    """Return what a run has left behind."""
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    namespaces = subprocess.run(["ip", "netns"], capture_output=True, text=True, check=True).stdout
    interfaces = [line for line in links.splitlines() if " lan" in line or " to-" in line]
    files = [str(path) for path in WORK.glob("*")] if WORK.exists() else []
    return [*interfaces, *{*NAMES}.intersection(namespaces.split()), *files]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_machines_when_they_are_interrupted_or_killed_then_leave_nothing(number: signal.Signals) -> None:
    process = start()
    assert process.stdout is not None
    if not process.stdout.readline():
        assert process.wait(60) == 2
        pytest.skip("no machines can be made here")

    process.send_signal(number)
    code = process.wait(60)

    assert code == (-number if number is signal.SIGKILL else 130)
    until(lambda: not left())


def test_job_when_it_moves_and_keys_change_across_machines_then_each_result_comes_once() -> None:
    process = start()
    out, error = process.communicate(timeout=LONGEST_S)
    if process.returncode == 2:
        pytest.skip(error.strip())

    assert process.returncode == 0, out + error
    assert out.splitlines()[-1].endswith("0 lost, 0 twice")
    assert left() == []
