"""Loads and unloads rules: what changes is recorded, brought to where it counts, and announced."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterable, Mapping, Sequence

from nats.errors import Error as NatsError

from towpath.bus import Bus
from towpath.contracts.fault_commands import RuleEnd, RuleEnded, RuleList, RuleLoaded
from towpath.contracts.faults import Rule, RuleCount
from towpath.contracts.message import Event
from towpath.lab.guard.report_reader import total
from towpath.lab.injector.courier import LAST_COUNTS_S
from towpath.lab.injector.distribution import Distribution
from towpath.lab.injector.links import LinkRules
from towpath.lab.injector.loaded import Change, Ended, LoadedRules
from towpath.lab.injector.record import InjectorRecord, Recorded, RecordedRule
from towpath.tasks import end

log = logging.getLogger(__name__)

LOOK_EVERY_S = 0.1
"""Longest delay of the end of a rule whose time is over."""

LAST_SETTLE_S = 1.0
"""For telling the mesh when the process ends. Rules of those that do not hear it end with their lease."""


class Rules:
    """The rules of the mesh, and those that carry them out."""

    def __init__(self, bus: Bus, record: InjectorRecord, recorded: Recorded) -> None:
        """`recorded` is what an earlier injector left."""
        self._bus = bus
        self._record = record
        self._earlier = recorded
        self.loaded = LoadedRules(recorded.versions)
        # By the clock too: greater than what was used also when the record is lost.
        revision = max(recorded.revision, int(time.time() * 1000)) + 1
        self.distribution = Distribution(self.loaded, revision, self._note)
        self._links = LinkRules(self.loaded, bus, self.distribution.shared_value, self._remember)
        self._links.take_over(recorded.links)
        self._earlier_counts: dict[tuple[str, int], list[RuleCount]] = {
            (each.rule, each.version): [RuleCount(rule=each.rule, version=each.version)]
            for each in recorded.loaded
        }
        self._announcing: set[asyncio.Task[None]] = set()

    def load(self, rules: Mapping[str, tuple[Rule, Sequence[str]]], lease_s: float | None) -> Change:
        """Load rules by name, each with its scopes. `spread` tells the mesh of the change.

        Raises `TowpathError` when there would be too many.
        """
        change = self.loaded.load(rules, lease_s)
        self.distribution.changed(change.scopes)
        return change

    def unload(self, names: Sequence[str] | None) -> Change:
        """Unload rules of these names, or all. `spread` tells the mesh of the change."""
        change = self.loaded.unload(names)
        self.distribution.changed(change.scopes)
        return change

    def list(self) -> RuleList:
        """Return what is loaded."""
        return RuleList(rules=self.loaded.views(self.distribution.unreached))

    async def carry_out(self) -> None:
        """Do everything that goes on by itself, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._links.carry_out())
            tasks.create_task(self._expire())
            tasks.create_task(self._end_earlier())

    async def close(self) -> None:
        """Unload everything. Rules of scopes that do not answer in time end with their lease."""
        change = self.unload(None)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_SETTLE_S):
                await asyncio.gather(self.distribution.settled(change.scopes), self._links.look())
                await self._tell_ended(change.ended)
        await end([*self._announcing])
        await self.distribution.close()
        await self._remember()

    async def spread(self, change: Change) -> None:
        """Wait until all that can be reached have heard of a change, then announce it."""
        if not (change.loaded or change.ended):
            return
        # All at once: the earlier it holds, the more exact is what is measured. An injector that dies before
        # the record is written is followed by one that ends all rules of all scopes anyhow.
        await asyncio.gather(self.distribution.settled(change.scopes), self._links.look(), self._remember())
        for each in change.loaded:
            loaded = RuleLoaded(rule=each.name, version=each.told.version, scopes=list(each.scopes))
            await self._publish(loaded)
        if change.ended:
            self._own(asyncio.create_task(self._announce(change.ended)))

    async def _announce(self, ended: Iterable[Ended]) -> None:
        """Tell that rules ended, as soon as their last counts can have come."""
        await asyncio.sleep(LAST_COUNTS_S)
        await self._tell_ended(ended)

    async def _tell_ended(self, ended: Iterable[Ended]) -> None:
        for each in ended:
            version = each.loaded.told.version
            over = RuleEnded(
                at=each.at, rule=each.loaded.name, version=version, why=each.why, count=each.loaded.count
            )
            await self._publish(over)
        self.loaded.forget(ended)

    async def _end_earlier(self) -> None:
        """Tell that what an earlier injector loaded has ended."""
        await self.distribution.settled({scope for each in self._earlier.loaded for scope in each.scopes})
        for (rule, version), counts in self._earlier_counts.items():
            why, count = RuleEnd.INJECTOR_STARTED, total(counts)
            await self._publish(RuleEnded(rule=rule, version=version, why=why, count=count))
        self._earlier_counts.clear()
        await self._remember()

    def _note(self, scope: str, count: RuleCount) -> None:
        self.loaded.note(scope, count)
        if (count.rule, count.version) in self._earlier_counts:
            self._earlier_counts[count.rule, count.version].append(count)

    async def _expire(self) -> None:
        while True:
            change = self.loaded.expire()
            if change.ended:
                self.distribution.changed(change.scopes)
                # Aside: a scope that does not answer holds up no other rule's end.
                self._own(asyncio.create_task(self.spread(change)))
            await asyncio.sleep(LOOK_EVERY_S)

    async def _remember(self) -> bool:
        """Put on disk what is loaded, and how links were before they were worse: whether that went well."""
        return await self._record.write(self._recorded())

    def _recorded(self) -> Recorded:
        loaded = [
            RecordedRule(rule=each.name, version=each.told.version, scopes=list(each.scopes))
            for each in self.loaded
        ]
        return Recorded(
            revision=self.distribution.revision,
            versions=self.loaded.versions,
            loaded=loaded,
            links=self._links.held,
        )

    async def _publish(self, event: Event) -> None:
        log.info("%s %s", event.to_subject(), event.model_dump_json())
        try:
            await self._bus.publish(event)
        except (NatsError, OSError) as error:
            log.error("%s was not announced: %s", type(event).__name__, error)

    def _own(self, task: asyncio.Task[None]) -> None:
        self._announcing.add(task)
        task.add_done_callback(self._announcing.discard)
