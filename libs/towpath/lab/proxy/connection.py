"""One connection through a link: two sockets, and what passes between them."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
from asyncio import StreamReader, StreamWriter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from towpath.contracts.links import OneWay
from towpath.lab.proxy.delay_line import DelayLine
from towpath.lab.proxy.transmitter import Transmitter
from towpath.lab.proxy.weather import Weather

PIECE_BYTES = 64 * 1024
"""Most that is read at once."""

CONNECT_DEADLINE_S = 5.0
"""For a far end to take a connection."""

Address = tuple[str, int]
"""Host and port."""

NO_LINGER = struct.pack("ii", 1, 0)
"""Option of a socket: drop what is under way and send RST when it is closed."""


@dataclass
class Direction:
    """One direction of a link: what its bandwidth makes of it, and what passed."""

    transmitter: Transmitter
    passed: int = 0
    """Bytes."""


TO_HUB = frozenset({OneWay.TO_HUB})
TO_SITE = frozenset({OneWay.TO_SITE})
FROM_REDIS = TO_SITE | {OneWay.FROM_REDIS}


class ProxiedConnection:
    """A connection that a site opened, carried on to the far end."""

    def __init__(self, weather: Weather, near: tuple[StreamReader, StreamWriter]) -> None:
        self._weather = weather
        self._near = near
        self._writers = [near[1]]

    async def run(
        self, far: Sequence[Address], out: Direction, back: Direction, ways_back: Collection[OneWay] = TO_SITE
    ) -> None:
        """Carry everything until both ends have closed, or one broke. Closes both ends. The far end is one of
        `far` that answers. `ways_back` are those on which what comes back is."""
        reader, writer = self._near
        try:
            if self._weather.now.cut:
                return await self._lead_nowhere(reader)
            far_reader, far_writer = await _opened(far)
            self._writers.append(far_writer)
            async with asyncio.TaskGroup() as both:
                both.create_task(self.carry(reader, far_writer, out, TO_HUB))
                both.create_task(self.carry(far_reader, writer, back, ways_back))
        except* (OSError, TimeoutError):
            # The end that is left sees a broken connection, as without a proxy.
            pass
        finally:
            self.abort()

    async def carry(
        self, source: StreamReader, sink: StreamWriter, direction: Direction, ways: Collection[OneWay] = ()
    ) -> None:
        """Carry what comes from one end to the other until that end closes."""
        line = DelayLine(self._weather, ways=ways)
        async with asyncio.TaskGroup() as both:
            both.create_task(self._send(source, line, direction, ways))
            both.create_task(self._deliver(line, sink, direction, ways))

    def abort(self) -> None:
        """Close both ends at once; what is under way is lost."""
        for writer in self._writers:
            writer.transport.abort()

    def reset(self) -> None:
        """Close both ends so that each learns of it as of an error (RST), and not as of an end."""
        for writer in self._writers:
            with contextlib.suppress(OSError):
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
        self.abort()

    async def _lead_nowhere(self, reader: StreamReader) -> None:
        """Keep a connection that was made over a cut link until its maker gives up."""
        while await reader.read(PIECE_BYTES):
            pass

    async def _send(
        self, source: StreamReader, line: DelayLine, direction: Direction, ways: Collection[OneWay]
    ) -> None:
        """Read no faster than the link takes it: so the sender feels how slow the link is."""
        while True:
            await self._weather.passable(ways)
            await direction.transmitter.ready()
            data = await source.read(direction.transmitter.largest_piece(PIECE_BYTES))
            await line.put(data, direction.transmitter.send(len(data)))
            if not data:
                return

    async def _deliver(
        self, line: DelayLine, sink: StreamWriter, direction: Direction, ways: Collection[OneWay]
    ) -> None:
        # Everything is handed to the system before more is taken: what the proxy itself holds back
        # stays under the conditions of the link.
        sink.transport.set_write_buffer_limits(high=0)
        while data := await line.get():
            await self._deliver_sliced(memoryview(data), sink, direction, ways)
        if sink.can_write_eof():
            sink.write_eof()

    async def _deliver_sliced(
        self, data: memoryview, sink: StreamWriter, direction: Direction, ways: Collection[OneWay]
    ) -> None:
        while data:
            size = self._weather.now.slice_bytes or len(data)
            sink.write(data[:size])
            direction.passed += len(data[:size])
            await sink.drain()
            data = data[size:]
            await self._weather.between_slices()
            await self._weather.passable(ways)


async def _opened(far: Sequence[Address]) -> tuple[StreamReader, StreamWriter]:
    """Connect to one that answers. Raises `OSError` if none does.

    The order is random: one that takes connections, and does no more, must not get them all.
    """
    error = OSError("there is no far end")
    for address in random.sample(far, len(far)):
        try:
            async with asyncio.timeout(CONNECT_DEADLINE_S):
                return await asyncio.open_connection(*address, limit=PIECE_BYTES)
        except OSError as refused:
            error = refused
    raise error
