"""`python -m towpath.operators.python_daemon`: Spark's Python daemon, whose workers begin a task sooner.

After each task a worker looks through all its objects for garbage. Most belong to modules: 80,000 objects,
which take 20 ms, two or three times in each micro-batch. So what the first tasks have loaded is left out.
"""

from __future__ import annotations

import gc
from types import SimpleNamespace

from pyspark import daemon

FIRST_TASKS = 3
"""By then a worker has imported what its tasks use."""


def run() -> None:
    """Serve as Spark's daemon, until Spark ends it."""
    daemon.gc = SimpleNamespace(collect=Collector().collect)  # type: ignore[attr-defined]
    daemon.manager()


class Collector:
    """Collects garbage after each task of a worker, which is a fork of the daemon."""

    def __init__(self) -> None:
        self._tasks = 0

    def collect(self) -> None:
        """Do what Spark's daemon does after a task."""
        gc.collect()
        self._tasks += 1
        if self._tasks <= FIRST_TASKS:
            gc.freeze()


if __name__ == "__main__":
    run()
