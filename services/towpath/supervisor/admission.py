"""Let machines join: take their keys over, and have the servers beside the hub know them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from towpath.bus import Bus
from towpath.bus.authenticity import Refusals
from towpath.contracts.errors import TowpathError
from towpath.contracts.joining import JoinSite, SiteJoined
from towpath.contracts.message import now
from towpath.mesh.home import Home
from towpath.mesh.joining import admitted
from towpath.mesh.provisioning import exclusively
from towpath.mesh.state import MeshState

log = logging.getLogger(__name__)

ANSWER_S = 0.5
"""Time for an answer to leave before the hub's server restarts with the new keys."""


async def admit(state: MeshState, home: Home, reload: Callable[[], None]) -> None:
    """Answer machines that join, until cancelled. `reload` has the servers read the saved mesh again."""
    login = state.supervisor
    if login is None:
        log.warning("no machine can join before the next `towpath up`")
        return

    async def join(command: JoinSite) -> SiteJoined:
        # SIGKILL behind this line: the site is known, and the next supervisor writes the configurations.
        try:
            changed, certificate = await asyncio.to_thread(_saved, home, command)
        except TowpathError as error:
            why = f"as {command.site}: {error.detail.message}"
            await refusals.tell("JoinSite", command.to_subject(), why=why)
            raise
        if changed:
            log.info("site %s has joined", command.site)
            asyncio.get_running_loop().call_later(ANSWER_S, reload)
        return SiteJoined(site=command.site, at=now(), certificate=certificate)

    tls = state.hub_tls()
    async with await Bus.connect(state.hub_url, login.user, login.password, name="admission", tls=tls) as bus:
        refusals = Refusals("admission", bus.publish)
        await bus.serve(JoinSite, join)
        await asyncio.Event().wait()


def _saved(home: Home, command: JoinSite) -> tuple[bool, str | None]:
    """Save the mesh with a site that joins. Return False if it had joined, and its certificate in a mesh that
    encrypts. Raises `TowpathError`."""
    with exclusively(home):
        before = MeshState.load(home)
        after = admitted(before, command, now())
        certificate = _certificate(home, command) if before.tls else None
        if after is not before:
            after.save(home)
        return after is not before, certificate


def _certificate(home: Home, command: JoinSite) -> str:
    # Here: the library takes memory, and most meshes need none.
    from towpath.mesh.certificates import signed

    return signed(home, command.site, command.certificate_request)
