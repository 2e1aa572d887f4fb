"""Records of the sites of a mesh: when each was first heard, failed and came back, and where its copies are.

They are on disk at the hub. For a collector that begins, the first heartbeat of a site is no restart: perhaps
the whole mesh was down, as it was asked to be.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Set
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from towpath.atomic_write import write_atomically
from towpath.contracts.message import Model
from towpath.contracts.metrics import Sample
from towpath.contracts.metrics_table import AVAILABILITY
from towpath.contracts.site import SiteStatus
from towpath.placement.data.node_history import NodeHistory, availability
from towpath.placement.data.replication import Node

log = logging.getLogger(__name__)

KEPT_EVENTS = 100
"""Failures and restarts of a site that are remembered, each."""


class SiteRecord(Model):
    """One site. Times are Unix seconds."""

    start_s: float
    failures_s: list[float] = []
    restarts_s: list[float] = []
    copies_at: list[str] = []
    """Sites that have a copy of its values, because it fails often."""
    near_at: str | None = None
    """Site that has a copy of its values, because it is nearer to the hub."""
    chosen_at_s: float | None = None
    """When a copy of its values was made last."""
    unstable_at_s: float | None = None
    """When it was found unstable last."""

    @property
    def held_at(self) -> list[str]:
        """Sites that have a copy of its values, for one reason or the other."""
        return list(dict.fromkeys([*self.copies_at, *([self.near_at] if self.near_at else [])]))

    @property
    def history(self) -> NodeHistory:
        """Its failures and restarts, as rules see them."""
        failures = sorted({at for at in self.failures_s if at > self.start_s})
        restarts = sorted(at for at in self.restarts_s if at >= self.start_s)
        return NodeHistory(self.start_s, tuple(failures), tuple(restarts))


STEP_S = 0.001
"""Between two times of a record that the clock does not tell apart."""

LOOK_S = 1.0
"""Between two looks which sites are silent."""

_RECORDS: TypeAdapter[dict[str, SiteRecord]] = TypeAdapter(dict[str, SiteRecord])


class SiteRecords:
    """Notes which sites fail and come back."""

    def __init__(
        self,
        path: Path,
        silent_after_s: float,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Read the file. A site has failed when it was not heard for `silent_after_s`.

        Records have the time of `clock`, and silence is measured by `monotonic`.
        """
        self._path = path
        self._silent_after_s = silent_after_s
        self._clock = clock
        self._monotonic = monotonic
        self._looked = monotonic()
        self.by_site = _read(path)
        self._heard: dict[str, float] = {}
        """Site → its last heartbeat; those that are up."""
        self._failed: set[str] = set()
        self.is_changed = False
        """True if the file does not have all of it."""

    async def hear(self, heartbeat: SiteStatus) -> None:
        """Note that a site is there."""
        site = heartbeat.site
        self._heard[site] = self._monotonic()
        if site not in self.by_site:
            self.by_site[site] = SiteRecord(start_s=self._clock())
            self.is_changed = True
        elif site in self._failed:
            self._failed.remove(site)
            record = self.by_site[site]
            restarts = [*record.restarts_s, self._after(record.start_s, *record.restarts_s)]
            self._change(site, restarts_s=restarts[-KEPT_EVENTS:])

    def look(self, sites: Iterable[str]) -> None:
        """Note which sites have become silent. Forget those that the mesh does not have any more.

        To be called every `LOOK_S`. After a longer pause the collector itself was held up, and heard no one.
        """
        now, before = self._monotonic(), self._looked
        self._looked = now
        if now - before > self._silent_after_s / 2:
            self._heard = dict.fromkeys(self._heard, now)
        for gone in self.by_site.keys() - {*sites}:
            del self.by_site[gone]
            self._heard.pop(gone, None)
        for site, heard in [*self._heard.items()]:
            if now - heard >= self._silent_after_s:
                del self._heard[site]
                self._failed.add(site)
                record = self.by_site[site]
                failures = [*record.failures_s, self._after(record.start_s, *record.failures_s)]
                self._change(site, failures_s=failures[-KEPT_EVENTS:])

    async def measure(self, sites: Callable[[], Iterable[str]]) -> list[Sample]:
        """Look, save, and return the availability of the sites that have failed before. `sites` blocks."""
        self.look(await asyncio.to_thread(lambda: [*sites()]))
        if self.is_changed:
            await asyncio.to_thread(self.save)
        now = self._clock()
        found = {site: record.history for site, record in self.by_site.items() if record.failures_s}
        return [
            Sample(entity=f"site:{site}", metric=AVAILABILITY, at=now, value=availability(history, now))
            for site, history in found.items()
        ]

    @property
    def up(self) -> Set[str]:
        """Sites that are up."""
        return self._heard.keys()

    def nodes(self) -> list[Node]:
        """Return the sites that are up, as the rules of replication see them."""
        return [
            Node(
                name,
                record.history,
                copies_at=frozenset(record.copies_at),
                parts_at=frozenset(record.held_at) - frozenset(record.copies_at),
                chosen_at_s=record.chosen_at_s,
                unstable_at_s=record.unstable_at_s,
            )
            for name, record in sorted(self.by_site.items())
            if name in self._heard
        ]

    def unstable(self, site: str) -> None:
        """Note that a site was found unstable."""
        self._change(site, unstable_at_s=self._clock())

    def copied(self, owner: str, destination: str) -> None:
        """Note a copy."""
        copies = [*self.by_site[owner].copies_at, destination]
        self._change(owner, copies_at=copies, chosen_at_s=self._clock())

    def near(self, owner: str, destination: str | None) -> None:
        """Note the site that has a copy of a site's values because it is nearer, or that none has."""
        self._change(owner, near_at=destination)

    def dropped(self, owner: str, destination: str) -> None:
        """Note that there is a copy no longer."""
        self._change(owner, copies_at=[at for at in self.by_site[owner].copies_at if at != destination])

    def copies_at(self, owner: str) -> list[str]:
        """Return the sites with a copy of a site's values: those that are up, then the others."""
        record = self.by_site.get(owner)
        return [] if record is None else sorted(record.held_at, key=lambda at: at not in self._heard)

    def save(self) -> None:
        """Write the file. Blocks."""
        self.is_changed = False
        try:
            write_atomically(self._path, _RECORDS.dump_json(self.by_site), mode=0o600)
        except BaseException:
            self.is_changed = True
            raise

    def _after(self, *times_s: float) -> float:
        """Return the present, or a moment later than these: the clock may have been set back."""
        return max(self._clock(), max(times_s) + STEP_S)

    def _change(self, site: str, **values: object) -> None:
        self.by_site[site] = self.by_site[site].model_copy(update=values)
        self.is_changed = True


def _read(path: Path) -> dict[str, SiteRecord]:
    """Return the records in a file, which a later version may have written. Put a damaged one aside."""
    try:
        return _RECORDS.validate_json(path.read_bytes(), extra="ignore")
    except FileNotFoundError:
        return {}
    except ValidationError as error:
        damaged = path.with_suffix(".damaged")
        path.replace(damaged)
        log.error("the records of sites begin again from nothing, those so far are in %s: %s", damaged, error)
        return {}
