"""A link: listening ports whose connections lead to a far end each, as well as the conditions allow."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Self

from towpath.contracts.links import LinkConditions, OneWay
from towpath.lab.proxy.connection import PIECE_BYTES, TO_SITE, Address, Direction, ProxiedConnection
from towpath.lab.proxy.transmitter import Transmitter
from towpath.lab.proxy.weather import Weather

log = logging.getLogger(__name__)

CLOSE_DEADLINE_S = 2.0
"""For a closed listener to be gone."""


@dataclass(frozen=True)
class LinkRoute:
    """One way over a link."""

    near: Address
    """Where the link listens; port 0 lets the system choose."""
    far: tuple[Address, ...]
    """Where its connections lead: each to one that answers."""
    ways_back: Collection[OneWay] = TO_SITE
    """Ways on which the answers are."""


class Link:
    """Forwards TCP connections over routes that share its bandwidth. An async context manager.

    `on_restored` is called when conditions ended by themselves, after `for_s`.
    """

    def __init__(
        self, name: str, routes: Sequence[LinkRoute], *, on_restored: Callable[[str], None] | None = None
    ) -> None:
        self.name = name
        self._routes = routes
        self._on_restored = on_restored
        self._weather = Weather()
        self._out = Direction(Transmitter(self._weather))
        self._back = Direction(Transmitter(self._weather))
        self._open: dict[asyncio.Task[None], ProxiedConnection] = {}
        self._servers: list[asyncio.Server] = []
        self._end: asyncio.TimerHandle | None = None
        self._next_reset: asyncio.TimerHandle | None = None

    @property
    def conditions(self) -> LinkConditions:
        """Those that hold now."""
        return self._weather.now

    @property
    def left_s(self) -> float | None:
        """Until the link restores itself, seconds; None when it will not."""
        return None if self._end is None else max(0.0, self._end.when() - asyncio.get_running_loop().time())

    @property
    def connections(self) -> int:
        """Number of open ones."""
        return len(self._open)

    @property
    def passed(self) -> tuple[int, int]:
        """Bytes that went to the far end, and that came back."""
        return self._out.passed, self._back.passed

    @property
    def ports(self) -> list[int]:
        """Where it listens, by route; those that the system chose, where 0 was asked for."""
        return [server.sockets[0].getsockname()[1] for server in self._servers]

    async def __aenter__(self) -> Self:
        """Begin to listen. Raises `OSError` when a port is taken."""
        try:
            for route in self._routes:
                accepted = partial(self._accepted, route)
                self._servers.append(await asyncio.start_server(accepted, *route.near, limit=PIECE_BYTES))
        except OSError:
            for server in self._servers:
                server.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop_timer()
        self._reset_at_intervals(None)
        for server in self._servers:
            server.close()
        await asyncio.gather(*self._break_all(), return_exceptions=True)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_DEADLINE_S):
                await asyncio.gather(*(server.wait_closed() for server in self._servers))

    def shape(self, conditions: LinkConditions) -> None:
        """Let `conditions` hold from now on, for open connections too, in place of those before.

        When a cut ends, the connections that lived through it break: bytes were lost to them.
        """
        self._stop_timer()
        ended = self.conditions.cut and not conditions.cut
        if ended or self.conditions.cut_only not in (None, conditions.cut_only):
            self._break_all()
        if self.conditions.reset_every_s != conditions.reset_every_s:
            # Otherwise the interval goes on: conditions that are renewed must not put the reset off.
            self._reset_at_intervals(conditions.reset_every_s)
        self._weather.change(conditions)
        if conditions.for_s is not None:
            self._end = asyncio.get_running_loop().call_later(conditions.for_s, self._expire)

    def restore(self) -> None:
        """Let everything pass again, as fast as it can."""
        self.shape(LinkConditions())

    def _expire(self) -> None:
        self.restore()
        if self._on_restored is not None:
            self._on_restored(self.name)

    def _stop_timer(self) -> None:
        if self._end is not None:
            self._end.cancel()
            self._end = None

    def _reset_at_intervals(self, every_s: float | None) -> None:
        if self._next_reset is not None:
            self._next_reset.cancel()
        loop = asyncio.get_running_loop()
        self._next_reset = None if every_s is None else loop.call_later(every_s, self._reset, every_s)

    def _reset(self, every_s: float) -> None:
        for connection in self._open.values():
            connection.reset()
        self._break_all()
        self._reset_at_intervals(every_s)

    def _accepted(self, route: LinkRoute, reader: StreamReader, writer: StreamWriter) -> None:
        connection = ProxiedConnection(self._weather, (reader, writer))
        task = asyncio.create_task(connection.run(route.far, self._out, self._back, route.ways_back))
        self._open[task] = connection
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._open[task]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("connection over link %s broke", self.name, exc_info=error)

    def _break_all(self) -> list[asyncio.Task[None]]:
        """Break every connection; the tasks end when the loop comes to them."""
        tasks = list(self._open)
        for task in tasks:
            # The sockets first: between here and its end a task may still find something to write.
            self._open[task].abort()
            task.cancel()
        return tasks
