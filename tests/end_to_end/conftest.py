"""Real servers for tests: each on a free port, with a directory of its own."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from running_engine import SETTINGS, Site, site_of

from towpath.engine.session import start_session
from towpath.mesh.binaries import nats_server_binary, redis_server_binary

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts what runs in the background so. Commands that tests start would be deaf to Ctrl-C, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)


LONGEST = (
    "test_demo_fog",
    "test_cli_mesh",
    "test_api_fuzz",
    "test_tracing",
    "test_pipelines",
    "test_page",
    "test_main_job",
    "test_scenarios",
    "test_demo_faults",
    "test_faults_in_jobs",
    "test_engine_cluster",
    "test_speck_listings",
)
"""Files that take minutes. They run first: one that came last would keep one worker busy alone. Those that
start four engines at once stand apart: they would be in each other's way."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Longest files first, the others in their order."""
    ranks = {name: rank for rank, name in enumerate(LONGEST)}
    items.sort(key=lambda item: ranks.get(item.path.stem, len(LONGEST)))


def free_port() -> int:
    """A port nobody listens on at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@dataclass
class Server:
    """A server process that can be killed and started again on the same data."""

    command: list[str]
    port: int
    process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        """Where NATS clients reach it."""
        return f"nats://127.0.0.1:{self.port}"

    async def start(self) -> None:
        self.process = await asyncio.create_subprocess_exec(
            *self.command, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
        )
        async with asyncio.timeout(20):
            while not await self._listens():
                await asyncio.sleep(0.02)

    async def kill(self) -> None:
        assert self.process is not None
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()

    async def _listens(self) -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return False
        writer.close()
        return True


@pytest.fixture
async def nats_server(tmp_path: Path) -> AsyncIterator[Server]:
    """A nats-server with JetStream in the domain `jfk`, without authentication."""
    port = free_port()
    configuration = tmp_path / "nats.conf"
    configuration.write_text(
        f'server_name: jfk\nlisten: "127.0.0.1:{port}"\n'
        f'jetstream {{ store_dir: "{tmp_path / "streams"}", domain: jfk }}\n'
    )
    server = Server([nats_server_binary(), "-c", str(configuration)], port)
    await server.start()
    yield server
    await server.kill()


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """An engine's Spark session, for all tests of a file: it takes seconds to start."""
    session = start_session(replace(SETTINGS, directory=tmp_path_factory.mktemp("engine")))
    yield session
    session.stop()


@pytest.fixture
async def site(session: SparkSession, nats_server: Server, tmp_path: Path) -> AsyncIterator[Site]:
    """A site with that session and the streams of `nats_server`."""
    async with site_of(session, nats_server.url, tmp_path) as site:
        yield site


@pytest.fixture
async def redis_server(tmp_path: Path) -> AsyncIterator[Server]:
    """A Redis that writes every command to disk before it answers."""
    port = free_port()
    directory = tmp_path / "redis"
    directory.mkdir()
    options = f"--port {port} --bind 127.0.0.1 --appendonly yes --appendfsync always --save ''"
    server = Server([redis_server_binary(), *options.split(), "--dir", str(directory)], port)
    await server.start()
    yield server
    await server.kill()
