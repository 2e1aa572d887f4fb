"""Take values out of a site's streams: of its metrics, of applications, and of results that are wanted.

How far a stream was read is stored with the values, in one transaction. So a restart goes on where it was,
and what is read twice replaces itself.
"""

from __future__ import annotations

import asyncio
import logging
import math
import sqlite3
import time
from collections.abc import Iterable, Sequence
from datetime import datetime

from nats.aio.client import Client
from nats.errors import Error as NatsError

from towpath.contracts.data_plane import STORED_AT_HEADER
from towpath.contracts.storage import ValueStream
from towpath.stored_values.value_store import ValueStore
from towpath.stored_values.value_streams import LOOK_S, Reads, reader_of, value_streams
from towpath.streams.follower import Follower, StreamGoneError
from towpath.streams.pages import StoredMessage
from towpath.streams.stream_view import stream_views
from towpath.tasks import end, to_the_end

log = logging.getLogger(__name__)

STREAMS_S = 5.0
"""Between two looks for streams that are new, or gone, and before another try after a failure."""


class Intake:
    """Follows streams of one site, each in a task of its own, into one store."""

    def __init__(self, connection: Client, site: str, store: ValueStore) -> None:
        self._connection = connection
        self._site = site
        self._store = store
        self._following: dict[str, asyncio.Task[None]] = {}
        self._at_end: dict[str, float] = {}
        """Stream that is followed → when its end was reached last, by the monotonic clock."""

    @property
    def lag_s(self) -> float:
        """Seconds since the ends of all streams were reached; infinite if that never was."""
        reached = [self._at_end.get(name, -math.inf) for name in self._following]
        return time.monotonic() - min(reached, default=-math.inf)

    async def follow(self, streams: Iterable[ValueStream]) -> None:
        """Follow exactly these streams from now on."""
        wanted = {f"{stream.name} {stream.created}": stream for stream in streams}
        over = {name for name, task in self._following.items() if task.done()}
        await end([self._following.pop(name) for name in self._following.keys() - wanted.keys() | over])
        self._at_end = {name: at for name, at in self._at_end.items() if name in self._following}
        for name in wanted.keys() - self._following.keys():
            self._following[name] = asyncio.create_task(self._follow(name, wanted[name]))

    async def stop(self) -> None:
        """Follow none."""
        await self.follow([])

    async def _follow(self, name: str, stream: ValueStream) -> None:
        """Take in the values of one stream, until it is gone."""
        reads, follower = reader_of(stream), None
        while True:
            try:
                if follower is None:
                    after = await asyncio.to_thread(self._store.progress, name)
                    begin = max(after, stream.after)
                    follower = Follower(self._connection, self._site, stream.name, after=begin)
                before, asked_at = follower.last, time.monotonic()
                messages = await follower.read()
                if messages:
                    # The thread goes on when its task is cancelled, and must not find the store closed.
                    await to_the_end(asyncio.to_thread(self._take, name, messages, reads, before))
                if follower.at_end:
                    self._at_end[name] = asked_at
            except StreamGoneError:
                return
            except (TimeoutError, NatsError, sqlite3.Error) as error:
                log.warning(
                    "values of %s at %s wait: %s: %s", stream.name, self._site, type(error).__name__, error
                )
                follower = None  # It begins again behind what is stored.
                await asyncio.sleep(STREAMS_S)
            else:
                await asyncio.sleep(LOOK_S if follower.at_end else 0)

    def _take(self, name: str, messages: Sequence[StoredMessage], reads: Reads, before: int) -> None:
        values = [value for each in messages for value in reads(each.body, _stored_at(each))]
        has_gap = messages[0].serial > before + 1
        after_gap = {name: _stored_at(messages[0])} if has_gap else None
        self._store.add(values, {name: messages[-1].serial}, after_gap)


async def keep_own(connection: Client, site: str, results: Sequence[str], intake: Intake) -> None:
    """Let an intake follow the present streams of its site, until cancelled. Failures do not end it."""
    try:
        while True:
            try:
                await intake.follow(value_streams(await stream_views(connection, site), results))
            except (TimeoutError, NatsError) as error:
                log.warning("the streams of %s are not known: %s", site, error)
            await asyncio.sleep(STREAMS_S)
    finally:
        await intake.stop()


def _stored_at(message: StoredMessage) -> float:
    return datetime.fromisoformat(message.headers[STORED_AT_HEADER]).timestamp()
