"""Real servers for tests, started as seldom as possible.

A worker has one engine session and one mesh for all of its tests; jobs on that mesh have names of their own.
Tests that share one of them run in one worker, those of a file in one worker, too.
"""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from running.engine import SETTINGS, Site, site_of
from running.rules import Rules
from running.servers import Server, free_port
from running.whole_mesh import WholeMesh, whole_mesh
from towpath.engine.session import start_session
from towpath.hooks.extension import HOOKS
from towpath.lab import extension
from towpath.lab.faults.board import FAULTS, PROCESS
from towpath.mesh import ports
from towpath.mesh.binaries import nats_server_binary, redis_server_binary

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts background jobs with SIGINT ignored. Commands that tests start would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)

if worker := os.environ.get("PYTEST_XDIST_WORKER"):
    # Between the choice of a port and its use, a mesh of another worker could get the same one.
    count = int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    ports.PORTS = ports.PORTS[int(worker.removeprefix("gw")) % count :: count]

SHARED = ("shared_mesh", "power_safe", "session", "servers")
"""Fixtures that take long to start. Their tests run first: at the end, one worker would run them alone."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep tests together that share a fixture or a file, and begin with those that take longest."""
    for item in items:
        item.add_marker(pytest.mark.xdist_group(shared_by(item) or item.path.stem))
    items.sort(key=rank)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Refuse options of pytest that switch groups off: each worker would start every shared fixture."""
    ungrouped = [item.nodeid for item in session.items if "@" not in item.nodeid]
    if getattr(session.config.option, "loadgroup", False) and ungrouped:
        raise pytest.UsageError(f"pytest-xdist does not group tests, such as {ungrouped[0]}")


def shared_by(item: pytest.Item) -> str | None:
    """Return the costly fixture that a test shares with others."""
    return next((name for name in SHARED if name in getattr(item, "fixturenames", ())), None)


def rank(item: pytest.Item) -> tuple[int, bool]:
    """Rank the shared mesh first, then the shared engine; among their tests, those that kill come last."""
    shared = shared_by(item)
    return (SHARED.index(shared) if shared else len(SHARED), item.get_closest_marker("kills") is not None)


@pytest.fixture(scope="session")
def shared_mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WholeMesh]:
    """The worker's mesh of the sites jfk and cloud. Jobs on it have names of their own."""
    with whole_mesh(tmp_path_factory.mktemp("mesh")) as mesh:
        yield mesh


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


@pytest.fixture(scope="session")
def rules(tmp_path_factory: pytest.TempPathFactory) -> Rules:
    """The rules that the workers of `session` look at; none are loaded."""
    return Rules(tmp_path_factory.mktemp("rules") / "faults" / "jfk.json")


@pytest.fixture(scope="session")
def session(tmp_path_factory: pytest.TempPathFactory, rules: Rules) -> Iterator[SparkSession]:
    """The worker's engine session: it takes seconds to start."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv(HOOKS, extension.__name__)
        environment.setenv(FAULTS, str(rules.file))
        environment.setenv(PROCESS, "jfk-engine")
        session = start_session(replace(SETTINGS, directory=tmp_path_factory.mktemp("engine")))
    yield session
    gateway = session.sparkContext._gateway
    session.stop()
    # The JVM ends when its standard input closes, at the latest with this process.
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


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
