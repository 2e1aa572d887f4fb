"""Broadcasts: kept in the registry, and told to each site until it has them, or they expire.

A site gets its broadcasts one after another, in the order in which they were accepted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta

from nats.errors import Error as NatsError

from towpath.bus import Bus
from towpath.bus.deadlines import check_in_time
from towpath.contracts.broadcast import (
    BroadcastChanged,
    BroadcastList,
    BroadcastState,
    BroadcastView,
    Content,
    DeliverBroadcast,
    ListBroadcasts,
    SendBroadcast,
    ShowBroadcast,
    SiteBroadcast,
)
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import Event, now
from towpath.contracts.site import SiteState
from towpath.coordinator.registry.broadcasts import BroadcastStore
from towpath.coordinator.registry.jobs import in_time
from towpath.coordinator.situation import Situation
from towpath.tasks import end

log = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0
"""Between two looks for sites that came back, and for broadcasts that expired."""

DELIVER_S = 10.0
"""Deadline for a site to confirm one broadcast: a large one over a narrow link takes seconds."""

ANSWER_WITHIN_S = 2.0
"""The sender's answer waits so long for sites that are up."""

MOST_WAITING_BYTES = 128 * 1024**2
"""Payloads that may wait for sites at a time. The registry keeps them in memory."""


UNCONFIRMED = "may have it, but has not confirmed"


@dataclass
class Open:
    """A broadcast for which a site waits."""

    view: BroadcastView
    content: Content


class BroadcastCommands:
    """Answers commands about broadcasts, and delivers them to the sites."""

    def __init__(self, situation: Situation, publish: Callable[[Event], Awaitable[None]]) -> None:
        self._situation = situation
        self._publish = publish
        self._store = BroadcastStore(situation.registry)
        self._open: dict[str, Open] = {}
        """In the order in which they were accepted."""
        self._delivering: dict[str, asyncio.Task[None]] = {}
        """Site → the task that tells it what it waits for."""
        self._asked: dict[str, str] = {}
        """Site → the broadcast that it is about to confirm."""
        self._accepting: dict[str, asyncio.Task[None]] = {}
        self._changing = asyncio.Lock()

    async def serve(self, bus: Bus) -> None:
        """Load what is under way, and listen for all commands."""
        contents = await self._store.contents()
        views = await self._store.all()
        self._open = {name: Open(view, contents[name]) for name, view in views.items() if name in contents}
        await bus.serve(SendBroadcast, self.send)
        await bus.serve(ListBroadcasts, self.list_broadcasts)
        await bus.serve(ShowBroadcast, self.show)

    async def send(self, command: SendBroadcast) -> BroadcastView:
        """See `SendBroadcast`. One that is known by its id is not sent again."""
        accepting = self._accepting.get(command.id)
        if accepting is None:
            accepting = asyncio.create_task(self._accept(command), name=f"accept {command.id}")
            self._accepting[command.id] = accepting
            accepting.add_done_callback(lambda _: self._accepting.pop(command.id))
        await in_time(asyncio.shield(accepting))
        tasks = self.start()
        if tasks:
            await asyncio.wait(tasks, timeout=ANSWER_WITHIN_S)
        return await self.show(ShowBroadcast(broadcast=command.id))

    async def _accept(self, command: SendBroadcast) -> None:
        """Keep a broadcast that is not known yet.

        Once begun, this is not given up: the registry may store a write whose answer no one waits for.
        """
        async with self._changing:
            if await self._store.get(command.id) is None:
                opened = Open(self._new_view(command), _content_of(command))
                await self._store.add(opened.view, opened.content, check_in_time)
                self._open[command.id] = opened

    def _new_view(self, command: SendBroadcast) -> BroadcastView:
        for position, site in enumerate(command.sites):
            self._situation.sites.check_known(site, f"sites.{position}")
        size, at = len(command.to_payload()), now()
        waiting = sum(each.view.payload_bytes for each in self._open.values())
        if waiting + size > MOST_WAITING_BYTES:
            raise TowpathError(
                ErrorCode.BUSY,
                f"broadcasts of {waiting} bytes wait for sites",
                field="payload",
                allowed=f"{MOST_WAITING_BYTES} bytes in all; wait until sites have them, or they expire",
            )
        return BroadcastView(
            broadcast=command.id,
            topic=command.topic,
            payload_bytes=size,
            sent_at=at,
            expires_at=at + timedelta(seconds=command.expires_s),
            asked_by=command.asked_by,
            sites=[
                SiteBroadcast(site=site) for site in sorted({*command.sites} or self._situation.sites.names)
            ],
        )

    async def list_broadcasts(self, _: ListBroadcasts) -> BroadcastList:
        """See `ListBroadcasts`."""
        known = await in_time(self._store.all())
        return BroadcastList(broadcasts=[self._newest(view) for view in reversed(known.values())])

    async def show(self, command: ShowBroadcast) -> BroadcastView:
        """See `ShowBroadcast`."""
        view = await in_time(self._store.get(command.broadcast))
        if view is None:
            known = [*await in_time(self._store.all())]
            raise TowpathError.unknown("broadcast", command.broadcast, known, field="broadcast")
        return self._newest(view)

    def _newest(self, view: BroadcastView) -> BroadcastView:
        opened = self._open.get(view.broadcast)
        return view if opened is None else opened.view

    async def watch(self) -> None:
        """Deliver to sites that come back, and let broadcasts expire, until cancelled."""
        try:
            while True:
                await self.expire()
                self.start()
                await asyncio.sleep(LOOK_EVERY_S)
        finally:
            await end([*self._delivering.values(), *self._accepting.values()])

    async def expire(self) -> None:
        """Note broadcasts that are too late for the sites that wait for them."""
        at = now()
        for name, opened in list(self._open.items()):
            if opened.view.expires_at <= at:
                await self._expire(name, opened)

    async def _expire(self, name: str, opened: Open) -> None:
        at = now()
        for site in [each.site for each in opened.view.sites if self._asked.get(each.site) != name]:
            # Looked at one by one: meanwhile a late answer may have come.
            if waiting := _waiting(opened.view).get(site):
                expired = waiting.model_copy(update={"state": BroadcastState.EXPIRED, "at": at})
                await self._settle(name, expired)

    def start(self) -> list[asyncio.Task[None]]:
        """Let each site that is up and waits have a task. Return the tasks."""
        sites = self._situation.sites
        for site in {site for opened in self._open.values() for site in _waiting(opened.view)}:
            task = self._delivering.get(site)
            if sites.state(site) is not SiteState.DOWN and (task is None or task.done()):
                self._delivering[site] = asyncio.create_task(self._deliver_all(site), name=f"to {site}")
        return [task for task in self._delivering.values() if not task.done()]

    async def _deliver_all(self, site: str) -> None:
        """Deliver what a site waits for, in order, until it has all or does not confirm one."""
        while name := self._next(site):
            self._asked[site] = name
            try:
                await self._settle(name, await self._deliver(self._open[name], site))
            except (TowpathError, NatsError, OSError) as error:
                log.warning("%s has not confirmed broadcast %s: %s", site, name, error)
                return await self._note(name, site, error)
            finally:
                del self._asked[site]

    def _next(self, site: str) -> str | None:
        """Return the first broadcast that a site waits for and that has not expired."""
        at = now()
        for name, opened in self._open.items():
            if opened.view.expires_at > at and site in _waiting(opened.view):
                return name
        return None

    async def _deliver(self, opened: Open, site: str) -> SiteBroadcast:
        left_s = max((opened.view.expires_at - now()).total_seconds(), 0.001)
        fields = opened.content.model_dump()
        command = DeliverBroadcast(site=site, broadcast=opened.view.broadcast, left_s=left_s, **fields)
        return await self._situation.bus.request(command, deadline_s=min(DELIVER_S, left_s))

    async def _note(self, name: str, site: str, error: Exception) -> None:
        """Keep why a site still waits. One that did not answer may have the broadcast all the same."""
        if isinstance(error, TowpathError) and error.detail.code is ErrorCode.UNREACHABLE:
            return
        await self._settle(name, SiteBroadcast(site=site, note=f"{UNCONFIRMED}: {error}"))

    async def _settle(self, name: str, outcome: SiteBroadcast) -> None:
        """Take in the state at a site: publish it, then keep it. Killed between, it is done once more."""
        opened = self._open[name]
        opened.view = with_site(opened.view, outcome)
        if outcome.state is not BroadcastState.WAITING:
            fields = outcome.model_dump(include={"site", "state", "subscriptions"})
            await self._publish(BroadcastChanged(broadcast=name, topic=opened.view.topic, **fields))
        async with self._changing:
            await self._store.save(opened.view)
            if not _waiting(opened.view):
                self._open.pop(name, None)


def with_site(view: BroadcastView, outcome: SiteBroadcast) -> BroadcastView:
    """Return a broadcast with another state at one of its sites. Pure."""
    sites = [outcome if each.site == outcome.site else each for each in view.sites]
    return view.model_copy(update={"sites": sites})


def _waiting(view: BroadcastView) -> dict[str, SiteBroadcast]:
    return {each.site: each for each in view.sites if each.state is BroadcastState.WAITING}


def _content_of(command: SendBroadcast) -> Content:
    return Content(**command.model_dump(include=set(Content.model_fields)))
