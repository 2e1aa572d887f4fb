"""`towpath top`: show the present state of sites, jobs, operations and links, repeatedly."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live

from towpath.bus import Bus
from towpath.cli.connection import open_bus
from towpath.cli.output import print_json, print_json_line, print_rich
from towpath.cli.settings import AsJson, home_of
from towpath.cli.top_figures import (
    MeshView,
    Newest,
    job_rows,
    link_rows,
    operation_rows,
    result_rates,
    site_rows,
)
from towpath.cli.top_tables import Screen
from towpath.contracts.commands import JobView, ListJobs, ListSites, OperationView, ShowOperation
from towpath.contracts.errors import TowpathError
from towpath.contracts.message import now
from towpath.contracts.metrics import MAX_POINTS, QueryMetrics, SeriesList
from towpath.contracts.site import SiteStatus
from towpath.mesh.home import Home
from towpath.tasks import pause

COORDINATOR_S = 5.0
"""Time for its answer. It has everything in memory."""

COLLECTOR_S = 4.0
"""Time for its answer: it waits for silent sites itself."""

RATE_OVER_S = 6.0
"""Time over which counts in heartbeats become rates: heartbeats come once a second."""

METRICS = ("job.*", "process.cpu.utilization", "process.memory.usage", "site.*", "link.*")


def top(
    context: typer.Context,
    interval_s: Annotated[
        float, typer.Option("--interval", min=0.2, max=3600, help="Seconds between two looks.")
    ] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Print the present state, and end.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the state of sites, jobs, migrations and links until Ctrl-C.

    While the collector is silent, figures are those of the heartbeats. With `--json`, one line for each look.

    Example: `towpath top --interval 2`
    """
    with suppress(KeyboardInterrupt):
        asyncio.run(_watch(home_of(context), interval_s, once=once, as_json=as_json))


async def _watch(home: Home, interval_s: float, *, once: bool, as_json: bool) -> None:
    async with open_bus(home) as bus:
        watch = MeshWatch(bus)
        await watch.look_once()
        if once:
            return print_json(watch.view()) if as_json else print_rich(Screen(watch.view()))
        if sys.stdout.isatty() and not as_json:
            return await _live(watch, interval_s)
        show = print_json_line if as_json else lambda view: print_rich(Screen(view))
        await _repeated(watch, interval_s, show)


async def _live(watch: MeshWatch, interval_s: float) -> None:
    """Show views on a screen of their own, which is gone afterwards."""
    with Live(console=Console(highlight=False), screen=True, auto_refresh=False) as live:

        def show(view: MeshView) -> None:
            live.update(Screen(view), refresh=True)

        await _repeated(watch, interval_s, show)


async def _repeated(watch: MeshWatch, interval_s: float, show: Callable[[MeshView], None]) -> None:
    """Look repeatedly, without end. A slow collector does not hold up the rest."""

    async def showing() -> None:
        show(watch.view())

    try:
        async with asyncio.TaskGroup() as looking:
            for act in (watch.look_at_coordinator, watch.look_at_collector, showing):
                looking.create_task(_every(interval_s, act), name=act.__name__)
    except ExceptionGroup as failed:
        # The exit code depends on the error: a closed pipe, as in `towpath top | head`, is none.
        raise failed.exceptions[0] from None


async def _every(interval_s: float, act: Callable[[], Awaitable[None]]) -> None:
    while True:
        begun = time.monotonic()
        await act()
        await pause(max(0.0, begun + interval_s - time.monotonic()))


class MeshWatch:
    """The present view of the mesh. A party that does not answer keeps its last view, with a note."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._sites: Sequence[SiteStatus] = ()
        self._jobs: Sequence[JobView] = ()
        self._looks: deque[tuple[float, Sequence[JobView]]] = deque()
        """The last seconds: monotonic time, and the jobs."""
        self._operations: Sequence[OperationView] = ()
        self._measured: SeriesList | None = None
        self._silent: dict[str, str] = {}
        """Party that does not answer → note."""

    async def look_once(self) -> None:
        """Ask all parties. Raises `TowpathError` when the coordinator does not answer."""
        await asyncio.gather(self._ask_coordinator(), self.look_at_collector())

    async def look_at_coordinator(self) -> None:
        """Take over the coordinator's answers."""
        try:
            await self._ask_coordinator()
        except TowpathError as error:
            self._silent["coordinator"] = error.detail.message
        else:
            self._silent.pop("coordinator", None)

    async def look_at_collector(self) -> None:
        """Take over the newest samples."""
        query = QueryMetrics(metrics=list(METRICS), limit=MAX_POINTS)
        try:
            self._measured = await self._bus.request(query, deadline_s=COLLECTOR_S)
        except TowpathError as error:
            self._measured = None
            self._silent["collector"] = error.detail.message
        else:
            self._silent.pop("collector", None)

    def view(self) -> MeshView:
        """Return the present view."""
        newest = Newest(self._measured)
        return MeshView(
            at=now(),
            figures="heartbeats" if self._measured is None else "collector",
            sites=site_rows(self._sites, newest),
            jobs=job_rows(self._jobs, newest, self._counted_per_s()),
            operations=operation_rows(self._operations, now()),
            links=link_rows(newest),
            notes=self._notes(),
        )

    async def _ask_coordinator(self) -> None:
        sites, jobs = await asyncio.gather(
            self._bus.request(ListSites(), deadline_s=COORDINATOR_S),
            self._bus.request(ListJobs(), deadline_s=COORDINATOR_S),
        )
        self._sites, self._jobs = sites.sites, jobs.jobs
        self._looks.append((time.monotonic(), jobs.jobs))
        while self._looks[-1][0] - self._looks[0][0] > RATE_OVER_S:
            self._looks.popleft()
        under_way = {job.operation for job in jobs.jobs if job.operation is not None}
        self._operations = await asyncio.gather(*map(self._operation, sorted(under_way)))

    def _counted_per_s(self) -> dict[str, float]:
        """Return results per second from the counts in heartbeats."""
        if not self._looks:
            return {}
        (begun, before), (ended, after) = self._looks[0], self._looks[-1]
        return result_rates(before, after, ended - begun)

    async def _operation(self, operation: str) -> OperationView:
        return await self._bus.request(ShowOperation(operation=operation), deadline_s=COORDINATOR_S)

    def _notes(self) -> list[str]:
        unreached = self._measured.unreached if self._measured else {}
        notes = [f"the {who} does not answer: {why}" for who, why in sorted(self._silent.items())]
        return notes + [f"no figures of {site}: {why}" for site, why in sorted(unreached.items())]
