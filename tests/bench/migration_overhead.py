"""Cost of `parallel` while results are diverted through the monitor: thesis, Table 6.9."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from benchmark import CLOUD, EDGE, Say, Scale
from figures import Case, Measured, Value, rounded
from measured_mesh import LOOK_S, MeasuredMesh, NotInTime
from migration_arrivals import Interval
from migration_course import Course, Runner, Wish
from migration_measures import completeness, raw
from migration_usage import cpu_s, server_bytes
from migration_workload import ProcessingTimeWindows

from towpath.contracts.commands import ConsistencyCheck, StrategyName
from towpath.contracts.data_plane import api_prefix
from towpath.contracts.errors import TowpathError

RATES = {Scale.QUICK: (), Scale.DEFAULT: (100, 1_000), Scale.FULL: (100, 200, 400, 600, 800, 1_000)}
SIZE_S = 15.0
FACTOR = 10
LOOK_EVERY_S = 0.5

Stream = tuple[str, str, str]
"""Site, name, time of creation."""
Extent = tuple[int, int]
"""The serial number before its first message, and that of its last one."""


@dataclass
class StoredMessages:
    """Number of messages in the streams of all sites over time."""

    times: list[float] = field(default_factory=list)
    totals: list[int] = field(default_factory=list)
    _last: dict[Stream, int] = field(default_factory=dict)
    _first: dict[Stream, int] = field(default_factory=dict)

    def take(self, at: float, found: Mapping[Stream, Extent]) -> None:
        """Record the extents of streams. A stream that is gone keeps its count."""
        for stream, (begun, last) in found.items():
            # Messages at the first look are old; messages in streams made later are new.
            self._first.setdefault(stream, begun if self.times else last)
            self._last[stream] = last
        self.times.append(at)
        self.totals.append(sum(last - self._first[stream] for stream, last in self._last.items()))

    def per_s(self, interval: Interval) -> float | None:
        """Return messages per second within an interval; None unless it was observed."""
        begin, end = interval
        if not self.times or end <= begin or self.times[0] > begin:
            return None
        counted = np.interp([begin, end], self.times, self.totals)
        return float((counted[1] - counted[0]) / (end - begin))

    async def follow(self, mesh: MeasuredMesh) -> None:
        """Record extents again and again, until cancelled."""
        while True:
            found: dict[Stream, Extent] = {}
            for site in (EDGE.name, CLOUD.name):
                found |= await _streams(mesh, site)
            self.take(time.time(), found)
            await asyncio.sleep(LOOK_EVERY_S)


async def _streams(mesh: MeasuredMesh, site: str) -> dict[Stream, Extent]:
    subject = f"{api_prefix(site)}.STREAM.LIST"
    answer = await mesh.bus.connection.request(subject, b"", timeout=LOOK_S)
    found: dict[Stream, Extent] = {}
    for stream in json.loads(answer.data).get("streams") or []:
        config, state = stream["config"], stream["state"]
        mirrors = "mirror" in config
        if mirrors and state["messages"] == 0:
            continue  # An empty mirror does not know yet at which serial number it will begin.
        begun = state["first_seq"] - 1 if mirrors else 0
        found[site, config["name"], stream["created"]] = begun, state["last_seq"]
    return found


async def measure_overhead(mesh: MeasuredMesh, scale: Scale, say: Say, measured: Measured) -> list[str]:
    """Add a case per rate. Return the failures."""
    failures: list[str] = []
    if RATES[scale]:
        measured.notes.append(
            f"overhead, windows of {SIZE_S:g} s, S {FACTOR}: from the divert to its removal against the "
            "seconds before; bytes: what both sites' NATS servers and the hub read and wrote, sockets and "
            "files; messages: stored in any stream of either site"
        )
    for rate in RATES[scale]:
        name = f"overhead, {rate:,}/s"
        say(name)
        stored = StoredMessages()
        follower = asyncio.create_task(stored.follow(mesh), name="stored messages")
        try:
            wishes = [Wish(StrategyName.PARALLEL, ConsistencyCheck.RESULTS, FACTOR)]
            course = await Runner(mesh, ProcessingTimeWindows(rate, SIZE_S), wishes, say).run()
        except (TowpathError, NotInTime, RuntimeError) as error:
            failures.append(f"{name}: {error}")
            continue
        finally:
            follower.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await follower
        figures = {**overhead(course, stored), **completeness(course)}
        measured.cases.append(Case(name, figures, faults=course.faults))
        measured.raw[name] = raw(course)
    return failures


def overhead(course: Course, stored: StoredMessages) -> dict[str, Value]:
    """Bytes, messages, CPU and latency while results were diverted, and before."""
    diverted = course.moves[0].between("divert", "remove-divert")
    (before,) = course.before
    figures: dict[str, Value] = {
        "diverted, s": None if diverted is None else rounded(diverted[1] - diverted[0])
    }
    for phase, interval in (("before", before), ("diverted", diverted)):
        figures |= _phase(course, stored, phase, interval)
    return figures


def _phase(course: Course, stored: StoredMessages, phase: str, interval: Interval | None) -> dict[str, Value]:
    if interval is None:
        return {}
    seconds, samples = interval[1] - interval[0], list(course.usage.values())
    intervals: Sequence[Interval] = [interval]
    return {
        f"kB/s {phase}": rounded(sum(server_bytes(s, intervals) for s in samples) / seconds / 1e3, 1),
        f"messages/s {phase}": rounded(stored.per_s(interval), 1),
        f"CPU {phase}, cores": rounded(sum(cpu_s(s, intervals) for s in samples) / seconds, 2),
        f"latency {phase}, s": rounded(course.arrivals.latency(intervals, 50)),
    }
