"""Strike a site's server under load, and compare what it acknowledged to a device with what it kept."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

from running.mesh import Mesh
from running.waiting import eventually
from towpath.contracts.data_plane import IN_STREAM
from towpath.contracts.site import Retention
from towpath.lab.workload.replay import Replay, ReplayReport
from towpath.mesh.site_broker import site_broker
from towpath.streams.pages import last_serial, page
from towpath.streams.streams import SiteStreams

LONGEST_WAIT_S = 0.3
"""Most seconds between an acknowledgement after a strike and the next strike."""

GIVE_UP_S = 120.0


@dataclass(frozen=True)
class Numbered:
    """An event of a device that numbers them."""

    payload: bytes
    at: float = 0.0


@dataclass(frozen=True)
class Kept:
    """The outcome of a load with strikes."""

    report: ReplayReport
    copies: Counter[int]
    """Number of an event → how often IN has it."""
    in_order: bool
    """The first copies came in the order of the device."""

    @property
    def lost(self) -> list[int]:
        """Return events that were acknowledged and are not kept."""
        return [number for number in range(self.report.acknowledged) if not self.copies[number]]

    @property
    def again(self) -> int:
        """Return copies beyond the first. The device sent them again."""
        return self.copies.total() - len(self.copies)


async def kept_through(
    mesh: Mesh, site: str, strike: Callable[[], Awaitable[None]], *, events: int, strikes: int, seed: int
) -> Kept:
    """Publish events with QoS 1 as fast as one device can, and strike meanwhile. Return what IN has then."""
    chance = random.Random(seed)
    async with mesh.agent(site) as agent:
        await SiteStreams(agent, site, Retention()).ensure_in()
    access = mesh.state.sites[site]
    newest = ReplayReport()

    def look(report: ReplayReport) -> None:
        nonlocal newest
        newest = report

    replay = Replay(
        site_broker(access, access.device),
        "site/numbered",
        f"numbered-{seed}",
        inflight=1_000,
        give_up_after_s=GIVE_UP_S,
    )
    running = asyncio.create_task(replay.run(_numbered(events), look))
    for _ in range(strikes):
        before = newest.acknowledged
        await eventually(lambda before=before: running.done() or newest.acknowledged > before)
        await asyncio.sleep(chance.uniform(0, LONGEST_WAIT_S))
        assert not running.done(), "all events were acknowledged before the last strike"
        await strike()
    return await _kept(mesh, site, await running)


def _numbered(events: int) -> Iterator[Numbered]:
    return (Numbered(str(number).encode()) for number in range(events))


async def _kept(mesh: Mesh, site: str, report: ReplayReport) -> Kept:
    numbers: list[int] = []
    async with mesh.agent(site) as agent:
        last, after = await last_serial(agent, site, IN_STREAM), 0
        while after < last and (messages := await page(agent, site, IN_STREAM, after + 1)):
            numbers += [int(message.body) for message in messages]
            after = messages[-1].serial
    return Kept(report, Counter(numbers), list(dict.fromkeys(numbers)) == sorted(set(numbers)))
