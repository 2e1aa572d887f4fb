"""All uplinks of a site to one destination: they share its link. One task runs them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from nats.aio.client import Client
from nats.errors import Error as NatsError

from towpath.bus.connecting import Login, connect_once
from towpath.contracts.uplink import ResolvedUplink, UplinkStatus
from towpath.streams.stream_view import StreamView
from towpath.uplinks.batches import LaneBatch
from towpath.uplinks.forwarder import UplinkForwarder
from towpath.uplinks.pace import Flight, LinkPace
from towpath.uplinks.reading import NotThere, view_of
from towpath.uplinks.schedule import Schedule, Waiting
from towpath.uplinks.sending import BatchRefused, BatchSender, UnderWay

log = logging.getLogger(__name__)

IDLE_S = 0.1
"""Pause between two looks while nothing waits: new events leave after half of it, on average."""

LOOK_S = 0.03
"""A stream of the origin is not asked for again within this time."""

RETRY_S = 0.5
"""Pause before the destination is asked again."""

MOST_UNDER_WAY = 32
"""Batches; nats-server holds fifty unfinished ones of a stream."""

_TROUBLES = (NatsError, OSError, TimeoutError, BatchRefused, NotThere)


@dataclass(frozen=True)
class _Sent:
    """A batch under way."""

    forwarder: UplinkForwarder
    batch: LaneBatch
    flight: Flight
    under_way: UnderWay


class UplinkLink:
    """Runs uplinks until cancelled."""

    def __init__(self, login: Login, forwarders: Sequence[UplinkForwarder], name: str) -> None:
        self._login = login
        self._forwarders = forwarders
        self._name = name
        self._schedule = Schedule()
        self._pace = LinkPace()
        self._sent: deque[_Sent] = deque()
        self._asked_at: dict[str, float] = {}
        self._views: dict[str, tuple[float, StreamView]] = {}
        """Stream of the origin → time of the last look at it, and what it was like."""

    def statuses(self) -> list[UplinkStatus]:
        """Return the figures of all uplinks."""
        return [forwarder.status() for forwarder in self._forwarders]

    async def run(self) -> None:
        """Forward until cancelled, over one connection after another."""
        while True:
            trouble = "the connection was closed"
            try:
                await self._session()
            except _TROUBLES as error:
                trouble = str(error) or type(error).__name__
            log.info("%s: %s", self._name, trouble)
            for forwarder in self._forwarders:
                forwarder.forget(trouble)
            await asyncio.sleep(RETRY_S)

    async def _session(self) -> None:
        """Forward over one connection. It does not come back when it is cut: what waited in it is void."""
        connection = await connect_once(self._login, self._name)
        sender = BatchSender(connection)
        self._pace = LinkPace()
        self._sent.clear()
        self._asked_at.clear()
        try:
            await sender.open()
            while not connection.is_closed:
                await self._round(connection, sender)
        finally:
            await sender.close()
            await connection.close()

    async def _round(self, connection: Client, sender: BatchSender) -> None:
        self._settle()
        for forwarder in self._forwarders:
            await self._prepare(connection, forwarder)
        waiting = [lane for forwarder in self._forwarders for lane in forwarder.waiting()]
        chosen = self._schedule.next(waiting)
        if chosen is None or not self._pace.has_room(time.monotonic()) or len(self._sent) >= MOST_UNDER_WAY:
            await self._until_answer(IDLE_S)
        else:
            await self._send(connection, sender, chosen, waiting)

    async def _prepare(self, connection: Client, forwarder: UplinkForwarder) -> None:
        """Look at an uplink. One whose destination is not ready does not hold up the others."""
        try:
            forwarder.look(await self._view(connection, forwarder.uplink))
        except NotThere as error:
            forwarder.forget(str(error))
            return
        name, present = forwarder.uplink.spec.name, time.monotonic()
        if forwarder.is_known or present - self._asked_at.get(name, 0.0) < RETRY_S:
            return
        self._asked_at[name] = present
        if any(sent.forwarder is forwarder for sent in self._sent):
            return  # What is under way must be decided first.
        try:
            await forwarder.find_out(connection)
        except NotThere as error:
            forwarder.forget(str(error))

    async def _view(self, connection: Client, uplink: ResolvedUplink) -> StreamView:
        """Return the origin's stream as it was a moment ago: many uplinks may share it.

        Raises `NotThere`, or `TimeoutError`.
        """
        known = self._views.get(uplink.stream)
        if known is None or time.monotonic() - known[0] > LOOK_S:
            known = time.monotonic(), await view_of(connection, uplink)
            self._views[uplink.stream] = known
        return known[1]

    async def _send(
        self, connection: Client, sender: BatchSender, chosen: Waiting, waiting: Sequence[Waiting]
    ) -> None:
        forwarder = next(f for f in self._forwarders if f.uplink.spec.name == chosen.uplink)
        batch = await forwarder.build(connection, chosen, self._pace.batch)
        if batch is None:
            return
        flight = self._pace.sent(batch.size, time.monotonic())
        self._sent.append(_Sent(forwarder, batch, flight, await forwarder.send(sender, batch)))
        self._schedule.sent(chosen, batch.size, waiting)

    async def _until_answer(self, most_s: float) -> None:
        """Wait for the oldest batch under way."""
        if not self._sent:
            await asyncio.sleep(most_s)
            return
        await asyncio.wait({self._sent[0].under_way.answer}, timeout=most_s)

    def _settle(self) -> None:
        """Take in what has arrived. Raises `TimeoutError` when an answer is overdue."""
        while self._sent and self._sent[0].under_way.answer.done():
            sent = self._sent.popleft()
            error = sent.under_way.answer.exception()
            if error is None:
                self._pace.answered(sent.flight, sent.under_way.answered_at)
                if sent.forwarder.is_known:
                    sent.forwarder.stored(sent.batch)
            elif isinstance(error, BatchRefused):
                self._pace.lost(sent.flight)
                sent.forwarder.forget(str(error))
            else:
                raise error
        if self._sent and time.monotonic() - self._sent[0].flight.sent_at > self._pace.patience_s:
            raise TimeoutError("no answer from the destination")
