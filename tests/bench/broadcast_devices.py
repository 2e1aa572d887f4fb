"""Devices of the benchmark of broadcasts: connections of MQTT 3.1.1 in one process, as light as they can be.

A client library in Python would take the cores that are measured. Even so, 1,000 arrivals of 1 kB cost this
process some 50 ms, which are part of the longest latency.

    python broadcast_devices.py < plan.json     plan: [[host, port, user, password, [topic, …]], …]

Of each group of broadcasts (`broadcast/<topic>/<group>-<number>`) it prints lines of JSON while they arrive:
the group, and the monotonic times of some arrivals.
"""

from __future__ import annotations

import asyncio
import json
import struct
import sys
import time
from collections import defaultdict

REPORT_EVERY_S = 0.1
AT_ONCE = 50
"""Connections that are opened at a time."""

CONNACK, PUBLISH, SUBACK = 0x20, 0x30, 0x90


def text(content: str) -> bytes:
    """Return a string of MQTT."""
    return struct.pack(">H", len(content)) + content.encode()


def packet(kind: int, body: bytes) -> bytes:
    """Return a packet."""
    length, left = b"", len(body)
    while True:
        left, seven = divmod(left, 128)
        length += bytes([seven | 128 if left else seven])
        if not left:
            return bytes([kind]) + length + body


class Device(asyncio.Protocol):
    """One subscriber with QoS 1."""

    def __init__(self, arrivals: dict[str, list[float]], name: str, login: list[str], topics: list[str]):
        self._arrivals = arrivals
        self._name, self._login, self._topics = name, login, topics
        self._buffer = bytearray()
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport) -> None:
        """Log in with a clean session."""
        self._transport = transport
        head = text("MQTT") + bytes([4, 0xC2]) + struct.pack(">H", 600)
        transport.write(packet(0x10, head + text(self._name) + text(self._login[0]) + text(self._login[1])))

    def data_received(self, data: bytes) -> None:
        """Take whole packets."""
        self._buffer += data
        while (found := self._whole()) is not None:
            kind, start, end = found
            self._take(kind, start)
            del self._buffer[:end]

    def _whole(self) -> tuple[int, int, int] | None:
        length = shift = 0
        for place in range(1, 5):
            if len(self._buffer) <= place:
                return None
            length |= (self._buffer[place] & 127) << shift
            shift += 7
            if self._buffer[place] < 128:
                end = place + 1 + length
                return (self._buffer[0], place + 1, end) if len(self._buffer) >= end else None
        raise ValueError("not MQTT")

    def _take(self, kind: int, start: int) -> None:
        if kind & 0xF0 == PUBLISH:
            (length,) = struct.unpack_from(">H", self._buffer, start)
            identity = self._buffer[start + 2 : start + 2 + length].rpartition(b"/")[2].decode()
            self._arrivals[identity.partition("-")[0]].append(time.monotonic())
            if kind & 0x06:
                number = bytes(self._buffer[start + 2 + length : start + 4 + length])
                self._transport.write(packet(0x40, number))
        elif kind == CONNACK:
            filters = b"".join(text(topic) + b"\x01" for topic in self._topics)
            self._transport.write(packet(0x82, b"\x00\x01" + filters))
        elif kind == SUBACK:
            self.ready.set_result(None)


async def run(plan: list[list]) -> None:
    """Connect all devices, say so, and print what arrives until stdin ends."""
    arrivals: defaultdict[str, list[float]] = defaultdict(list)
    room, loop = asyncio.Semaphore(AT_ONCE), asyncio.get_running_loop()

    async def connect(number: int, host: str, port: int, user: str, password: str, topics: list[str]) -> None:
        async with room:
            device = Device(arrivals, f"device-{number}", [user, password], topics)
            await loop.create_connection(lambda: device, host, port)
            await device.ready

    await asyncio.gather(*(connect(number, *each) for number, each in enumerate(plan)))
    print("ready", flush=True)
    while True:
        await asyncio.sleep(REPORT_EVERY_S)
        for group in list(arrivals):
            print(json.dumps([group, arrivals.pop(group)]), flush=True)


if __name__ == "__main__":
    asyncio.run(run(json.loads(sys.stdin.readline())))
