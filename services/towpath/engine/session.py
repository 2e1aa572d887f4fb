"""The Spark session: started once, and tuned for small and frequent micro-batches."""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource

from towpath.contracts.site import Compilation, EngineSpec
from towpath.engine.class_archive import archive_option
from towpath.engine.code_generation import INTERPRETED
from towpath.engine.masters import ROCKSDB, placed
from towpath.engine.settings import EngineSettings
from towpath.engines.spark.binder import is_cluster
from towpath.engines.spark.local_files import local_file_settings
from towpath.hooks.extension import spark_settings
from towpath.streams.source import StreamSource

_STREAMING = "org.apache.spark.sql.execution.streaming"

TUNING = {
    # A log write of a micro-batch takes 9 instead of 35 ms: plain file operations, without Hadoop's contexts.
    # It does not notice a second writer, but epochs do.
    "spark.sql.streaming.checkpointFileManagerClass": (
        f"{_STREAMING}.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.daemon.module": "towpath.operators.python_daemon",
    # Time for a Python worker to report. The default of 15 s fails queries on an overloaded machine.
    "spark.python.authenticate.socketTimeout": "60s",
    # State: RocksDB with changelogs, so that a commit writes only what changed.
    "spark.sql.streaming.stateStore.providerClass": f"{_STREAMING}.state.RocksDBStateStoreProvider",
    f"{ROCKSDB}.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
    f"{ROCKSDB}.boundedMemoryUsage": "true",
    # Snapshots go to the checkpoint in the background. When the next one is due before that is done, its new
    # files are written again. So a snapshot comes every 20 micro-batches, and maintenance runs more often.
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "20",
    "spark.sql.streaming.stateStore.maintenanceInterval": "5s",
    # A checkpoint that travels should hold little history. A restart needs only the last micro-batch.
    "spark.sql.streaming.minBatchesToRetain": "3",
    # The state of a job is in one partition, because a site's job is small and moves as a whole.
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.session.timeZone": "UTC",
    # Expressions of users read their event: no files, and no variables of this process (`'${env:…}'`).
    "spark.sql.runSQLOnFiles": "false",
    "spark.sql.variable.substitute": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # The engine looks four times a second, and late on a busy machine. It must miss no micro-batch's report.
    "spark.sql.streaming.numRecentProgressUpdates": "32",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.sql.ui.retainedExecutions": "5",
}

CODE_GENERATION = {Compilation.QUICK: INTERPRETED, Compilation.THOROUGH: {}}
"""Spark settings for each effort of compilation. Spark generates code by default."""

_TIERS = {Compilation.QUICK: 1, Compilation.THOROUGH: 4}
"""The last tier of Java's compilers. The JVM counts the first compiler as 1 to 3, and the second as 4."""

_LOG_CONFIGURATION = """\
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yyyy-MM-dd'T'HH:mm:ss.SSS} %p %c{1}: %m%n%ex
# Stopping a query closes the sockets of its Python workers, and they complain about that.
logger.python.name = org.apache.spark.api.python
logger.python.level = error
logger.execution.name = org.apache.spark.sql.execution.streaming.runtime.ProcessingTimeExecutor
logger.execution.level = error
logger.resolver.name = org.apache.spark.sql.execution.streaming.runtime.ResolveWriteToStream
logger.resolver.level = error
"""


def start_session(settings: EngineSettings, python: str = sys.executable) -> SparkSession:
    """Start Spark, with `python` as the interpreter of its Python processes. Blocks for some seconds."""
    os.environ["PYSPARK_PYTHON"] = python
    os.environ["PYSPARK_DRIVER_PYTHON"] = python
    directory = settings.directory
    scratch = directory / "scratch"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    log_configuration = directory / "log4j2.properties"
    log_configuration.write_text(_LOG_CONFIGURATION)
    java_options = java_options_of(settings.spec, log_configuration)
    if settings.temporary is not None:
        take_over(settings.temporary)
        java_options = f"-Djava.io.tmpdir={settings.temporary} {java_options}"
    builder = (
        SparkSession.builder.appName(f"towpath-{settings.site}")
        .master(settings.spec.spark_master)
        .config("spark.driver.memory", settings.spec.memory)
        .config("spark.local.dir", str(scratch))
        .config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
        .config(f"{ROCKSDB}.maxMemoryUsageMB", str(settings.spec.state_memory_mb))
        .config("spark.driver.extraJavaOptions", f"{archive_option()} {java_options}".strip())
    )
    generation, placing = CODE_GENERATION[settings.spec.compilation], placed(settings.spec, java_options)
    tuning = TUNING | generation | local_file_settings(durable=settings.durable) | placing | spark_settings()
    for key, value in tuning.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    register_source(session, StreamSource)
    session.sparkContext.setLogLevel("ERROR")
    return session


def take_over(temporary: Path) -> None:
    """Remove what a killed engine left in a directory for temporary files, and lock it until this one ends.

    systemd-tmpfiles skips what is locked. Otherwise it removes what has not been used for ten days, and also
    the directory, and a confined process cannot use another one in its place.
    """
    fcntl.flock(os.open(temporary, os.O_RDONLY), fcntl.LOCK_SH)
    for left in temporary.iterdir():
        shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()


def register_source(session: SparkSession, source: type[DataSource]) -> None:
    """Register a source that many queries of the session read.

    All of them share the map of environment variables that it is registered with, and each adds to it while
    it starts. Spark makes that a plain `HashMap`. Two queries that started at the same moment left it with a
    wrong count, and from then on no task of any query could read it (`java.io.OptionalDataException`).
    """
    context = session.sparkContext
    jvm: Any = context._jvm
    variables = context.environment
    context.environment = jvm.java.util.concurrent.ConcurrentHashMap(variables)
    try:
        session.dataSource.register(source)
    finally:
        context.environment = variables


def java_options_of(spec: EngineSpec, log_configuration: Path) -> str:
    """Return the options of the engine's JVM. The site's own options come last, so they win.

    - The serial collector, because the heap is small.
    - Only the first compiler tier by default, because micro-batches are short and a site has few cores. The
      second tier costs CPU time for minutes, until it has compiled what runs often.
    - A code cache of 240 MB. With the first tier only it has 48 MB, which two jobs filled in two minutes.
      From then on the JVM threw code away and compiled it again, for a third of its CPU time.
    - Large stacks, because frames of the first tier are deeper. Spark searches the texts of a cluster's
      errors with recursion, which needs even larger ones.
    """
    stack = "16m" if is_cluster(spec) else "4m"
    tier = _TIERS[spec.compilation]
    ours = f"-XX:+UseSerialGC -XX:TieredStopAtLevel={tier} -XX:ReservedCodeCacheSize=240m -Xss{stack}"
    logging = f"-Dlog4j2.configurationFile=file:{log_configuration}"
    return f"{ours} {logging} {spec.java_options}".strip()


def start_process(session: SparkSession) -> None:
    """Let the JVM start a process, as Spark does for each query. Blocks. Raises an error if it cannot."""
    jvm: Any = session.sparkContext._jvm
    jvm.java.lang.Runtime.getRuntime().exec("true").waitFor()
