"""An interrupted test run leaves no process behind, whatever interrupts it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from running.leftovers import RUN
from running.places import ROOT
from running.waiting import until

RUN_WITH_DAEMON = """
import subprocess, sys, time
from pathlib import Path

def test_forever():
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    daemon = subprocess.Popen(command, start_new_session=True)
    pids = Path(__file__).with_name("pids")
    pids.with_suffix(".part").write_text(f"{daemon.pid} {__import__('os').getpid()}")
    pids.with_suffix(".part").rename(pids)
    time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda n: n.name)
def test_run_when_interrupted_then_its_daemons_and_workers_end_with_it(
    tmp_path: Path, number: signal.Signals
) -> None:
    run = start_run(tmp_path)
    daemon, worker = started_by(tmp_path)

    run.send_signal(number)
    run.wait(60)

    until(lambda: not daemon.is_running() and not worker.is_running())


def test_run_when_a_worker_is_killed_then_what_it_started_ends_while_the_run_goes_on(tmp_path: Path) -> None:
    run = start_run(tmp_path)
    daemon, worker = started_by(tmp_path)

    worker.kill()

    until(lambda: not daemon.is_running())
    run.kill()
    run.wait(60)


def start_run(directory: Path) -> subprocess.Popen[bytes]:
    """Start a test run of two workers, one of whose tests starts a daemon and never ends."""
    (directory / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (directory / "test_forever.py").write_text(RUN_WITH_DAEMON)
    (directory / "pytest.ini").write_text(f"[pytest]\npythonpath = {ROOT / 'tests'}\n")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    del environment[RUN]
    command = [sys.executable, "-m", "pytest", "-n", "2", str(directory)]
    return subprocess.Popen(command, cwd=directory, env=environment, stdout=subprocess.DEVNULL)


def started_by(directory: Path) -> tuple[psutil.Process, psutil.Process]:
    """Return the daemon that the endless test has started, and the worker that runs it."""
    pids = directory / "pids"
    until(pids.exists)
    daemon, worker = (psutil.Process(int(pid)) for pid in pids.read_text().split())
    return daemon, worker
