"""One set of servers for all tests that neither kill nor change one of them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import nats
import pytest
from nats.aio.client import Client

from running.mesh import Mesh, own_servers, servers
from running.servers import Server

__all__ = ["own_servers", "servers"]


@pytest.fixture
def mesh(servers: Mesh) -> Mesh:
    """The servers that tests of this folder share, unless their module has others."""
    return servers


@pytest.fixture
async def connection(nats_server: Server) -> AsyncIterator[Client]:
    """A connection to a server of the test's own."""
    client = await nats.connect(nats_server.url)
    yield client
    await client.close()
