"""The processes of a Spark cluster on one device, as commands. Pure.

A command that changes means a restart of its process. So each holds only what its process needs: another
number of workers changes none of those that stay, and no master and no job.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from towpath.gateway.spark.processes import Command
from towpath.gateways.cluster_share import ClusterShare
from towpath.gateways.kinds.spark import (
    CORES,
    DEVICES,
    DRIVER_MEMORY,
    MEMORY,
    PORT,
    SHARED,
    SparkKind,
    share_in,
    shared_directory,
)

MASTER, JOB = "master", "job"
JOB_VARIABLE = "TOWPATH_JOB"
"""Environment variable with the job's settings, see `towpath.spark_job.settings`."""

_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
_DEPLOY = "org.apache.spark.deploy"


@dataclass(frozen=True)
class Machine:
    """Facts that stay the same while a cluster runs."""

    spark_home: Path
    script: Path
    device: str
    scratch: Path
    """Directory for what needs to survive no restart."""
    own: Path
    """The application's own directory. Its name without `.d` is the application's."""
    generation: str
    """Changes with the package and with the log of its input: the job's state then begins again."""
    feed: str
    """Name of the socket from which the job gets events."""
    alone_port: int
    """Port of a master whose cluster has no other device."""
    page_port: int
    """Port of the master's page."""


def wanted(machine: Machine, properties: Mapping[str, Any]) -> dict[str, Command]:
    """Return the processes that this device must have: the cluster's, then the job."""
    share = share_in(properties, machine.device)
    is_alone = not properties[DEVICES].strip()
    master = f"spark://{share.master}:{machine.alone_port if is_alone else properties[PORT]}"
    found: dict[str, Command] = {}
    if share.has_job:
        found[MASTER] = _master(machine, share, master)
    for number in range(1, share.workers + 1):
        found[f"worker-{number}"] = _worker(machine, share, master, number, properties)
    if share.has_job:
        found[JOB] = _job(machine, share, master, properties)
    return found


def checkpoint(machine: Machine, properties: Mapping[str, Any]) -> Path:
    """Return the directory of the job's state. Executors on other devices must reach it, too."""
    own = machine.own
    base = shared_directory(properties, own.stem, machine.device) if properties[SHARED] else own
    return base / f"checkpoint-{machine.generation}"


def _master(machine: Machine, share: ClusterShare, url: str) -> Command:
    host, port = _address(url)
    options = ("--host", host, "--port", str(port), "--webui-port", str(machine.page_port))
    remembered = (
        "-Dspark.deploy.recoveryMode=FILESYSTEM "
        f"-Dspark.deploy.recoveryDirectory={machine.scratch / 'master'} "
        # A job whose executors are killed again and again is not removed.
        "-Dspark.deploy.maxExecutorRetries=-1"
    )
    return _daemon(machine, share, remembered, f"{_DEPLOY}.master.Master", *options)


def _worker(
    machine: Machine, share: ClusterShare, master: str, number: int, properties: Mapping[str, Any]
) -> Command:
    directory = str(machine.scratch / f"worker-{number}")
    size = ("--cores", str(properties[CORES]), "--memory", str(properties[MEMORY]))
    options = ("--host", share.address, "--webui-port", "0", *size, "--work-dir", directory, master)
    tidy = (
        "-Dspark.worker.cleanup.enabled=true -Dspark.worker.cleanup.appDataTtl=3600 "
        "-Dspark.executor.logs.rolling.strategy=size -Dspark.executor.logs.rolling.maxSize=1048576 "
        "-Dspark.executor.logs.rolling.maxRetainedFiles=2"
    )
    daemon = _daemon(machine, share, tidy, f"{_DEPLOY}.worker.Worker", *options)
    # A worker that does not find its master waits for up to a minute until it looks again.
    return replace(daemon, after=_address(master))


def _daemon(machine: Machine, share: ClusterShare, options: str, *command: str) -> Command:
    environment = {
        **_environment(machine, share),
        "SPARK_DAEMON_MEMORY": "128m",
        "SPARK_DAEMON_JAVA_OPTS": f"{_JVM} {options}",
    }
    return Command((str(machine.spark_home / "bin" / "spark-class"), *command), environment)


def _environment(machine: Machine, share: ClusterShare) -> dict[str, str]:
    return {
        "SPARK_HOME": str(machine.spark_home),
        "SPARK_LOCAL_IP": share.address,
        "SPARK_LOCAL_DIRS": str(machine.scratch / "local"),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }


def _job(machine: Machine, share: ClusterShare, master: str, properties: Mapping[str, Any]) -> Command:
    own = {name: value for name, value in properties.items() if name not in SparkKind.properties}
    spark = {
        "spark.master": master,
        "spark.driver.host": share.address,
        "spark.driver.bindAddress": share.address,
        "spark.driver.memory": properties[DRIVER_MEMORY],
        "spark.driver.extraJavaOptions": _JVM,
        "spark.executor.memory": properties[MEMORY],
        "spark.executor.extraJavaOptions": _JVM,
        "spark.sql.warehouse.dir": str(machine.scratch / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    settings = {
        "feed": machine.feed,
        "checkpoint": str(checkpoint(machine, properties)),
        "properties": {name: value for name, value in own.items() if not name.startswith("spark.")},
        "spark": {**spark, **{name: str(v) for name, v in own.items() if name.startswith("spark.")}},
    }
    environment = {**_environment(machine, share), JOB_VARIABLE: json.dumps(settings, sort_keys=True)}
    return Command((sys.executable, str(machine.script)), environment, _address(master))


def _address(master: str) -> tuple[str, int]:
    host, _, port = master.removeprefix("spark://").rpartition(":")
    return host, int(port)
