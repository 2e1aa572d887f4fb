"""Agents of many sites in one process, without servers and engines of their own.

python scale_agents.py HOME URLS PART PARTS   the agents of every PARTS-th pair of sites, until ended

URLS is a file: site → the server of `scale_far.py` at which its agent logs in. Each has the rights of its
site's agent, and answers as agents do. Both sites of a pair share a simulation of engines and streams, so
that jobs can move between them.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from collections.abc import Mapping
from pathlib import Path

from scale_far import pairs

sys.path.append(str(Path(__file__).parents[1]))

from running.coordinator import Agents
from towpath.bus import Bus
from towpath.contracts.message import ROOT
from towpath.contracts.metrics import Echo, ReadMetrics, SeriesList
from towpath.contracts.uplink import SetUplinks, UplinkReport
from towpath.mesh.home import Home
from towpath.mesh.link_probe import echo
from towpath.mesh.state import MeshState
from towpath.streams.gate import Gate

HEARTBEAT_S = 1.0
"""As real agents send them."""
AT_ONCE = 50
"""Connections that are made at a time."""


async def run(home: Path, urls: Mapping[str, str], part: int, parts: int) -> None:
    """Answer for the sites of this part until ended."""
    state = MeshState.load(Home(home))
    mine = pairs(state.sites)[part::parts]
    slots = asyncio.Semaphore(AT_ONCE)
    opened = await asyncio.gather(*(_open(state, urls, pair, slots) for pair in mine))
    print("ready", flush=True)
    await asyncio.gather(*(_beat(agents, place / len(opened)) for place, agents in enumerate(opened)))


async def _open(
    state: MeshState, urls: Mapping[str, str], pair: tuple[str, str], slots: asyncio.Semaphore
) -> Agents:
    async with slots:
        agents = Agents({site: await connect(state, urls[site], site) for site in pair})
    for site, bus in agents.buses.items():
        async with bus.one_subscription(f"{ROOT}.command.{site}.*"):
            await agents.serve(site)
            await bus.serve(Echo, echo, site=site)
            await bus.serve(ReadMetrics, _nothing_measured, site=site)
            await bus.serve(SetUplinks, _no_uplinks, site=site)
        await Gate(bus, site, _everyone).open()
    return agents


async def connect(state: MeshState, url: str, site: str) -> Bus:
    """Return a connection of the site's agent."""
    login = state.site(site).login("agent")
    return await Bus.connect(url, login.user, login.password, name=site)


async def _beat(agents: Agents, share: float) -> None:
    """Send heartbeats, a share of the interval later than others."""
    await asyncio.sleep(share * HEARTBEAT_S)
    await agents.beat(HEARTBEAT_S)


async def _nothing_measured(_: ReadMetrics) -> SeriesList:
    return SeriesList(series=[])


async def _no_uplinks(command: SetUplinks) -> UplinkReport:
    return UplinkReport(revision=command.revision, uplinks=[])


async def _everyone(reader: str, stream: str) -> bool:
    return True


if __name__ == "__main__":
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    logins = json.loads(Path(sys.argv[2]).read_text())
    asyncio.run(run(Path(sys.argv[1]), logins, int(sys.argv[3]), int(sys.argv[4])))
