"""One set of servers for all tests that neither kill nor change one of them."""

from __future__ import annotations

import pytest

from running.mesh import Mesh, own_servers, servers

__all__ = ["own_servers", "servers"]


@pytest.fixture
def mesh(servers: Mesh) -> Mesh:
    """The servers that tests of this folder share, unless their module has others."""
    return servers
