"""The binder of Apache Spark, with whatever master: threads of one process, or a standalone cluster."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from towpath.contracts.job import JobContainer
from towpath.contracts.site import SMALLEST_HEAP_MB, EngineSpec
from towpath.engines.spark.java import check_java
from towpath.java import java_files

if TYPE_CHECKING:
    from towpath.engines.spark.checkpoint_format import SparkCheckpoints

LOCAL_READY_S = 240.0
"""A session starts in five seconds. Many at once take a minute on two cores."""

CLUSTER_READY_S = 300.0
"""A cluster may have no master or no free cores for a while."""

PYTHON_MB = 400
"""Memory of the engine's Python processes and of the JVM itself, besides heap and state."""


class SparkEngine:
    """See `EngineBinder`. The process is `python -m towpath.engine`."""

    agent_packages = ("pyarrow", "xxhash")
    engine_packages = ("pandas", "pyspark")

    def check_machine(self) -> None:
        """Look for Java."""
        check_java()

    def machine_files(self) -> Sequence[Path]:
        """Return those of Java."""
        return java_files()

    def command(self, setup: Path) -> Sequence[str]:
        """Return the command."""
        return (sys.executable, "-m", "towpath.engine", str(setup))

    def ready_s(self, spec: EngineSpec) -> float:
        """Return the time for a session to start here, or on its cluster."""
        return CLUSTER_READY_S if is_cluster(spec) else LOCAL_READY_S

    @property
    def checkpoints(self) -> SparkCheckpoints:
        """Its format. Loaded here, because commands that start nothing must work without its packages."""
        from towpath.engines.spark.checkpoint_format import SPARK_CHECKPOINTS

        return SPARK_CHECKPOINTS


def is_cluster(spec: EngineSpec) -> bool:
    """Return True if tasks run in executors, outside the engine's process."""
    return not spec.spark_master.startswith("local")


def heap_mb(wanted: JobContainer, engine: EngineSpec) -> int | None:
    """Return the heap that fits into the memory of a job's container. None: that of the site's engine."""
    if wanted.memory_mb is None:
        return None
    return max(SMALLEST_HEAP_MB, wanted.memory_mb - engine.state_memory_mb - PYTHON_MB)
