"""What a Spark session needs to know of the place its tasks run in: this process, or a cluster.

On a cluster the driver is the engine's process, as always, and plans; tasks run in executors on other
machines. Those read the site's streams, and keep state, so some things must be the same everywhere:

- the site's directory, on a file system that all machines share: it holds the checkpoints, which executors
  write, the broker's password, which they read, and the launcher they start Python with;
- the Python environment, at the same path;
- the site's broker, reachable at the address it listens on.
"""

from __future__ import annotations

from dataclasses import dataclass

from towpath.contracts.site import EngineSpec
from towpath.engines.spark.binder import is_cluster

ROCKSDB = "spark.sql.streaming.stateStore.rocksdb"
"""Prefix of the settings of Spark's state store."""

TASK_ATTEMPTS = 4
"""On a cluster, where a machine may be lost. Two attempts of one task are harmless: state is written under a
name of its own by each (`checkpointFormatVersion` 2), and results are published by the driver alone."""

SILENT_S = 60
"""Until an executor that says nothing counts as lost, half of Spark's default. One whose process died is
noticed at once, by its connection."""

WITHOUT_EXECUTORS_S = 30.0
"""Until the engine starts anew when it had executors and has none. A master that was lost and came back
without its memory does not know the session any more, and never gives it another one."""


def placed(spec: EngineSpec, java_options: str) -> dict[str, str]:
    """Spark settings for where the driver listens and what it takes of a cluster.

    `java_options` are those of the driver: executors get the same.
    """
    if not is_cluster(spec):
        return {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            # Backlog is read by several tasks, but a task that fails is the query's failure: it restarts
            # whole.
            "spark.task.maxFailures": "1",
            # A snapshot of state refers to files that earlier ones brought to the checkpoint. Spark mistrusts
            # those that came more micro-batches ago than it retains, and writes them again under new names:
            # a state that stays, whole, with each snapshot. That helps where another executor may have
            # cleaned up meanwhile; here the one process that writes them is the one that cleans up.
            f"{ROCKSDB}.checkStaleReusedFilesInSnapshot": "false",
        }
    return {
        "spark.driver.bindAddress": spec.driver_host,
        "spark.driver.host": spec.driver_host,
        "spark.cores.max": str(spec.cluster_cores),
        "spark.executor.memory": spec.executor_memory,
        "spark.executor.extraJavaOptions": java_options,
        "spark.task.maxFailures": str(TASK_ATTEMPTS),
        "spark.network.timeout": f"{SILENT_S}s",
    }


@dataclass
class Executors:
    """Whether a session still has what its tasks run in."""

    _had: bool = False
    _none_since: float | None = None

    def are_lost(self, count: int, now: float) -> bool:
        """Take in how many there are at `now`, seconds; whether none have been left for too long.

        A session that never had any waits for its turn on a cluster that is full.
        """
        if count:
            self._had, self._none_since = True, None
            return False
        if self._none_since is None:
            self._none_since = now
        return self._had and now - self._none_since > WITHOUT_EXECUTORS_S
