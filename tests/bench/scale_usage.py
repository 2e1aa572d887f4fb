"""Memory, CPU time and latencies of a mesh of many sites."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import numpy as np
from compositions_usage import usage

from towpath.bus import Bus
from towpath.contracts.commands import ListJobs, ListSites, MigrateJob
from towpath.contracts.errors import TowpathError
from towpath.contracts.events import EventsNotKept
from towpath.contracts.message import Command
from towpath.mesh.home import Home
from towpath.mesh.names import SUPERVISOR
from towpath.processes import listed

SITE = "site "
"""Beginning of the names of what each site has: `site server`, `site agent`."""
SERVER = "nats"
ASK_S = 30.0
ARRIVE_S = 10.0
PAUSE_S = 0.05
"""Between two questions, so that they do not queue."""
NO_JOB = "no-such-job"


class Used(NamedTuple):
    """Usage of all processes of one kind."""

    proportional_mb: float
    """Pages that processes share count once in total (PSS)."""
    cpu_s: float
    """So far, ended children included."""


def used(home: Home, sites: Sequence[str], others: Mapping[int, str]) -> dict[str, Used]:
    """Return what each kind of process uses. `others`: process id → its kind. Blocks for some 100 ms."""
    roots = {record.pid: _kind(record.name, sites) for record in listed(home.run) if record.process}
    found = usage({**roots, **others})
    return {kind: Used(use.proportional_mb, use.cpu_s) for kind, use in found.items()}


def _kind(process: str, sites: Sequence[str]) -> str:
    if process == SUPERVISOR:
        return "supervisor"
    site, _, part = process.partition("-")
    return f"{SITE}{'server' if part == SERVER else part}" if site in sites else process


def added(
    before: Mapping[str, Used], after: Mapping[str, Used], seconds: float, sites: int
) -> dict[str, float]:
    """Return memory and CPU seconds a minute of each kind: for a site, the mean."""
    figures: dict[str, float] = {}
    for kind, use in sorted(after.items()):
        share = sites if kind.startswith(SITE) else 1
        spent_s = use.cpu_s - before.get(kind, Used(0.0, 0.0)).cpu_s
        figures[f"{kind} PSS, MB"] = use.proportional_mb / share
        figures[f"{kind} CPU s/min"] = 60 * spent_s / seconds / share
    return figures


def of_times(times_s: Sequence[float]) -> tuple[float | None, float | None]:
    """Return median and 99th percentile in ms; none without any."""
    if not times_s:
        return None, None
    median, late = np.percentile(times_s, [50, 99])
    return 1000 * float(median), 1000 * float(late)


def timed(title: str, times_s: Sequence[float]) -> dict[str, float | None]:
    """Return median and 99th percentile as figures."""
    median, late = of_times(times_s)
    return {f"{title}, ms": median, f"{title} p99, ms": late}


async def commands(client: Bus, times: int) -> dict[str, float | None]:
    """Measure commands to the coordinator: two lists, and one that is refused."""
    questions: dict[str, Callable[[], Command[Any]]] = {
        "ListSites": ListSites,
        "ListJobs": ListJobs,
        "refused": lambda: MigrateJob(job=NO_JOB, to=NO_JOB),
    }
    taken: dict[str, list[float]] = {title: [] for title in questions}
    for _ in range(times):
        for title, make in questions.items():
            taken[title].append(await _asked(client, make()))
            await asyncio.sleep(PAUSE_S)
    return {name: figure for title in questions for name, figure in timed(title, taken[title]).items()}


async def _asked(client: Bus, command: Command[Any]) -> float:
    begun = time.perf_counter()
    try:
        await client.request(command, deadline_s=ASK_S)
    except TowpathError:
        if not isinstance(command, MigrateJob):
            raise
    return time.perf_counter() - begun


async def events(client: Bus, agents: Mapping[str, Bus], times: int) -> dict[str, float | None]:
    """Measure events from sites, in turn, until a client of the hub has them."""
    arrived: asyncio.Queue[tuple[str, float]] = asyncio.Queue()

    async def hear(event: EventsNotKept) -> None:
        arrived.put_nowait((event.site, time.perf_counter()))

    await client.subscribe(EventsNotKept, hear)
    await client.connection.flush()
    await _until_heard(agents, arrived)
    taken: list[float] = []
    for number in range(times):
        site = list(agents)[number % len(agents)]
        begun = time.perf_counter()
        await agents[site].publish(EventsNotKept(site=site, events=1))
        async with asyncio.timeout(ARRIVE_S):
            _, at = await arrived.get()
        taken.append(at - begun)
        await asyncio.sleep(PAUSE_S)
    return timed("event", taken)


async def _until_heard(agents: Mapping[str, Bus], arrived: asyncio.Queue[tuple[str, float]]) -> None:
    """Send events until one of each site has come: the interest in them must reach each site's server."""
    heard: set[str] = set()
    async with asyncio.timeout(ARRIVE_S):
        while heard != agents.keys():
            for site in agents.keys() - heard:
                await agents[site].publish(EventsNotKept(site=site, events=0))
            await asyncio.sleep(1)
            while not arrived.empty():
                heard.add((await arrived.get())[0])


@asynccontextmanager
async def measuring(
    look: Callable[[], dict[str, Used]], figures: dict[str, float | None], sites: int, prefix: str = ""
) -> AsyncIterator[None]:
    """Add the usage of all processes within the context to `figures`."""
    before, begun = await asyncio.to_thread(look), time.monotonic()
    yield
    after = await asyncio.to_thread(look)
    for title, value in added(before, after, time.monotonic() - begun, sites).items():
        figures[f"{prefix}{title}"] = value
