"""Setup of all tests: a run leaves no process behind."""

from __future__ import annotations

import shutil
import signal
from typing import Any

import pytest

from running.leftovers import Reaper

REAPER = pytest.StashKey[Reaper]()


def pytest_configure(config: pytest.Config) -> None:
    """Start the run's reaper. Workers of pytest-xdist are part of the run that started them."""
    if not hasattr(config, "workerinput"):
        config.stash[REAPER] = Reaper.start()
        # Treat it as Ctrl-C, so that fixtures stop what they started.
        signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Kill what a crashed worker had started."""
    if error is not None:
        node.config.stash[REAPER].worker_died(node.gateway.id)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Fail a run whose tests left processes running."""
    reaper = session.config.stash.get(REAPER, None)
    if reaper is None:
        return
    left = reaper.finish(orderly=exitstatus != pytest.ExitCode.INTERRUPTED)
    if left:
        print("\ntests left processes running, which were killed:", *left, sep="\n  ")
        session.exitstatus = exitstatus or pytest.ExitCode.TESTS_FAILED
    if session.exitstatus == pytest.ExitCode.OK:
        shutil.rmtree(reaper.directory, ignore_errors=True)
    elif reaper.directory.exists():
        print(f"\nfiles of this run are kept in {reaper.directory}")
