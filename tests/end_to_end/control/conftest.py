"""One set of servers, one coordinator and one REST service for all tests that bring none of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from running.api import Api, running_api
from running.coordinator import Trial, running_coordinator
from running.mesh import Mesh, own_servers, servers

__all__ = ["own_servers", "servers"]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def coordinating(servers: Mesh) -> AsyncIterator[Trial]:
    """Run a coordinator, and agents whose heartbeats come as long as the session's loop runs."""
    async with running_coordinator(servers) as trial:
        yield trial


@pytest_asyncio.fixture(loop_scope="session")
async def trial(coordinating: Trial) -> Trial:
    """A coordinator that knows of no job. Tests may kill it."""
    await coordinating.clear()
    return coordinating


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def serving(coordinating: Trial) -> AsyncIterator[Api]:
    """Run a REST service in front of the coordinator, and the other services that it asks."""
    async with running_api(coordinating) as api:
        yield api


@pytest_asyncio.fixture(loop_scope="session")
async def api(trial: Trial, serving: Api) -> Api:
    """A REST service that knows of no job. Tests may kill it."""
    await serving.start()
    return serving
