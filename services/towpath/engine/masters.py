"""Settings of a Spark session for the place where its tasks run: this process, or a cluster.

On a cluster the driver is still the engine's process. It plans, and tasks run in executors on other machines.
Executors read the site's streams and keep state. So all machines must have:

- the site's directory, on a shared file system: executors write the checkpoints in it, read the broker's
  password, and start Python with the launcher;
- the Python environment, at the same path;
- a connection to the site's broker, at the address where it listens.
"""

from __future__ import annotations

from dataclasses import dataclass

from towpath.contracts.site import EngineSpec
from towpath.engines.spark.binder import is_cluster

ROCKSDB = "spark.sql.streaming.stateStore.rocksdb"
"""Prefix of settings of Spark's state store."""

TASK_ATTEMPTS = 4
"""On a cluster, where a machine may be lost. Two attempts of one task are harmless: each writes state under a
name of its own (`checkpointFormatVersion` 2), and only the driver publishes results."""

SILENT_S = 60
"""Time after which a silent executor counts as lost: half of Spark's default. If its process died, its closed
connection shows that at once."""

WITHOUT_EXECUTORS_S = 30.0
"""Time after which an engine that lost all executors restarts. A master that was lost and came back
without its memory does not know the session any more, and never gives it another executor."""


def placed(spec: EngineSpec, java_options: str) -> dict[str, str]:
    """Return Spark settings for the driver's address and for its share of a cluster.

    `java_options` are those of the driver, and executors get the same.
    """
    if not is_cluster(spec):
        return {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            # Several tasks read a backlog. If one fails, the query fails and restarts whole.
            "spark.task.maxFailures": "1",
            # A snapshot of state refers to files that earlier ones brought to the checkpoint. Spark mistrusts
            # files that are older than the micro-batches it retains, and writes them again under new names:
            # an unchanged state would be written whole with each snapshot. That helps where another executor
            # may have cleaned up meanwhile. Here one process both writes them and cleans up.
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
    """Remembers whether a session has executors for its tasks."""

    _had: bool = False
    _none_since: float | None = None

    def are_lost(self, count: int, now: float) -> bool:
        """Take in their number at `now`, seconds. Return True if there have been none for too long.

        A session that never had any waits for its turn on a full cluster.
        """
        if count:
            self._had, self._none_since = True, None
            return False
        if self._none_since is None:
            self._none_since = now
        return self._had and now - self._none_since > WITHOUT_EXECUTORS_S
