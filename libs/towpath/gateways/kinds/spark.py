"""Applications that are a Spark standalone cluster with a job in Python.

The cluster is a master and workers, processes of this device. The job is a script of the package. Several
devices may form one cluster: the first of `spark.devices` has the master and the job, all have workers.
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from towpath.contracts.gateway import Code, Manifest, Problem
from towpath.gateways.cluster_share import ClusterShare, members_of, share_of
from towpath.gateways.kinds.kind import Kind, register
from towpath.gateways.refusal import Refusal
from towpath.java import java_version

OLDEST_JAVA = 17
"""Spark 4 does not run on an older one."""

WORKERS, CORES, MEMORY = "spark.workers", "spark.worker.cores", "spark.worker.memory"
DRIVER_MEMORY = "spark.driver.memory"
DEVICES, PORT, SHARED = "spark.devices", "spark.master.port", "spark.directory"
READY = "spark.ready.seconds"

_MEMORY = re.compile(r"^[1-9][0-9]*[mg]$")
_MEGABYTES = {"m": 1, "g": 1024}
READY_S = 240
"""Three generations of JVMs start, one after the other. That takes 15 s on a free machine."""

LEAST_MB = 471
"""Spark refuses to run in less."""


@register("spark")
class SparkKind(Kind):
    """Look for Java and Spark only where such a package is installed: a light gateway needs neither."""

    module: ClassVar[str] = "towpath.gateway.spark"
    end_s: ClassVar[float] = 15.0

    properties: ClassVar[Mapping[str, Any]] = {
        WORKERS: 1,
        CORES: 1,
        MEMORY: "512m",
        DRIVER_MEMORY: "512m",
        DEVICES: "",
        PORT: 7077,
        SHARED: "",
        READY: READY_S,
    }

    def ready_s(self, values: Mapping[str, Any]) -> float:
        """Return the property. An application that an earlier version has installed has none."""
        return float(values.get(READY, READY_S))

    def check(self, manifest: Manifest, values: Mapping[str, Any]) -> None:
        """Check the script's name and the cluster's size."""
        problems: list[Problem] = []
        if not re.fullmatch(r"[A-Za-z0-9_/-]+\.py", manifest.script) or manifest.script.startswith("/"):
            problems.append(Problem("no script", "script", manifest.script, "a Python file of the package"))
        for name, least, most in ((WORKERS, 0, 1000), (CORES, 1, 1000), (PORT, 1, 65535), (READY, 1, 86400)):
            if not isinstance(values[name], int) or not least <= values[name] <= most:
                problems.append(Problem("not such a number", name, values[name], f"{least} to {most}"))
        for name in (MEMORY, DRIVER_MEMORY):
            if not _MEMORY.match(str(values[name])) or _megabytes(values[name]) < LEAST_MB:
                allowed = f"`512m`, `2g` and so on, from {LEAST_MB}m"
                problems.append(Problem("not an amount of memory", name, values[name], allowed))
        try:
            members_of(str(values[DEVICES]))
        except ValueError as error:
            problems.append(
                Problem(str(error), DEVICES, values[DEVICES], "NAME=ADDRESS, with commas between")
            )
        if values[SHARED] and not str(values[SHARED]).startswith("/"):
            problems.append(Problem("not an absolute path", SHARED, values[SHARED]))
        if problems:
            raise Refusal(Code.BAD_REQUEST, *problems)

    def check_device(self, manifest: Manifest, directory: Path) -> None:
        """Look for the script, and for Java and PySpark on this device."""
        problems: list[Problem] = []
        if not (directory / manifest.script).is_file():
            problems.append(Problem("the package has no such file", "script", manifest.script))
        java = java_version()
        if java is None or java < OLDEST_JAVA:
            found = "Java is missing on this device" if java is None else f"this device has Java {java} only"
            problems.append(
                Problem(found, "java", os.environ.get("JAVA_HOME"), f"Java {OLDEST_JAVA} or later")
            )
        if spark_home() is None:
            allowed = "pip install 'towpath[engine]'"
            problems.append(Problem("PySpark is missing on this device", "pyspark", None, allowed))
        if problems:
            raise Refusal(Code.FAILED, *problems)

    def directories(self, manifest: Manifest, values: Mapping[str, Any], device: str) -> list[Path]:
        """Return the device's part of a directory that all devices of the cluster share."""
        return [shared_directory(values, manifest.name, device)] if values[SHARED] else []

    def topics(self, manifest: Manifest, values: Mapping[str, Any], device: str) -> list[str]:
        """Return no topics for a device without the job, or while there are no workers."""
        share = share_in(values, device)
        return super().topics(manifest, values, device) if share.has_job else []


def share_in(values: Mapping[str, Any], device: str) -> ClusterShare:
    """Return a device's share of the cluster that an application's properties describe."""
    return share_of(device, values[DEVICES], values[WORKERS])


def shared_directory(values: Mapping[str, Any], application: str, device: str) -> Path:
    """Return the part of the shared directory for the state of a job on this device, and of no other one."""
    return Path(values[SHARED], f"{application}-{device}")


def spark_home() -> Path | None:
    """Return the directory of the Spark that comes with PySpark. It is not loaded."""
    found = importlib.util.find_spec("pyspark")
    return Path(found.origin).parent if found is not None and found.origin is not None else None


def _megabytes(text: str) -> int:
    return int(text[:-1]) * _MEGABYTES[text[-1]]
