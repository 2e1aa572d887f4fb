"""Look at all running queries together, so that a hundred cost little more than one.

Asking the JVM about each of a hundred idle queries, several times a second, took a third of a core. So one
call waits for the end of any query. The JVM is asked for a query's progress only when its checkpoint has
changed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from towpath.engine.query import Query
from towpath.tasks import end

log = logging.getLogger(__name__)

LOOK_S = 0.25
"""Between two looks at the checkpoints, so progress is noticed this late at most."""

ANY_END_S = 1
"""Time that one call waits in the JVM for the end of any query. The engine's own end waits as long."""


@dataclass
class _Watched:
    query: Query
    something_ended: asyncio.Event = field(default_factory=asyncio.Event)


class Watch:
    """All running queries, and the two tasks that look at them."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._watched: list[_Watched] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def end_of(self, query: Query) -> str:
        """Wait until a started query has ended. Return the reason."""
        if not self._tasks:
            looks = (self._look_at_progress, self._look_for_ends)
            self._tasks = [asyncio.create_task(_repeat(look), name=look.__name__) for look in looks]
        watched = _Watched(query)
        self._watched.append(watched)
        try:
            while await asyncio.to_thread(query.is_active):
                await watched.something_ended.wait()
                watched.something_ended.clear()
        finally:
            self._watched.remove(watched)
        return await asyncio.to_thread(query.failure)

    async def close(self) -> None:
        """Stop looking."""
        tasks, self._tasks = self._tasks, []
        await end(tasks)

    async def _look_at_progress(self) -> None:
        await asyncio.sleep(LOOK_S)
        queries = [watched.query for watched in self._watched]
        await asyncio.to_thread(_take_in_progress, queries)

    async def _look_for_ends(self) -> None:
        if await asyncio.to_thread(self._any_ended):
            for watched in self._watched:
                watched.something_ended.set()

    def _any_ended(self) -> bool:
        """Wait a little. Return True if a query has ended since the last call."""
        streams = self._session.streams
        try:
            ended = streams.awaitAnyTermination(ANY_END_S)
        except StreamingQueryException:
            ended = True
        if ended:
            # Before anyone looks for the query that ended, so that a later end is reported again.
            streams.resetTerminated()
        return bool(ended)


def _take_in_progress(queries: list[Query]) -> None:
    for query in queries:
        try:
            query.take_in_progress()
        except Exception as error:
            log.warning("progress of %s: %s", query.assignment.spec.name, error)


async def _repeat(look: Callable[[], Awaitable[None]]) -> None:
    """Repeat until cancelled. A look that fails is logged, and the next one may succeed."""
    while True:
        try:
            await look()
        except Exception as error:
            log.warning("%s: %s: %s", look, type(error).__name__, error)
            await asyncio.sleep(LOOK_S)
