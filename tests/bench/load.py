"""Load generator: QoS 1 reports over raw sockets, one process, counted by their acknowledgements.

Runs as a child: reads one line of JSON (`LoadSpec`) from stdin, sends until its number or time is reached
or stdin ends, waits for the last acknowledgement, and writes a `LoadReport` as JSON to stdout.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import socket
import ssl
import sys
import time
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta

import mqtt_packets
import numpy as np
import reports

BLOCK = 500
"""Largest number of packets made and sent at a time."""

TICK_S = 0.01
"""Interval between checks of the schedule of a paced load. Shorter ones take cores from what is measured."""

SILENCE_S = 30.0
"""Time without any acknowledgement after which the broker is taken for dead."""

_STDIN = 0

NOT_NOW = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


@dataclass(frozen=True)
class LoadSpec:
    """The events to send, and their rate."""

    host: str
    port: int
    user: str
    password: str
    client_id: str
    ca_file: str | None = None
    """Certificate of the broker's authority, if it encrypts."""
    events: int | None = None
    """Number of events; None: until told to stop."""
    seconds: float | None = None
    rate: float | None = None
    """Events per second; None: as fast as the broker acknowledges."""
    connections: int = 1
    in_flight: int = 1000
    """Unacknowledged events per connection."""
    sensors: int = 100
    size: int = reports.SIZE
    random: bool = False
    """True if tokens are random."""
    first: int = 0
    """Number of the first event."""
    ahead_s: float = 0.0
    """Seconds by which the reports' own time lies in the future."""


@dataclass
class LoadReport:
    """Counts and times of a load that was sent."""

    sent: int = 0
    acknowledged: int = 0
    seconds: float = 0.0
    """From the first event to the last acknowledgement."""
    behind_s: float = 0.0
    """Largest delay of a paced load behind its schedule."""
    cpu_s: float = 0.0
    """CPU seconds of the generator itself."""
    began_at: float = 0.0
    """Unix seconds."""
    error: str | None = None

    @property
    def rate(self) -> float:
        """Acknowledged events per second."""
        return self.acknowledged / self.seconds if self.seconds else 0.0


@dataclass
class _Connection:
    socket: socket.socket
    packet_id: int = 0
    unacknowledged: int = 0
    waiting: memoryview = field(default_factory=lambda: memoryview(b""))
    """Encoded bytes that the socket has not taken yet."""
    received: int = 0
    """Bytes of acknowledgements."""

    def flush(self) -> None:
        while self.waiting:
            try:
                self.waiting = self.waiting[self.socket.send(self.waiting) :]
            except NOT_NOW:
                return

    def acknowledgements(self) -> int:
        """Number of acknowledgements. They are 4 bytes each, and nothing else arrives."""
        data = b""
        with contextlib.suppress(*NOT_NOW):
            while more := self.socket.recv(1 << 18):
                data += more
                if not isinstance(self.socket, ssl.SSLSocket):
                    break  # Only what is decrypted already makes no socket readable.
            if not more:
                raise ConnectionResetError("the broker closed the connection")
        begins = -self.received % 4
        starts = data[begins::4]
        if starts.count(mqtt_packets.PUBACK) != len(starts):
            raise ConnectionError("the broker sent something else than acknowledgements")
        before = self.received // 4
        self.received += len(data)
        count = self.received // 4 - before
        self.unacknowledged -= count
        return count


class Generator:
    """Sends the events of a spec."""

    def __init__(self, spec: LoadSpec) -> None:
        self.spec = spec
        self.report = LoadReport()
        packet = mqtt_packets.publish(reports.TOPIC, reports.template(spec.size))
        self._block = np.tile(np.frombuffer(packet, np.uint8), (BLOCK, 1))
        self._payload = len(packet) - spec.size
        self._random = np.random.default_rng(spec.first)
        self._stopped = False
        self._connections = [self._connection(index) for index in range(spec.connections)]

    def _connection(self, index: int) -> _Connection:
        spec = self.spec
        name = f"{spec.client_id}-{index}"
        login = (spec.host, spec.port, spec.user, spec.password, name, spec.ca_file)
        connected = mqtt_packets.connect(*login)
        connected.setblocking(False)
        return _Connection(connected)

    def run(self) -> LoadReport:
        """Send everything. Return when the last event is acknowledged. Raises `OSError`."""
        begun = heard = time.monotonic()
        self.report.began_at = time.time()
        while True:
            now = time.monotonic()
            due = self._due(now - begun)
            if due > 0:
                self._make(due)
            elif self._ended(now - begun) and self.report.acknowledged == self.report.sent:
                break
            if self._exchange(now - begun):
                heard = time.monotonic()
            elif now - heard > SILENCE_S and self.report.sent > self.report.acknowledged:
                raise TimeoutError(f"no acknowledgement for {SILENCE_S:.0f} s")
        self.report.seconds = heard - begun
        for connection in self._connections:
            connection.socket.setblocking(True)
            connection.socket.sendall(mqtt_packets.DISCONNECT)
            connection.socket.close()
        return self.report

    def _ended(self, elapsed: float) -> bool:
        spec = self.spec
        by_number = spec.events is not None and self.report.sent >= spec.events
        return self._stopped or by_number or (spec.seconds is not None and elapsed >= spec.seconds)

    def _due(self, elapsed: float) -> int:
        """Return the number of events to send now."""
        spec = self.spec
        if self._ended(elapsed) and (spec.rate is None or self._stopped or spec.seconds is None):
            return 0
        due = sys.maxsize
        if spec.rate is not None:
            within = elapsed if spec.seconds is None else min(elapsed, spec.seconds)
            due = int(within * spec.rate) - self.report.sent
            self.report.behind_s = max(self.report.behind_s, due / spec.rate)
        return due if spec.events is None else min(due, spec.events - self.report.sent)

    def _make(self, due: int) -> None:
        for connection in self._connections:
            room = self.spec.in_flight - connection.unacknowledged
            # Small blocks cost as much as large ones: unpaced, wait until half a block fits.
            if connection.waiting or room < (BLOCK // 2 if due > BLOCK else 1):
                continue
            count = min(BLOCK, room, -(-due // len(self._connections)), due)
            if count <= 0:
                return
            connection.waiting = memoryview(self._encoded(connection, count))
            connection.unacknowledged += count
            self.report.sent += count
            due -= count

    def _encoded(self, connection: _Connection, count: int) -> bytes:
        rows = self._block[:count]
        numbers = np.arange(count, dtype=np.int64) + self.spec.first + self.report.sent
        ids = (connection.packet_id + np.arange(count)) % 65_000 + 1
        connection.packet_id += count
        rows[:, self._payload - 2] = ids >> 8
        rows[:, self._payload - 1] = ids & 0xFF
        payloads = rows[:, self._payload :]
        at = datetime.now(UTC) + timedelta(seconds=self.spec.ahead_s)
        reports.patch(payloads, numbers, numbers % self.spec.sensors, at)
        if self.spec.random:
            reports.patch_token(payloads, self._random)
        return rows.tobytes()

    def _exchange(self, elapsed: float) -> int:
        """Write and read as much as possible. Return the number of acknowledgements that arrived."""
        for connection in self._connections:
            connection.flush()
        by_socket = {c.socket.fileno(): c for c in self._connections}
        reading: list[int] = [*by_socket, *([] if self._stopped else [_STDIN])]
        writing = [number for number, c in by_socket.items() if c.waiting]
        paced = self.spec.rate is not None and not self._ended(elapsed)
        readable, _, _ = select.select(reading, writing, [], TICK_S if paced else 0.5)
        if _STDIN in readable and not self._stopped:
            self._stopped = not os.read(_STDIN, 1024)
        count = sum(by_socket[number].acknowledgements() for number in readable if number in by_socket)
        self.report.acknowledged += count
        if paced and not writing and count < BLOCK:
            time.sleep(TICK_S / 2)  # Gather a block; answering each acknowledgement at once burns a core.
        return count


def _first_line() -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(_STDIN, 1)
        if not byte:
            break
        line += byte
    return line


def main() -> int:
    """Entry point of the child."""
    report = LoadReport()
    try:
        generator = Generator(LoadSpec(**json.loads(_first_line())))
        report = generator.report
        generator.run()
    except OSError as error:
        report.error = f"{type(error).__name__}: {error}"
    used = resource.getrusage(resource.RUSAGE_SELF)
    report.cpu_s = used.ru_utime + used.ru_stime
    print(json.dumps(asdict(report)), flush=True)
    return 1 if report.error else 0


if __name__ == "__main__":
    sys.exit(main())
