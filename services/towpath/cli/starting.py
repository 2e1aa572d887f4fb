"""Wait until every site of a mesh is up. If one does not come, say why."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from towpath.cli.connection import open_bus
from towpath.contracts.commands import ListSites
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.site import SiteState, SiteStatus
from towpath.mesh import lifecycle
from towpath.mesh.home import Home
from towpath.mesh.names import SUPERVISOR
from towpath.tasks import check_cancelled

START_DEADLINE_S = 240.0
"""Time for all sites. One engine needs 5 s; several at once on a small machine share its cores."""

ASK_DEADLINE_S = 3.0
LOOK_EVERY_S = 0.5

TAIL_LINES = 3
"""Lines from the log of a process that did not start: the error and the lines before it."""


async def wait_until_up(
    home: Home, sites: Sequence[str], within_s: float, show: Callable[[str], None]
) -> list[SiteStatus]:
    """Return the sites once the coordinator lists all of `sites` as up. `show` gets each new state.

    Raises `TowpathError` (deadline) with each process that is not up and the end of its log, or (failed) as
    soon as the supervisor ends.
    """
    found: list[SiteStatus] = []
    try:
        async with asyncio.timeout(within_s):
            while True:
                found = await _ask(home) or found
                states = {site.site: site.state for site in found}
                if all(states.get(name) is SiteState.UP for name in sites):
                    return found
                check_cancelled()
                show("starting: " + ", ".join(f"{name} {states.get(name, 'not yet')}" for name in sites))
                await asyncio.to_thread(_check_supervisor, home)
                await asyncio.sleep(LOOK_EVERY_S)
    except TimeoutError:
        raise await asyncio.to_thread(_not_up, home, sites, found, within_s) from None


async def _ask(home: Home) -> list[SiteStatus] | None:
    """Return the sites as the coordinator lists them; None while it does not answer."""
    try:
        async with open_bus(home, within_s=ASK_DEADLINE_S) as bus:
            return (await bus.request(ListSites(), deadline_s=ASK_DEADLINE_S)).sites
    except TowpathError:
        return None


def _check_supervisor(home: Home) -> None:
    running = {process.name for process in lifecycle.processes(home) if process.running}
    if SUPERVISOR not in running:
        raise TowpathError(
            ErrorCode.FAILED, f"the mesh ended while it was starting; {_end_of(home, SUPERVISOR)}"
        )


def _not_up(home: Home, sites: Sequence[str], found: list[SiteStatus], within_s: float) -> TowpathError:
    """Return the missing parts and the reasons, as far as logs tell."""
    states = {site.site: site for site in found}
    missing = [name for name in sites if name not in states or states[name].state is not SiteState.UP]
    if not found:
        return _late("the coordinator does not answer", within_s, _end_of(home, "coordinator"))
    reasons = (f"{name}: {_reason(home, name, states.get(name))}" for name in missing)
    return _late(f"not up: {', '.join(missing)}", within_s, "; ".join(reasons))


def _late(what: str, within_s: float, why: str) -> TowpathError:
    return TowpathError(ErrorCode.DEADLINE, f"after {within_s:.0f} s {what}; {why}")


def _reason(home: Home, site: str, status: SiteStatus | None) -> str:
    if status is None:
        return _end_of(home, f"{site}-agent")
    said = f"{status.error}; " if status.error else ""
    return said + _end_of(home, f"{site}-engine")


def _end_of(home: Home, name: str) -> str:
    """Return the last lines of a process's log, or of the run before if the present log is empty."""
    log = home.log(name)
    for path in (log, log.with_name(f"{log.name}.1")):
        if lines := _tail(path):
            return f"{path} ends with: {' | '.join(lines)}"
    return f"{log} says nothing"


def _tail(path: Path) -> list[str]:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return [line.strip() for line in deque(file, maxlen=TAIL_LINES)]
    except FileNotFoundError:
        return []
