"""Speed of `towpath check` on files: a million events for each rule, each in a process of its own.

`python tests/bench/checker.py [EVENTS]` prints one JSON object: rule → events/s, seconds and peak memory,
beside the targets (a million events in 60 s and 4 GB).
"""

from __future__ import annotations

import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from towpath.checker.files import lines_of
from towpath.checker.records import Marks
from towpath.checker.rule import Terms
from towpath.checker.rules import NamedLines, judge_by_rule

EVENTS = 1_000_000
TARGET = {"seconds": 60, "peak_gb": 4}
DEVICES, SIZE_S, RANGE = 200, 10, 500
T0 = datetime(2026, 1, 1, tzinfo=UTC)

_KEYED = Terms(key=("device",))
_WINDOW = Terms(key=("device",), time_field="at", size_s=SIZE_S, value_field="level")
TERMS: dict[str, tuple[str, Terms]] = {
    "pass-through": ("pass-through", Terms(key=("device",), identity=("id",))),
    "pass-through of an OUT stream": ("pass-through", Terms(key=("device",), identity=("id",))),
    "filter": ("filter", Terms(identity=("id",), where="level >= 0")),
    "running-count": ("running-count", _KEYED),
    "window-count": ("window-count", _WINDOW),
    "window-average": ("window-average", _WINDOW),
    "range-sum": ("range-sum", Terms(key=("device",), value_field="level")),
}
"""Name of a measurement → the rule and its terms."""


def event(number: int, chance: random.Random) -> dict[str, Any]:
    """An event of about 130 bytes."""
    at = T0 + timedelta(milliseconds=number + chance.randrange(1000))
    return {
        "id": number,
        "at": at.isoformat(timespec="milliseconds"),
        "device": f"device-{chance.randrange(DEVICES)}",
        "level": chance.randrange(1000),
        "delay": round(chance.gauss(10, 5), 2),
    }


def results(name: str, events: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Return the results of a correct pipeline for the events."""
    if name in ("pass-through", "filter"):
        yield from events
    elif name == "pass-through of an OUT stream":
        for offset, body in enumerate(events, start=1):
            envelope = {"job": "all", "site": "jfk", "epoch": 1, "serial": offset, "stored_at": body["at"]}
            yield {"topic": "out", "offset": offset, "payload": envelope | {"count": 1, "values": body}}
    elif name == "running-count":
        counts: dict[str, int] = {}
        for body in events:
            counts[body["device"]] = counts.get(body["device"], 0) + 1
            yield {"device": body["device"], "count": counts[body["device"]]}
    elif name == "range-sum":
        yield from _ranges(events)
    else:
        yield from _windows(name.removeprefix("window-"), events)


def _windows(word: str, events: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    levels: dict[tuple[int, str], list[int]] = {}
    for body in events:
        window = int((datetime.fromisoformat(body["at"]) - T0).total_seconds() // SIZE_S)
        levels.setdefault((window, body["device"]), []).append(body["level"])
    for (window, device), held in sorted(levels.items()):
        start = (T0 + timedelta(seconds=window * SIZE_S)).isoformat()
        number = len(held) if word == "count" else sum(held) / len(held)
        yield {"window_start": start, "device": device, word: number}


def _ranges(events: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    sums: dict[str, int] = {}
    after = serial = 0
    for serial, body in enumerate(events, start=1):
        sums[body["device"]] = sums.get(body["device"], 0) + body["level"]
        if serial % RANGE == 0:
            yield from ({"after": after, "through": serial, "device": k, "sum": v} for k, v in sums.items())
            after, sums = serial, {}
    yield from ({"after": after, "through": serial, "device": k, "sum": v} for k, v in sums.items())


def write(path: Path, records: Iterator[dict[str, Any]]) -> None:
    """Write JSON lines."""
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)


def events_in(path: Path) -> Iterator[dict[str, Any]]:
    """The events of a file."""
    with path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


def judge(name: str, events: Path, output: Path) -> dict[str, Any]:
    """Judge, and return time and memory used. Raises `AssertionError` unless the verdict is clean."""
    rule, terms = TERMS[name]
    begun, used = time.perf_counter(), time.process_time()
    verdict = judge_by_rule(
        rule,
        terms,
        NamedLines(str(events), lines_of(events, "input")),
        NamedLines(str(output), lines_of(output, "output")),
        Marks(),
    )
    seconds = time.perf_counter() - begun
    count = sum(1 for _ in events.open("rb"))
    assert verdict.found() == {}, verdict
    return {
        "seconds": round(seconds, 1),
        "processor_seconds": round(time.process_time() - used, 1),
        "events_per_s": round(count / seconds),
        "results": verdict.results,
        "peak_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
    }


def main(count: int) -> None:
    """Measure every rule on `count` events."""
    measured: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as directory:
        events, output = Path(directory) / "events.jsonl", Path(directory) / "results.jsonl"
        chance = random.Random(1)
        write(events, (event(number, chance) for number in range(count)))
        for name in TERMS:
            write(output, results(name, events_in(events)))
            command = [sys.executable, __file__, name, str(events), str(output)]
            ran = subprocess.run(command, check=True, capture_output=True, text=True)
            measured[name] = json.loads(ran.stdout)
    print(json.dumps({"events": count, "target": TARGET, "measured": measured}, indent=2))


if __name__ == "__main__":
    if len(sys.argv) == 4:
        print(json.dumps(judge(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))))
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else EVENTS)
