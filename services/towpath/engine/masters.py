"""What a Spark session needs to know of the place its tasks run in: this process, or a cluster.

On a cluster the driver is the engine's process, as always, and plans; tasks run in executors on other
machines. Those read the site's streams, and keep state, so some things must be the same everywhere:

- the site's directory, on a file system that all machines share: it holds the checkpoints, which executors
  write, the broker's password, which they read, and the launcher they start Python with;
- the Python environment, at the same path;
- the site's broker, reachable at the address it listens on.
"""

from __future__ import annotations

from towpath.contracts.site import EngineSpec

TASK_ATTEMPTS = 4
"""On a cluster, where a machine may be lost. Two attempts of one task are harmless: state is written under a
name of its own by each (`checkpointFormatVersion` 2), and results are published by the driver alone."""

SILENT_S = 60
"""Until an executor that says nothing counts as lost, half of Spark's default. One whose process died is
noticed at once, by its connection."""


def is_cluster(spec: EngineSpec) -> bool:
    """Whether tasks run in executors, outside the engine's process."""
    return not spec.spark_master.startswith("local")


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
