"""A Spark standalone cluster on this machine: a master and some workers, each a process that can be lost.

Its processes have pid files, as those of a mesh do. So they can be ended by the run directory, even if their
starter was killed.

`stop` may block for a moment.
"""

from __future__ import annotations

import asyncio
import importlib.util
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.processes import child
from towpath.processes.spec import ChildSpec

MASTER = "master"
READY_S = 90.0
"""For a JVM to start and report, on a machine where many do."""

STOP_S = 5.0
CORES, MEMORY = 1, "700m"
"""Cores and memory of each worker."""

LOOK_S = 0.1
_DAEMON_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dspark.worker.timeout=10"
_DEPLOY = "org.apache.spark.deploy"


@dataclass
class SparkCluster:
    """Processes by name; `master` is one of them."""

    directory: Path
    """Logs, what executors write, and what the master remembers."""
    port: int
    """Where the master listens, on 127.0.0.1."""
    run: Path
    """Where pid files go."""
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """Address of the master, for `EngineSpec.spark_master`."""
        return f"spark://127.0.0.1:{self.port}"

    async def start_master(self) -> None:
        """Start the master, as it was if it ran before: it keeps what it knows on disk.

        Raises `TowpathError` when it does not start.
        """
        await self._start(MASTER, ["master.Master", "--port", str(self.port)], "I have been elected leader")

    async def start_worker(self, name: str) -> None:
        """Start a worker of one core. Raises `TowpathError` when it does not reach the master."""
        options = ["--cores", str(CORES), "--memory", MEMORY, "--work-dir", str(self.directory / name)]
        command = ["worker.Worker", *options, self.url]
        await self._start(name, command, "Successfully registered with master")

    def stop(self) -> None:
        """End everything; harmless when nothing runs."""
        for name in sorted(self.processes, key=lambda name: name == MASTER):
            child.stop(self.run, _named(name), grace_s=STOP_S)
            self.processes.pop(name).wait()

    async def _start(self, name: str, command: list[str], announces: str) -> None:
        spec = self._spec(name, command)
        self.processes[name] = await asyncio.to_thread(child.launch, spec, self.run)
        try:
            async with asyncio.timeout(READY_S):
                while announces not in spec.log.read_text(errors="replace"):
                    if self.processes[name].poll() is not None:
                        raise TowpathError(ErrorCode.FAILED, f"{name} ended, see {spec.log}", field="process")
                    await asyncio.sleep(LOOK_S)
        except TimeoutError as error:
            raise TowpathError(ErrorCode.DEADLINE, f"{name} is not ready, see {spec.log}") from error

    def _spec(self, name: str, command: list[str]) -> ChildSpec:
        home = spark_home()
        class_name, *options = command
        address = ["--host", "127.0.0.1", "--webui-port", "0"]
        return ChildSpec(
            name=_named(name),
            command=(str(home / "bin" / "spark-class"), f"{_DEPLOY}.{class_name}", *address, *options),
            log=self.directory / f"{name}.log",
            environment={
                "SPARK_HOME": str(home),
                "SPARK_LOCAL_IP": "127.0.0.1",
                "SPARK_DAEMON_MEMORY": "128m",
                "SPARK_DAEMON_JAVA_OPTS": f"{_DAEMON_OPTIONS} -Dspark.deploy.recoveryMode=FILESYSTEM "
                f"-Dspark.deploy.recoveryDirectory={self.directory / 'recovery'}",
            },
        )


def spark_home() -> Path:
    """Where PySpark keeps Spark. Raises `TowpathError` when it is not installed."""
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise TowpathError(ErrorCode.FAILED, "PySpark is not installed", field="pyspark")
    return Path(found.origin).parent


def _named(name: str) -> str:
    return f"spark-{name}"


@asynccontextmanager
async def spark_cluster(
    directory: Path, *workers: str, port: int, run: Path | None = None
) -> AsyncIterator[SparkCluster]:
    """Start a master and these workers. All of them are gone in the end.

    Pid files go to `run`, or below `directory`. Raises `TowpathError` when something does not start.
    """
    await asyncio.to_thread(directory.mkdir, parents=True, exist_ok=True)
    cluster = SparkCluster(directory, port, run or directory / "run")
    try:
        await cluster.start_master()
        await asyncio.gather(*(cluster.start_worker(name) for name in workers))
        yield cluster
    finally:
        # Even if this task was cancelled.
        await asyncio.shield(asyncio.to_thread(cluster.stop))
