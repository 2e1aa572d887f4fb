"""Cost per event of a point of the data path: without rules, with idle rules, with rules that act.

`python tests/bench/fault_overhead.py` prints a table. All cases are interleaved, so that a change of the
machine's speed falls on all of them.
"""

from __future__ import annotations

import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from towpath.contracts.faults import LoadedRule, Rule
from towpath.contracts.message import now
from towpath.hooks.points import Point
from towpath.lab.faults.point_rule import PointRule
from towpath.lab.faults.reports import Reports
from towpath.lab.faults.rule_at_work import ProcessContext
from towpath.streams import event_reader, source
from towpath.streams.passing import EVENTS, ChangedMessage

EVENTS_A_BUNDLE = 1_000
BUNDLES = 20
ROUNDS = 20

NEVER: tuple[dict[str, Any], ...] = (
    {"every": 1_000_000_000},
    {"probability": 0},
    {"condition": 'topic == "nowhere"'},
    {"condition": "serial == 0"},
    {"condition": 'payload.startsWith("t_p")'},
    {"condition": 'event.carrier == "none"'},
)
"""Rules that never act."""


def bundle(first: int) -> list[ChangedMessage]:
    """Departures, of about 150 bytes."""
    stored_at = now()
    return [
        ChangedMessage(
            n,
            "site.departures.jfk",
            stored_at,
            json.dumps(
                {"carrier": "AA", "flight": n, "delay": n % 60, "note": "x" * 60, "departed_at": "2026-01-01"}
            ).encode(),
        )
        for n in range(first, first + EVENTS_A_BUNDLE)
    ]


class _Log:
    """A stand-in for a stream: the same bundles again and again, from memory."""

    def __init__(self) -> None:
        self.bundles = [bundle(1 + k * EVENTS_A_BUNDLE) for k in range(BUNDLES)]

    def read(self, stream: str, after: int, through: int) -> Iterator[list[ChangedMessage]]:
        yield from self.bundles


def rule(fault: str = "drop", **when: Any) -> PointRule:
    """A rule at `source.read`."""
    parameters = {"ms": 0} if fault == "delay" else {}
    action = {"fault": fault, "parameters": parameters}
    loaded = LoadedRule(
        rule=Rule.model_validate(
            {"name": "rule", "event": {"point": "source.read"}, "actions": [action], **when}
        ),
        version=1,
        loaded_at=now(),
    )
    reports = Reports(Path(tempfile.gettempdir()) / "no-reports.jsonl")
    active = PointRule(loaded, ProcessContext("jfk", "jfk-engine"), reports)
    active.expires_at = time.time() + 3600
    return active


def cases() -> dict[str, tuple[PointRule, ...]]:
    """Name → the rules at the point."""
    return {
        "no rule": (),
        **{f"never: {each}": (rule(**each),) for each in NEVER},
        "every 1000, delay of 0 ms": (rule("delay", every=1000),),
        "every 2, drop": (rule(every=2),),
    }


def point_ns(rules: dict[str, tuple[PointRule, ...]]) -> dict[str, float]:
    """Nanoseconds of CPU per event at the point alone, median over rounds."""
    items: Any = bundle(1)
    points = {name: Point("source.read") for name in rules}
    for name, point in points.items():
        point.rules = rules[name]

    def once(point: Point) -> None:
        for _ in range(BUNDLES):
            if point.rules:
                point.through(items, EVENTS, job="delays")

    timings = {name: _timed(lambda point=point: once(point)) for name, point in points.items()}
    return _interleaved(timings)


def reading_ns(rules: dict[str, tuple[PointRule, ...]]) -> dict[str, float]:
    """Nanoseconds of CPU per event of a task's reading, from messages in memory to Arrow batches."""
    log = _Log()
    event_reader.reader_for = lambda access: log  # type: ignore[assignment]
    options = {"url": "", "credentials_file": "", "stream": "IN", "job": "delays"}
    reader = source.StreamReader(options)
    part = event_reader.SerialRange(0, BUNDLES * EVENTS_A_BUNDLE)

    def once(active: tuple[PointRule, ...]) -> None:
        source.SOURCE_READ.rules = active
        batches: list[pa.RecordBatch] = list(reader.read(part))
        source.SOURCE_READ.rules = ()
        assert batches

    timings = {name: _timed(lambda active=active: once(active)) for name, active in rules.items()}
    return _interleaved(timings)


def _timed(work: Callable[[], None]) -> Callable[[], float]:
    def measure() -> float:
        # CPU time, because other processes on the machine must not count.
        begun = time.thread_time_ns()
        work()
        return (time.thread_time_ns() - begun) / (BUNDLES * EVENTS_A_BUNDLE)

    return measure


def _interleaved(timings: dict[str, Callable[[], float]]) -> dict[str, float]:
    found: dict[str, list[float]] = {name: [] for name in timings}
    order, chance = list(timings), random.Random(0)
    for _ in range(ROUNDS):
        chance.shuffle(order)  # So that a case's caches and heap do not always slow the same next case.
        for name in order:
            found[name].append(timings[name]())
    return {name: statistics.median(values) for name, values in found.items()}


def main() -> None:
    """Measure and print."""
    at_point, reading = point_ns(cases()), reading_ns(cases())
    base = reading["no rule"]
    print(f"bundles of {EVENTS_A_BUNDLE} events, medians of {ROUNDS} interleaved rounds")
    print(f"{'rule':36} {'point, ns/event':>16} {'reading, ns/event':>18} {'slower':>8}")
    for name, cost in at_point.items():
        print(f"{name:36} {cost:16.2f} {reading[name]:18.1f} {reading[name] / base - 1:8.1%}")


if __name__ == "__main__":
    main()
