"""Stages whose sites are the nodes of an emulated topology."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.lab.emulation.bringing_up import (
    DEFAULT_TAG,
    Plan,
    bring_up,
    check_free,
    emulation,
    nothing_up,
    take_down,
)
from towpath.lab.emulation.project import Project
from towpath.lab.harness.stage import Stage, connected_stage
from towpath.lab.topology.reading import read
from towpath.mesh.home import Home
from towpath.tasks import to_the_end


@asynccontextmanager
async def standing_emulation(home: Home, topology: str) -> AsyncIterator[Stage]:
    """The topology that is up under `home`; it stays. Raises `TowpathError` when it is another one."""
    wanted, there = read(topology), await asyncio.to_thread(Project(home).standing)
    if there is None:
        raise nothing_up(home)
    if there.name != wanted.name:
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            "another topology is up here",
            field="mesh.topology",
            value=wanted.name,
            allowed=there.name,
        )
    async with emulation(home) as running, connected_stage(home, running) as up:
        yield up


@asynccontextmanager
async def own_emulation(
    home: Home,
    topology: str,
    tell: Callable[[str], None] = lambda text: None,
    tag: str = DEFAULT_TAG,
    artefact_root: str | None = None,
) -> AsyncIterator[Stage]:
    """A topology brought up under `home`, with user code from `artefact_root`; it is taken down in the end.

    Raises `TowpathError`.
    """
    plan = Plan.of(read(topology))
    # Before anything of it would be taken down: it may be somebody else's.
    await asyncio.to_thread(check_free, Project(home), plan.topology)
    try:
        await bring_up(home, plan, tell, tag, artefact_root)
        async with standing_emulation(home, topology) as up:
            yield up
    finally:
        # Also when this task was cancelled: what was started ends.
        await to_the_end(take_down(home))
