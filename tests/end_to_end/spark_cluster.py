"""A Spark standalone cluster of real processes: a master and some workers, which can be killed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pyspark
from conftest import free_port

HOME = Path(pyspark.__file__).parent
MASTER = "master"
READY_S = 90.0
CORES, MEMORY = 1, "700m"
"""Of each worker."""

DAEMON_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dspark.worker.timeout=10"


@dataclass
class SparkCluster:
    """Processes by name; `master` is one of them."""

    directory: Path
    port: int = field(default_factory=free_port)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    async def start_master(self) -> None:
        """Start the master, as it was if it ran before: it keeps what it knows on disk."""
        self._launch(MASTER, "org.apache.spark.deploy.master.Master", "--port", str(self.port))
        await self._until_logged(MASTER, "I have been elected leader")

    async def start_worker(self, name: str) -> None:
        options = ["--cores", str(CORES), "--memory", MEMORY, "--work-dir", str(self.directory / name)]
        self._launch(name, "org.apache.spark.deploy.worker.Worker", *options, self.url)
        await self._until_logged(name, "Successfully registered with master")

    def kill(self, name: str) -> None:
        """Kill a process with all that it started, as if its machine was lost."""
        process = self.processes.pop(name)
        family = [process.pid]
        with contextlib.suppress(psutil.NoSuchProcess):
            family += [child.pid for child in psutil.Process(process.pid).children(recursive=True)]
        for pid in family:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, 9)
        process.wait()

    async def replace(self, *workers: str) -> None:
        """Lose everything, and start a cluster at the same address that remembers nothing."""
        for name in list(self.processes):
            self.kill(name)
        await asyncio.to_thread(shutil.rmtree, self.directory / "recovery")
        await self.start_master()
        await asyncio.gather(*(self.start_worker(name) for name in workers))

    def executors(self, name: str) -> int:
        """How many executors a worker runs."""
        count = 0
        for child in psutil.Process(self.processes[name].pid).children(recursive=True):
            # One that ends just now has no command line.
            with contextlib.suppress(psutil.NoSuchProcess):
                count += "CoarseGrainedExecutorBackend" in " ".join(child.cmdline())
        return count

    def _launch(self, name: str, class_name: str, *options: str) -> None:
        environment = {
            **os.environ,
            "SPARK_HOME": str(HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "128m",
            "SPARK_DAEMON_JAVA_OPTS": f"{DAEMON_OPTIONS} -Dspark.deploy.recoveryMode=FILESYSTEM "
            f"-Dspark.deploy.recoveryDirectory={self.directory / 'recovery'}",
        }
        command = [str(HOME / "bin" / "spark-class"), class_name, "--host", "127.0.0.1", "--webui-port", "0"]
        with self._log(name).open("wb") as log:
            self.processes[name] = subprocess.Popen(
                [*command, *options], env=environment, stdout=log, stderr=subprocess.STDOUT
            )

    def _log(self, name: str) -> Path:
        return self.directory / f"{name}.log"

    async def _until_logged(self, name: str, text: str) -> None:
        async with asyncio.timeout(READY_S):
            while text not in self._log(name).read_text():
                assert self.processes[name].poll() is None, self._log(name).read_text()
                await asyncio.sleep(0.1)


@asynccontextmanager
async def spark_cluster(directory: Path, *workers: str) -> AsyncIterator[SparkCluster]:
    """A master and these workers; all of them are gone in the end."""
    await asyncio.to_thread(directory.mkdir, parents=True)
    cluster = SparkCluster(directory)
    try:
        await cluster.start_master()
        await asyncio.gather(*(cluster.start_worker(name) for name in workers))
        yield cluster
    finally:
        for name in list(cluster.processes):
            cluster.kill(name)
