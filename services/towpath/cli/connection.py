"""Connect to the mesh as the operator, at the hub. A command that changes something is a trace."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import TypeVar

from towpath.bus import Bus
from towpath.cli.command_spans import command_span, person
from towpath.cli.container_meshes import check_processes, nothing_runs
from towpath.cli.output import say
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import HUB_SCOPE, Command, Model
from towpath.mesh.home import Home
from towpath.mesh.names import SUPERVISOR
from towpath.mesh.state import MeshState
from towpath.processes import find
from towpath.telemetry.tracing import start_tracing

AnswerT = TypeVar("AnswerT", bound=Model)

CONNECT_WITHIN_S = 3.0
"""Time to connect where no supervisor runs the mesh: the hub is there at once, or it is not running."""

HUB_WITHIN_S = 30.0
"""The same where one does: the hub restarts, or is busy."""

LOOK_DEADLINE_S = 60.0
"""Time for questions. They are answered at once, unless the coordinator is restarting."""

LOOK_ATTEMPT_S = 5.0
"""Time after which a question is asked again: its receiver may have died."""

CHANGE_ATTEMPT_S = 30.0
"""The same for commands that change something. The coordinator recognises a repetition by its id."""


async def load_mesh(home: Home) -> MeshState:
    """Return ports and credentials of the mesh. Raises `TowpathError` (unreachable) if it never started."""
    if not await asyncio.to_thread(home.state.exists):
        raise await asyncio.to_thread(nothing_runs, home)
    return await asyncio.to_thread(MeshState.load, home)


async def mesh_of_processes(home: Home) -> MeshState:
    """Return the mesh of a home. Raises `TowpathError` if there is none, or it runs as containers."""
    mesh = await load_mesh(home)
    await asyncio.to_thread(check_processes, home)
    return mesh


def check_services_here(home: Home, mesh: MeshState) -> None:
    """Raise `TowpathError` on a machine that runs a site, or a spare coordinator, alone."""
    if not mesh.has_services:
        alone = f"the site {mesh.joined}" if mesh.joined else "a spare coordinator"
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            f"this machine runs {alone} alone: use this command on the machine of the hub",
            field="home",
            value=str(home.root),
        )


def another_mesh(home: Home) -> TowpathError:
    """Return the error of a machine that joins with a home in which there is something else."""
    return TowpathError(
        ErrorCode.NOT_ALLOWED,
        "another mesh is in this directory",
        field="home",
        value=str(home.root),
        allowed="an empty one: set TOWPATH_HOME",
    )


@asynccontextmanager
async def open_bus(home: Home, *, traced: bool = True, within_s: float = HUB_WITHIN_S) -> AsyncIterator[Bus]:
    """Connect to the hub as operator. Mere questions need not be `traced`.

    A hub that is starting, or busy, has `within_s` seconds. Raises `TowpathError` (unreachable) when it does
    not answer, and soon when no mesh runs.
    """
    mesh = await load_mesh(home)
    if mesh.spare is None:
        check_services_here(home, mesh)
    user = mesh.operator
    is_run = await asyncio.to_thread(find, home.run, SUPERVISOR) is not None
    waits_s = within_s if is_run else min(within_s, CONNECT_WITHIN_S)
    telling = _telling_of_a_wait(waits_s) if is_run else nullcontext()
    try:
        # A client that reconnects without end also tries its first connection without end.
        async with asyncio.timeout(waits_s), telling:
            bus = await Bus.connect(
                mesh.hub_url, user.user, user.password, name="towpath cli", tls=mesh.hub_tls()
            )
    except (TowpathError, TimeoutError) as error:
        if is_run:
            raise TowpathError(
                ErrorCode.UNREACHABLE, f"the hub does not answer: {error or 'no connection in time'}"
            ) from error
        raise await asyncio.to_thread(nothing_runs, home) from error
    bus.asks_as = person()
    async with bus:
        if traced:
            bus.ship(start_tracing("cli", HUB_SCOPE))
        with command_span():
            yield bus


@asynccontextmanager
async def _telling_of_a_wait(longest_s: float) -> AsyncIterator[None]:
    """Say what is awaited, if the block takes longer than where the hub is there at once."""
    text = f"the hub does not answer yet; it has {longest_s:g} s"
    telling = asyncio.get_running_loop().call_later(CONNECT_WITHIN_S, say, text)
    try:
        yield
    finally:
        telling.cancel()


async def ask(
    home: Home,
    command: Command[AnswerT],
    *,
    deadline_s: float = LOOK_DEADLINE_S,
    attempt_s: float = LOOK_ATTEMPT_S,
    traced: bool = False,
) -> AnswerT:
    """Return the answer to one command. One that changes something must be `traced`."""
    async with open_bus(home, traced=traced, within_s=min(deadline_s, HUB_WITHIN_S)) as bus:
        return await bus.request(command, deadline_s=deadline_s, attempt_s=attempt_s)
