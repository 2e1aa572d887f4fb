"""Speed of one process with many events, without a mesh: encode departures, judge results."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from benchmark import Benchmark, Say, Scale
from figures import Case, Measured, Target
from measured_mesh import MeasuredMesh

from towpath.checker.identity import identity_of
from towpath.checker.judging import judge
from towpath.checker.observation import observe
from towpath.checker.verdict import Leniency
from towpath.lab.workload.departures import departures

COUNT = 100_000
CARRIERS = 100
T0 = datetime(2013, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)

RATE, CPU = "events/CPU s", "CPU s"
ENCODED, JUDGED = Target(at_least=50_000), Target(at_least=16_000)
"""100,000 departures encoded in 2 s of processor time, and as many results judged in 6 s."""


async def measure(mesh: MeasuredMesh | None, scale: Scale, say: Say, measured: Measured) -> None:
    """Measure processor time, which hardly depends on other work of the machine."""
    count = COUNT // 10 if scale is Scale.QUICK else COUNT
    measured.notes.append(f"{count:,} events in one process; reading the data set is not counted")
    say("departures")
    departures(limit=1)
    begun = time.process_time()
    departures(limit=count)
    measured.cases.append(_case("departures encoded", count, time.process_time() - begun, ENCODED))
    say("results")
    bodies = [_result(number) for number in range(count)]
    expected = {identity_of(body): body["values"] for body in bodies}
    seen = [observe(json.dumps(body).encode(), identity_of, received_at=T0.timestamp()) for body in bodies]
    begun = time.process_time()
    verdict = judge(expected, seen, Leniency(late_after_s=1.0))
    took_s = time.process_time() - begun
    measured.cases.append(_case("results judged", count, took_s, JUDGED, faults=0 if verdict.clean else 1))


def _case(name: str, count: int, took_s: float, target: Target, faults: int = 0) -> Case:
    figures = {RATE: round(count / max(took_s, 1e-9)), CPU: round(took_s, 2)}
    return Case(name, figures, {RATE: target}, faults=faults)


def _result(number: int) -> dict[str, Any]:
    """A result of a windowed job, as it is published."""
    hour, carrier = divmod(number, CARRIERS)
    start = T0 + hour * HOUR
    return {
        "job": "hourly",
        "site": "jfk",
        "epoch": 1,
        "serial": number,
        "input": "jfk/site/departures",
        "stored_at": "2026-01-01T00:00:00Z",
        "window": {"start": start.isoformat(), "end": (start + HOUR).isoformat()},
        "key": {"carrier": f"{carrier}"},
        "count": 3,
        "values": {"departures": 3, "mean_delay": 0.1 * hour},
    }


BENCHMARK = Benchmark("judging", "Departures encoded and results judged in one process", (), measure)
