"""An MQTT QoS 1 subscriber that costs as little as Python allows: raw socket, acknowledgements in bulk.

Runs as a child: reads one line of JSON from stdin (host, port, user, password, client_id, topic; with `keep`
the path of a file that in the end takes every result), writes `ready`, then counts results until a second
line tells how many to expect and they have come, or nothing comes any more; then writes what it saw as JSON.
"""

from __future__ import annotations

import json
import os
import re
import select
import socket
import sys
import time
from pathlib import Path
from typing import Any

import mqtt_packets
import numpy as np

SILENCE_S = 10.0
"""Silence after the second line that means that nothing more arrives."""

SURPLUS_S = 1.0
"""Time limit for repetitions after everything has arrived."""

_STDIN = 0
_HEAD = re.compile(rb'"serial":(\d+),(?:"input":"[^"]*",)?"stored_at":"([^"]+?)Z?"')


class Subscriber:
    """Receives results and notes serial number and latency of each."""

    def __init__(self, connection: socket.socket, keep: Path | None = None) -> None:
        self._connection = connection
        self._buffer = b""
        self.serials: list[int] = []
        self._keep = keep
        self._payloads: list[bytes] = []
        self._stored: list[str] = []
        self._received: list[float] = []
        self._marked = 0
        """Number of copies that the broker itself marks as repeated."""

    def receive(self) -> None:
        """Read the waiting results and acknowledge them."""
        data = self._connection.recv(1 << 18)
        if not data:
            raise ConnectionResetError("the broker closed the connection")
        now = time.time()
        buffer = self._buffer + data
        found, rest = mqtt_packets.packets(buffer)
        self._buffer = buffer[rest:]
        identifiers = [self._publication(buffer, *packet, now) for packet in found]
        if identifiers:
            self._connection.sendall(mqtt_packets.puback(identifiers))

    def _publication(self, buffer: bytes, kind: int, start: int, end: int, now: float) -> bytes:
        if kind & 0xF6 != 0x32:
            raise ConnectionError(f"the broker sent a packet of kind {kind:#x}")
        topic = int.from_bytes(buffer[start : start + 2], "big")
        payload = start + 2 + topic + 2
        head = _HEAD.search(buffer, payload, end)
        if head is None:
            raise ConnectionError("a result without serial number")
        self._marked += bool(kind & 0x08)
        self.serials.append(int(head[1]))
        self._stored.append(head[2].decode())
        self._received.append(now)
        if self._keep is not None:
            self._payloads.append(buffer[payload:end])
        return buffer[payload - 2 : payload]

    def write(self) -> None:
        """Write all results to the `keep` file, each after its time of arrival (Unix seconds)."""
        if self._keep is None:
            return
        with self._keep.open("wb") as file:
            for at, payload in zip(self._received, self._payloads, strict=True):
                file.write(b"%.6f %s\n" % (at, payload))

    def report(self) -> dict[str, Any]:
        """Return counts and latencies of the results that arrived."""
        received = np.array(self._received)
        stored = np.array(self._stored, "datetime64[us]").astype(np.int64) / 1e6
        latencies = np.percentile(received - stored, (50, 90, 99)).tolist() if len(received) else None
        return {
            "received": len(self.serials),
            "different": len(set(self.serials)),
            "marked": self._marked,
            "latencies_s": latencies,
        }


def main() -> int:
    """Entry point of the child."""
    settings = json.loads(sys.stdin.readline())
    topic, keep = settings.pop("topic"), settings.pop("keep", None)
    connection = mqtt_packets.connect(**settings)
    mqtt_packets.subscribe(connection, topic)
    print("ready", flush=True)
    subscriber = Subscriber(connection, None if keep is None else Path(keep))
    expected: int | None = None
    told = heard = 0.0
    while True:
        now = time.monotonic()
        if expected is not None:
            complete = len(subscriber.serials) >= expected
            if now - max(heard, told) > (SURPLUS_S if complete else SILENCE_S):
                break
        watched = [connection.fileno(), *([] if expected is not None else [_STDIN])]
        readable, _, _ = select.select(watched, [], [], 0.2)
        if connection.fileno() in readable:
            subscriber.receive()
            heard = time.monotonic()
        if _STDIN in readable:
            line = os.read(_STDIN, 1024)
            expected, told = int(line or b"0"), time.monotonic()
    subscriber.write()
    print(json.dumps(subscriber.report()), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
