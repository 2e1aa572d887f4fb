"""Count events per sensor and second with Bytewax: a source and a sink of paho's MQTT client."""

from __future__ import annotations

import json
from collections import deque
from datetime import UTC, datetime, timedelta
from typing import Any

import bytewax.operators as op
import bytewax.operators.windowing as win
from bytewax.dataflow import Dataflow
from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.testing import run_main
from connection import Settings, connected, settings

POLL = timedelta(milliseconds=50)
"""Time until an empty source is asked again."""

EPOCH = timedelta(seconds=10)
"""Bytewax's own default between snapshots; nothing is recovered here."""

START = datetime(2026, 1, 1, tzinfo=UTC)
"""Any whole second: windows are aligned to it."""


class _Events(StatefulSourcePartition[bytes, None]):
    def __init__(self, chosen: Settings) -> None:
        self._arrived: deque[bytes] = deque()
        self._client = connected(chosen, self._arrived.append, client_id="bytewax-in")

    def next_batch(self) -> list[bytes]:
        return [self._arrived.popleft() for _ in range(len(self._arrived))]

    def next_awake(self) -> datetime | None:
        return None if self._arrived else datetime.now(UTC) + POLL

    def snapshot(self) -> None:
        return None


class _Source(FixedPartitionedSource[bytes, None]):
    def __init__(self, chosen: Settings) -> None:
        self._chosen = chosen

    def list_parts(self) -> list[str]:
        return ["site"]

    def build_part(self, step_id: str, for_part: str, resume_state: None) -> _Events:
        return _Events(self._chosen)


class _Results(StatelessSinkPartition[bytes]):
    def __init__(self, chosen: Settings) -> None:
        self._topic = chosen.results
        self._client = connected(chosen, client_id="bytewax-out")

    def write_batch(self, items: list[bytes]) -> None:
        for item in items:
            self._client.publish(self._topic, item, qos=1)


class _Sink(DynamicSink[bytes]):
    def __init__(self, chosen: Settings) -> None:
        self._chosen = chosen

    def build(self, step_id: str, worker_index: int, worker_count: int) -> _Results:
        return _Results(self._chosen)


def _timed(payload: bytes) -> tuple[str, datetime]:
    report = json.loads(payload)
    return report["sensor"], datetime.fromisoformat(report["at"])


def _result(size: timedelta, counted: tuple[str, tuple[int, int]]) -> bytes:
    sensor, (window, count) = counted
    start = START + window * size
    body: dict[str, Any] = {"start": start.isoformat(), "sensor": sensor, "count": count}
    return json.dumps(body).encode()


def main() -> None:
    """Run until stdin ends."""
    chosen = settings()
    size = timedelta(seconds=chosen.size_s)
    flow = Dataflow("count")
    events = op.input("events", flow, _Source(chosen))
    timed = op.map("parse", events, _timed)
    counted = win.count_window(
        "window",
        timed,
        win.EventClock(
            ts_getter=lambda event: event[1],
            wait_for_system_duration=timedelta(seconds=chosen.allowed_s),
        ),
        win.TumblingWindower(length=size, align_to=START),
        key=lambda event: event[0],
    )
    results = op.map("format", counted.down, lambda closed: _result(size, closed))
    op.output("results", results, _Sink(chosen))
    run_main(flow, epoch_interval=EPOCH)


if __name__ == "__main__":
    main()
