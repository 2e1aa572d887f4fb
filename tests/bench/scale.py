"""`make bench-scale`: how many sites one mesh on one machine holds, and what each further one costs.

    python tests/bench/scale.py                                    sites 10 to 100, 100 to 1,000 agents
    python tests/bench/scale.py --sites 3,6 --agents 20,40         a quick look

Real sites have a server and an agent each, and no job, so no engine. Scripted agents log in at the hub with
their site's rights, and answer what a migration asks; jobs move among them. `tests/bench/README.md` says what
each figure means.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import run
from benchmark import Benchmark, Say, Scale
from figures import Case, Measured, rounded
from measured_mesh import MeasuredMesh, temporary_home
from scale_agents import connect
from scale_far import Far, far_sites, pairs
from scale_growth import growth_lines, holds, per_site
from scale_moves import Moves, deploy, move
from scale_usage import Used, commands, events, measuring, timed, used

from towpath.bus import Bus
from towpath.cli.connection import open_bus
from towpath.cli.starting import wait_until_up
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import HUB_SCOPE
from towpath.contracts.site import MeshSpec, SiteSpec
from towpath.mesh import lifecycle
from towpath.mesh.home import Home
from towpath.mesh.state import MeshState
from towpath.processes import listed
from towpath.tasks import end

SITES, AGENTS = (10, 25, 50, 100), (100, 300, 1000)
UP_S = 300.0
SETTLED_S = 10.0
"""After the start, so that caches and first questions do not count as rest."""
EVENT_SITES = 10
"""Events come from so many sites in turn."""
FIRST_SITE_MB, FIRST_AGENT_MB = 150.0, 2.0
"""Memory of one, before any is measured."""
FALLEN_S = 1.0
"""After a server died, until the other side has noticed that of all its links."""
UP, MEMORY = "up, s", "all processes PSS, MB"
LINKED_AGAIN = "all linked again after the hub died, s"
INTERESTS = "subscriptions told to each site"
WHILE_MOVING = "moving: "

SPARED = 0.15
"""Share of the memory that is left to others."""
LOOK_S = 0.5

Figures = dict[str, float | None]


class MemoryLow(RuntimeError):
    """Memory does not hold a size."""


@dataclass(frozen=True)
class Settings:
    """Settings of a run."""

    rest_s: float
    times: int
    """Commands of each kind, and events, that are measured."""
    moves_per_minute: float
    moves_s: float


async def measure_sites(
    sizes: list[int], settings: Settings, _: MeasuredMesh | None, scale: Scale, say: Say, measured: Measured
) -> None:
    """Measure meshes of real sites."""
    await _sizes(measured, sizes, FIRST_SITE_MB, say, partial(_real, settings, say))


async def measure_agents(
    sizes: list[int], settings: Settings, _: MeasuredMesh | None, scale: Scale, say: Say, measured: Measured
) -> None:
    """Measure meshes of scripted agents, and moves among them."""
    measured.notes.append(
        "scripted agents: each a leaf of the hub with its site's login, behind few servers (`far server`); "
        "they send heartbeats every second and answer with simulated engines and no measurements; the hub "
        "compresses no link; `up` is mostly the time to connect them"
    )
    await _sizes(measured, sizes, FIRST_AGENT_MB, say, partial(_scripted, settings, say, measured))


async def _sizes(
    measured: Measured,
    sizes: list[int],
    first_mb: float,
    say: Say,
    measure: Callable[[int, Figures], Coroutine[Any, Any, None]],
) -> None:
    """Measure size by size, until memory does not hold the next. Then tell how figures grow."""
    measured.upright = True
    measured.notes.append("PSS: pages that processes share count once; figures of a site are means of all")
    found: dict[int, Figures] = {}
    for size in sorted(sizes):
        available = psutil.virtual_memory().available / 1e6
        if not holds(size, {n: f[MEMORY] or 0.0 for n, f in found.items()}, available, first_mb):
            measured.notes.append(
                f"stopped before {size} sites: {available:,.0f} MB of memory do not hold them"
            )
            break
        say(f"{size} sites")
        found[size] = {}
        try:
            await _while_memory_holds(measure(size, found[size]))
        except MemoryLow as low:
            measured.notes.append(f"stopped within {size} sites: {low}")
            break
        except TowpathError as error:
            if UP in found[size] or error.detail.code is not ErrorCode.DEADLINE:
                raise
            measured.notes.append(f"stopped: {size} sites were not all up in {UP_S:.0f} s")
            break
        shown = {title: rounded(value) for title, value in found[size].items()}
        measured.cases.append(Case(f"{size} sites", shown))
    _tell_growth(measured, {size: figures for size, figures in found.items() if MEMORY in figures})


async def _while_memory_holds(work: Coroutine[Any, Any, None]) -> None:
    """Do work. Cancel it, and raise `MemoryLow`, before others have no memory left."""
    working = asyncio.create_task(work)
    try:
        while not working.done():
            await asyncio.wait([working], timeout=LOOK_S)
            memory = psutil.virtual_memory()
            if memory.available < SPARED * memory.total and not working.done():
                raise MemoryLow(f"{memory.available / 1e6:,.0f} MB of memory were left")
        await working
    finally:
        await end([working])


def _tell_growth(measured: Measured, found: Mapping[int, Figures]) -> None:
    if len(found) < 2:
        return
    titles = found[min(found)]
    each = {
        title: rounded(
            per_site([(n, value) for n, f in found.items() if (value := f.get(title)) is not None])
        )
        for title in titles
    }
    measured.cases.append(Case("each further site adds", each))
    measured.notes += growth_lines(found)


async def _real(settings: Settings, say: Say, size: int, figures: Figures) -> None:
    spec = MeshSpec(sites=[SiteSpec(name=f"s{number:03}") for number in range(size)])
    with temporary_home() as home:
        begun = time.monotonic()
        state = await asyncio.to_thread(lifecycle.up, home, spec)
        names = sorted(state.sites)
        await wait_until_up(home, names, UP_S, lambda text: None)
        figures[UP] = time.monotonic() - begun
        chosen = {site: state.site(site).nats_url for site in names[:EVENT_SITES]}
        async with open_bus(home) as client, _agents(state, chosen) as agents:
            await _at_rest(settings, partial(used, home, names, {}), size, figures, say)
            await _latencies(client, agents, settings, figures, say)


async def _scripted(settings: Settings, say: Say, measured: Measured, size: int, figures: Figures) -> None:
    with temporary_home() as home:
        begun = time.monotonic()
        async with far_sites(home, size) as far:
            names = sorted(far.state.sites)
            await wait_until_up(home, names, UP_S, lambda text: None)
            figures[UP] = time.monotonic() - begun
            look = partial(used, home, names, far.processes)
            chosen = {site: far.urls[site] for site in names[:EVENT_SITES]}
            async with open_bus(home) as client:
                async with _agents(far.state, chosen) as agents:
                    await _at_rest(settings, look, size, figures, say)
                    await _latencies(client, agents, settings, figures, say)
                figures[INTERESTS] = await asyncio.to_thread(far.interests)
                say("moves")
                moves = await _moving(client, far, settings, look, figures)
                _tell_failures(measured, size, moves)
            say("the hub's server dies")
            figures[LINKED_AGAIN] = await _linked_again(home, far, size)
            if figures[LINKED_AGAIN] is None:
                measured.notes.append(f"{size} sites: not all linked again {UP_S:.0f} s after the hub died")


async def _linked_again(home: Home, far: Far, size: int) -> float | None:
    """Kill the hub's server, which is started again, and to which all sites link at once. Return the seconds
    that takes; None if it is too long."""
    [server] = [record.pid for record in listed(home.run) if record.name == HUB_SCOPE and record.process]
    begun = time.monotonic()
    os.kill(server, signal.SIGKILL)
    while time.monotonic() - begun < FALLEN_S or await asyncio.to_thread(far.linked) < size:
        if time.monotonic() - begun > UP_S:
            return None
        await asyncio.sleep(LOOK_S)
    return time.monotonic() - begun


@asynccontextmanager
async def _agents(state: MeshState, urls: Mapping[str, str]) -> AsyncIterator[dict[str, Bus]]:
    """Log in as the agents of these sites, beside them."""
    async with AsyncExitStack() as stack:
        yield {
            site: await stack.enter_async_context(await connect(state, url, site))
            for site, url in urls.items()
        }


async def _at_rest(
    settings: Settings, look: Callable[[], dict[str, Used]], size: int, figures: Figures, say: Say
) -> None:
    say(f"{settings.rest_s:.0f} s at rest")
    await asyncio.sleep(SETTLED_S)
    async with measuring(look, figures, size):
        await asyncio.sleep(settings.rest_s)
    figures[MEMORY] = sum(use.proportional_mb for use in (await asyncio.to_thread(look)).values())


async def _latencies(
    client: Bus, agents: Mapping[str, Bus], settings: Settings, figures: Figures, say: Say
) -> None:
    say("commands and events")
    figures |= await commands(client, settings.times)
    figures |= await events(client, agents, settings.times)


async def _moving(
    client: Bus, far: Far, settings: Settings, look: Callable[[], dict[str, Used]], figures: Figures
) -> Moves:
    """Move jobs, and measure commands meanwhile."""
    jobs = await deploy(client, pairs(far.state.sites))
    async with measuring(look, figures, len(far.state.sites), WHILE_MOVING):
        moving = asyncio.create_task(move(client, jobs, settings.moves_per_minute, settings.moves_s))
        asked = await commands(client, settings.times)
        moves = await moving
    figures |= {f"{WHILE_MOVING}{title}": value for title, value in asked.items()}
    figures |= {"moves asked": float(moves.asked), "moves ended": float(len(moves.taken_s))}
    figures |= timed("move", moves.taken_s)
    return moves


def _tell_failures(measured: Measured, size: int, moves: Moves) -> None:
    if moves.failures:
        measured.notes.append(f"{size} sites: {len(moves.failures)} moves failed, first {moves.failures[0]}")


def _numbers(text: str) -> list[int]:
    return [int(each) for each in text.split(",") if each]


def main() -> int:
    """Run the benchmark by the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sites", type=_numbers, default=list(SITES), help="sizes of meshes of real sites")
    parser.add_argument("--agents", type=_numbers, default=list(AGENTS), help="sizes with scripted agents")
    parser.add_argument("--rest", type=float, default=60.0, help="seconds at rest")
    parser.add_argument("--times", type=int, default=200, help="commands of each kind that are measured")
    parser.add_argument("--moves", type=float, default=200.0, help="moves a minute")
    parser.add_argument("--moves-for", type=float, default=60.0, help="seconds")
    parser.add_argument("--output", type=Path, default=run.RESULTS, metavar="DIR", help="where JSON goes")
    chosen = parser.parse_args()
    settings = Settings(chosen.rest, chosen.times, chosen.moves, chosen.moves_for)
    parts = {
        "sites": ("real sites without engines", chosen.sites, measure_sites),
        "agents": ("scripted agents over the real hub, and moves among them", chosen.agents, measure_agents),
    }
    every = {
        name: Benchmark(name, title, (), partial(measure, sizes, settings))
        for name, (title, sizes, measure) in parts.items()
        if sizes
    }
    return run.main(["--output", str(chosen.output)], every=every, program="scale.py", prefix="scale-")


if __name__ == "__main__":
    sys.exit(main())
