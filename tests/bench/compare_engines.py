"""The engines that are compared, each as a running count: Towpath in a mesh, others with a plain broker."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import psutil
import reports
from benchmark import EDGE, Say
from compare_judging import ALLOWED_S, SIZE_S
from load import LoadSpec
from measured_mesh import mesh_of, temporary_home
from plain_broker import Broker, plain_broker
from windowed import counting

from towpath.mesh import lifecycle
from towpath.mesh.home import Home

HERE = Path(__file__).parent
ENVIRONMENTS = HERE / "results" / ".environments"
COMPLETE = "requirements.txt"
"""File in an environment that says what is installed. It is written last."""

INSTALL_S = 900.0
"""Time limit for an installation: PyFlink and Pathway have more than a gigabyte each."""

END_S = 10.0
LOG_LINES = 3
"""Lines of a program's log that tell why it ended."""

RESULTS_TOPIC = "results/compare"


class EngineFailed(RuntimeError):
    """An engine could not be installed, or ended by itself."""


@dataclass(frozen=True)
class Counting:
    """An engine that counts."""

    broker: Broker
    """Login of a user that may publish events and subscribe to results."""
    results: str
    """Topic of the results."""
    roots: Callable[[], Mapping[int, str]]
    """Returns the outermost processes of the engine, without brokers."""
    check: Callable[[], None] = lambda: None
    """Raises `EngineFailed` if the engine has ended by itself."""

    def load_spec(self, client_id: str, **options: object) -> LoadSpec:
        """Return a load into the broker; `options` are fields of `LoadSpec`."""
        spec = LoadSpec(
            host=self.broker.host,
            port=self.broker.port,
            user=self.broker.user,
            password=self.broker.password,
            client_id=client_id,
        )
        return replace(spec, **options)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Compared:
    """An engine that is compared."""

    name: str
    run: Callable[[Say], AbstractAsyncContextManager[Counting]]
    is_towpath: bool = False
    """True for Towpath: it alone can move a running job, and its faults decide the exit code."""


@dataclass(frozen=True)
class Other:
    """An engine of others: what pip installs for it, and its program."""

    name: str
    requirements: tuple[str, ...]
    program: str


OTHERS = (
    Other("Pathway", ("pathway==0.33.0", "paho-mqtt==2.2.0"), "pathway_count.py"),
    Other("Bytewax", ("bytewax==0.21.1", "paho-mqtt==2.2.0"), "bytewax_count.py"),
    Other("PyFlink", ("apache-flink==2.3.0", "paho-mqtt==2.2.0"), "pyflink_count.py"),
)


@asynccontextmanager
async def _towpath(trigger_s: float, say: Say) -> AsyncIterator[Counting]:
    with temporary_home() as home:
        async with mesh_of(home, [EDGE], say) as mesh:
            after = await mesh.last_serial(EDGE.name)
            operator = counting(SIZE_S, own_time=True, watermark_s=ALLOWED_S)
            job = await mesh.job("compare", EDGE.name, operator, after=after, trigger_s=trigger_s)
            access = mesh.state.site(EDGE.name)
            device = access.device
            broker = Broker(access.mqtt_host, access.mqtt_port, device.user, device.password)
            yield Counting(broker, job.output.topic, partial(_mesh_roots, home))


def _mesh_roots(home: Home) -> dict[int, str]:
    processes = lifecycle.processes(home)
    return {p.pid: p.name for p in processes if p.pid is not None and not _is_broker(p.name)}


def _is_broker(name: str) -> bool:
    return name == "hub" or name.endswith("-nats")


@asynccontextmanager
async def _other(other: Other, say: Say) -> AsyncIterator[Counting]:
    python = await _installed(other, say)
    async with plain_broker() as broker:
        log = ENVIRONMENTS / f"{other.name.lower()}.log"
        with log.open("wb") as file:
            process = await asyncio.create_subprocess_exec(
                str(python),
                str(HERE / "others" / other.program),
                stdin=asyncio.subprocess.PIPE,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        assert process.stdin is not None

        def check() -> None:
            if process.returncode is not None:
                raise EngineFailed(f"{other.name} ended with {process.returncode}: {_last_lines(log)}")

        try:
            process.stdin.write(json.dumps(_settings(broker)).encode() + b"\n")
            yield Counting(broker, RESULTS_TOPIC, lambda: {process.pid: other.name}, check)
        finally:
            await _end_tree(process)


def _settings(broker: Broker) -> dict[str, object]:
    windows = {"size_s": SIZE_S, "allowed_s": ALLOWED_S}
    return {**vars(broker), "events": reports.TOPIC, "results": RESULTS_TOPIC, **windows}


async def _installed(other: Other, say: Say) -> Path:
    """Return the Python of an engine's own environment, which is made at first use. Raises `EngineFailed`."""
    directory = ENVIRONMENTS / other.name.lower()
    complete = directory / COMPLETE
    wanted = "\n".join(other.requirements) + "\n"
    python = directory / "bin" / "python"
    if not complete.is_file() or complete.read_text(encoding="utf-8") != wanted:
        say(f"installing {', '.join(other.requirements)}")
        await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)
        log = ENVIRONMENTS / f"{other.name.lower()}-install.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        async with asyncio.timeout(INSTALL_S):
            await _command(log, sys.executable, "-m", "venv", str(directory))
            await _command(log, str(python), "-m", "pip", "install", "--quiet", *other.requirements)
        complete.write_text(wanted, encoding="utf-8")
    return python


async def _command(log: Path, *command: str) -> None:
    with log.open("wb") as file:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
        )
    try:
        if await process.wait():
            raise EngineFailed(f"{Path(command[0]).name} {command[2]}: {_last_lines(log)}")
    finally:
        await _end_tree(process)


async def _end_tree(process: asyncio.subprocess.Process) -> None:
    """Kill a process with all of its descendants, and reap it."""
    with contextlib.suppress(psutil.NoSuchProcess):
        root = psutil.Process(process.pid)
        every = [*root.children(recursive=True), root]
        for each in every:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
    async with asyncio.timeout(END_S):
        await process.wait()


def _last_lines(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines()]
    return " | ".join([line for line in lines if line][-LOG_LINES:])


COMPARED = (
    Compared("Towpath", partial(_towpath, 1.0), is_towpath=True),
    Compared("Towpath, trigger 0", partial(_towpath, 0.0), is_towpath=True),
    *(Compared(other.name, partial(_other, other)) for other in OTHERS),
)
