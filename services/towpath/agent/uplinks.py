"""The uplinks of the site: what it sends to other sites, and the streams of what others send here.

All of it is on the site's disk, so that a site that is cut off or restarted goes on alone.

uplinks/set.json         what is to be done, of a revision
uplinks/spent/<name>     bytes that an uplink has spent of its budgets
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import defaultdict
from pathlib import Path
from time import time

from nats.errors import Error as NatsError

from towpath.atomic_write import write_atomically
from towpath.bus.connecting import Login
from towpath.contracts.data_plane import UPLINK_STREAM_PREFIX, uplink_stream
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import now
from towpath.contracts.metrics import Sample
from towpath.contracts.uplink import (
    ReportUplinks,
    ResolvedUplink,
    SetUplinks,
    UplinkReport,
    UplinkState,
    UplinkStatus,
)
from towpath.streams.stream_view import stream_views
from towpath.streams.streams import SiteStreams
from towpath.tasks import end
from towpath.telemetry.intervals import samples_of
from towpath.uplinks.allowance import Allowance, Spending
from towpath.uplinks.forwarder import UplinkForwarder
from towpath.uplinks.link import UplinkLink
from towpath.uplinks.receiving import arrival_subjects, drop_arrivals, ensure_arrivals, forget_old

log = logging.getLogger(__name__)

LOOK_EVERY_S = 10.0
"""Pause between two looks at the streams of what arrives."""

_WAITS = {UplinkState.WINDOW: 1, UplinkState.BUDGET: 2, UplinkState.NO_LINK: 3}
"""Values of the metric `uplink.waits`."""


class Uplinks:
    """Runs what the coordinator has set. `keep` is its one task, and owns all others."""

    def __init__(self, streams: SiteStreams, directory: Path, login: Login) -> None:
        self._streams = streams
        self._directory = directory
        self._login = login
        self._set = _load(directory / "set.json", streams.site)
        self._changed = asyncio.Event()
        self._links: dict[str, tuple[list[ResolvedUplink], UplinkLink, asyncio.Task[None]]] = {}
        """Destination → its uplinks as they run, and the task that runs them."""
        self._accounts: dict[str, Spending] = {}

    async def set_uplinks(self, command: SetUplinks) -> UplinkReport:
        """Keep a set, and see to it. One of an earlier revision is refused: it comes late."""
        if command.revision < self._set.revision:
            raise TowpathError(
                ErrorCode.NOT_ALLOWED,
                f"the site has the uplinks of a later revision, {self._set.revision}",
                field="revision",
                value=command.revision,
            )
        wanted = command.model_copy(update={"id": self._set.id})
        if wanted != self._set:
            self._directory.mkdir(parents=True, exist_ok=True)
            await asyncio.to_thread(
                write_atomically, self._directory / "set.json", wanted.model_dump_json(indent=1)
            )
            self._set = wanted
            self._changed.set()
        return self._report()

    async def report(self, _: ReportUplinks) -> UplinkReport:
        """Return the figures of all uplinks from here."""
        return self._report()

    async def samples(self) -> list[Sample]:
        """Return the figures as samples."""
        found: list[Sample] = []
        for status in self._statuses():
            values = {
                "uplink.backlog": float(status.backlog_events),
                "uplink.backlog.size": float(status.backlog_bytes),
                "uplink.rate": status.rate,
                "uplink.forwarded": float(status.forwarded),
                "uplink.discarded": float(status.discarded),
                "uplink.waits": float(_WAITS.get(status.state, 0)),
                "uplink.spent.window": float(status.spent_in_window),
                "uplink.spent.month": float(status.spent_in_month),
            }
            if status.through_s is not None:
                values["uplink.through"] = status.through_s
            found += samples_of(f"uplink:{status.name}", time(), values)
        return found

    async def keep(self) -> None:
        """Send and receive until cancelled."""
        try:
            while True:
                self._changed.clear()
                await self._see_to_links()
                try:
                    await self._see_to_arrivals()
                except (TowpathError, NatsError, OSError, TimeoutError) as error:
                    log.warning("the streams of uplinks cannot be looked at: %s", error)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), LOOK_EVERY_S)
        finally:
            await end([task for _, _, task in self._links.values()])

    async def _see_to_links(self) -> None:
        wanted: defaultdict[str, list[ResolvedUplink]] = defaultdict(list)
        for uplink in self._set.sends:
            wanted[uplink.spec.to].append(uplink)
        for to, (running, _, task) in list(self._links.items()):
            if wanted.get(to) != running or task.done():
                await end([task])
                if not task.cancelled() and (error := task.exception()) is not None:
                    log.error("uplinks to %s ended: %s: %s", to, type(error).__name__, error)
                del self._links[to]
        for to, uplinks in wanted.items():
            if to not in self._links:
                self._links[to] = self._start(to, uplinks)

    def _start(
        self, to: str, uplinks: list[ResolvedUplink]
    ) -> tuple[list[ResolvedUplink], UplinkLink, asyncio.Task[None]]:
        forwarders = [
            UplinkForwarder(each, Allowance(each.spec, self._account(each.spec.name))) for each in uplinks
        ]
        link = UplinkLink(self._login, forwarders, f"uplinks-{self._streams.site}-{to}")
        return uplinks, link, asyncio.create_task(link.run(), name=f"uplinks to {to}")

    def _account(self, name: str) -> Spending:
        """Return what an uplink has spent. Kept while the agent runs: reading it again counts a step more."""
        if name not in self._accounts:
            self._accounts[name] = Spending(self._directory / "spent" / f"{name}.json")
        return self._accounts[name]

    async def _see_to_arrivals(self) -> None:
        """Make streams that are wanted, delete those that are purged, and what is too old."""
        views = {view.name: view for view in await stream_views(self._streams.connection, self._streams.site)}
        wanted = {uplink_stream(uplink.spec.name): uplink for uplink in self._set.receives}
        for name, uplink in wanted.items():
            if name not in views or set(views[name].subjects) != set(arrival_subjects(uplink.spec)):
                await ensure_arrivals(self._streams, uplink)
        for name in self._set.purged:
            if name in views and name not in wanted:
                await drop_arrivals(self._streams, name)
        for name, view in views.items():
            if name.startswith(UPLINK_STREAM_PREFIX):
                await forget_old(self._streams, view, now())

    def _report(self) -> UplinkReport:
        return UplinkReport(revision=self._set.revision, uplinks=self._statuses())

    def _statuses(self) -> list[UplinkStatus]:
        return [status for _, link, _ in self._links.values() for status in link.statuses()]


def _load(path: Path, site: str) -> SetUplinks:
    try:
        return SetUplinks.from_json(path.read_bytes())
    except FileNotFoundError:
        return SetUplinks(site=site, revision=0)
