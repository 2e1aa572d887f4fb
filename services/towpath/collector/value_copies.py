"""Let stable sites keep copies of the values of sites that fail often, by the rules of `placement.data`."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict

from nats.errors import Error as NatsError

from towpath.bus import Bus
from towpath.collector.near_reads import NearReads
from towpath.collector.site_questions import SiteQuestions
from towpath.collector.site_records import SiteRecords
from towpath.contracts.errors import TowpathError
from towpath.contracts.reading import MayRead, ReadingDecision
from towpath.contracts.storage import KeepCopies, StorageSpec, ValueCopy, ValueStream
from towpath.placement.data.node_history import DAY_S
from towpath.placement.data.replication import (
    ReplicationRules,
    ended_replications,
    is_unstable,
    replications,
)
from towpath.stored_values.value_streams import value_streams
from towpath.streams.stream_view import stream_views

log = logging.getLogger(__name__)

LOOK_S = 1.0
"""Between two looks at the clock."""

STREAMS_S = 10.0
"""Deadline for a site to list its streams, page by page."""

TELL_S = 15.0
"""Between two messages to those that have copies: an owner may have new streams by then."""


class ValueCopies:
    """Decides who has copies, and tells them."""

    def __init__(
        self,
        bus: Bus,
        questions: SiteQuestions,
        records: SiteRecords,
        spec: StorageSpec,
        near: NearReads,
    ) -> None:
        self._bus = bus
        self._questions = questions
        self._records = records
        self._spec = spec
        self._near = near
        self._sources: dict[str, dict[str, float]] = {}
        """Site → the sources of its values, as it named them last."""
        self._copied: dict[str, set[str]] = {}
        """Site → names of its streams that have values, as they were told to its copies last."""
        self._rules = ReplicationRules(
            unstable_from_per_s=spec.unstable_from_per_day / DAY_S,
            # No site is chosen twice in a round, and the next round may choose it.
            recently_s=min(ReplicationRules.recently_s, spec.copies_every_s),
        )

    async def keep(self) -> None:
        """Look, decide and tell, until cancelled. Failures do not end it."""
        decide_at = time.monotonic() + self._spec.copies_every_s
        tell_at = time.monotonic() + TELL_S
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                if time.monotonic() >= decide_at:
                    decide_at = time.monotonic() + self._spec.copies_every_s
                    tell_at = time.monotonic()
                    self._decide()
                    await self._near.decide()
                if time.monotonic() >= tell_at:
                    tell_at = time.monotonic() + TELL_S
                    await self._tell()
            except Exception as error:  # Whatever a site tells, others need their copies.
                log.warning("copies of values wait: %r", error, exc_info=not isinstance(error, TowpathError))

    async def may_read(self, command: MayRead) -> ReadingDecision:
        """Tell if a site keeps a copy of another one's values, and reads this stream for it."""
        record = self._records.by_site.get(command.site)
        holds = record is not None and command.reader in record.held_at
        return ReadingDecision(may_read=holds and command.stream in self._copied.get(command.site, ()))

    def _decide(self) -> None:
        now, nodes = time.time(), self._records.nodes()
        for node in nodes:
            if is_unstable(node, now, self._rules):
                self._records.unstable(node.name)
        for ended in [*ended_replications(nodes, now, self._rules)]:
            log.info("%s need not keep a copy of %s: %s", ended.destination, ended.owner, ended.reason)
            self._records.dropped(ended.owner, ended.destination)
        for begun in replications(self._records.nodes(), now, self._rules):
            log.info("%s fails often; %s keeps a copy of its values", begun.owner, begun.destination)
            self._records.copied(begun.owner, begun.destination)

    async def _tell(self) -> None:
        """Tell each site which copies to keep."""
        up = [node.name for node in self._records.nodes()]
        wanted: defaultdict[str, list[ValueCopy]] = defaultdict(list)
        for owner, record in sorted(self._records.by_site.items()):
            if record.held_at:
                streams = await self._streams_of(owner) if owner in up else None
                copy = ValueCopy(owner=owner, streams=streams, sources=self._sources.get(owner))
                for destination in record.held_at:
                    wanted[destination].append(copy)
        answers = await asyncio.gather(
            *(self._questions.ask(site, KeepCopies(site=site, copies=wanted[site])) for site in up)
        )
        for site, answer in zip(up, answers, strict=True):
            if not isinstance(answer, TowpathError):
                self._sources[site] = answer.sources

    async def _streams_of(self, owner: str) -> list[ValueStream] | None:
        """Return the streams of a site that have values; None if it does not answer."""
        try:
            async with asyncio.timeout(STREAMS_S):
                views = await stream_views(self._bus.connection, owner)
            found = value_streams(views, self._spec.results)
        except (TimeoutError, NatsError, ValueError):
            return None
        self._copied[owner] = {stream.name for stream in found}
        return found
