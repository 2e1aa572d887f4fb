"""The mesh that an experiment of Chaos Toolkit is about: the one under `TOWPATH_HOME`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from towpath.bus import Bus
from towpath.mesh.home import Home
from towpath.mesh.state import MeshState

CONNECT_S = 10.0


@dataclass(frozen=True)
class Connected:
    """A mesh, and a connection to its hub as the operator."""

    state: MeshState
    bus: Bus


@asynccontextmanager
async def connected() -> AsyncIterator[Connected]:
    """Connect to the mesh. Raises `TowpathError` when there is none, or it does not run."""
    state = MeshState.load(Home.default())
    user = state.operator
    bus = await Bus.connect(state.hub_url, user.user, user.password, name="chaos toolkit", within_s=CONNECT_S)
    async with bus:
        yield Connected(state, bus)
