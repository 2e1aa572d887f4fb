"""Find loss, repetition and wrong results: compare the contents of streams as numpy arrays."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass

import numpy as np
import reports
from measured_mesh import MeasuredMesh
from natsrpy.js import JetStreamMessage

from towpath.contracts.data_plane import IN_STREAM, output_stream
from towpath.contracts.job import JobSpec

_HEAD = re.compile(rb'"serial":(\d+),(?:"input":"[^"]*",)?"stored_at":"([^"]+?)Z?"')


@dataclass(frozen=True)
class Passed:
    """Results for a range of serial numbers of a job that passes every event on."""

    expected: int
    lost: int
    duplicated: int
    latencies_s: np.ndarray
    """Latency of each result: time stored in OUT less time stored in IN, both by the server's clock."""

    def percentile(self, percent: float) -> float | None:
        """A percentile of the latencies, seconds."""
        return float(np.percentile(self.latencies_s, percent)) if len(self.latencies_s) else None


@dataclass(frozen=True)
class Windows:
    """Results of a windowed count for a range of serial numbers."""

    expected: int
    """Windows, each with its key."""
    events: int
    """Events in those windows."""
    counted: int
    """Events that the results count together."""
    lost: int
    duplicated: int
    wrong: int
    """Results with another count, or of an unexpected window."""

    @property
    def faults(self) -> int:
        """Number of lost, repeated and wrong results."""
        return self.lost + self.duplicated + self.wrong


def serials_and_latencies(page: list[JetStreamMessage]) -> tuple[np.ndarray, np.ndarray]:
    """Serial number and latency (seconds) of each result of a page."""
    heads = [_HEAD.search(message.payload) for message in page]
    if not all(heads):
        raise ValueError("a result without serial number: the format has changed")
    serials = np.array([int(head[1]) for head in heads if head], np.int64)
    stored = np.array([head[2].decode() for head in heads if head], "datetime64[us]")
    return serials, (_published(page) - stored) / np.timedelta64(1, "s")


def judge_passed(serials: np.ndarray, latencies_s: np.ndarray, after: int, through: int) -> Passed:
    """Check that every serial number in `after < serial ≤ through` is there exactly once."""
    unique = np.unique(serials)
    inside = unique[(unique > after) & (unique <= through)]
    expected = through - after
    # A serial number outside of the range is as unexpected as a repetition.
    return Passed(expected, expected - len(inside), len(serials) - len(inside), latencies_s)


async def passed(
    mesh: MeasuredMesh, spec: JobSpec, after: int, through: int, *, measured_after: int
) -> Passed:
    """Return the verdict on a job that passes events on, from its output.

    Latencies are those of serial numbers beyond `measured_after`.
    """
    count, last = await mesh.stored(spec.output_site, output_stream(spec.name))
    pages = await mesh.read(
        spec.output_site, output_stream(spec.name), last - count, last, serials_and_latencies
    )
    serials = np.concatenate([page[0] for page in pages]) if pages else np.array([], np.int64)
    latencies = np.concatenate([page[1] for page in pages]) if pages else np.array([])
    return judge_passed(serials, latencies[serials > measured_after], after, through)


Counts = dict[tuple[int, str], int]
"""(start of the window in microseconds since 1970, sensor) → events."""


async def window_truth(
    mesh: MeasuredMesh, site: str, after: int, through: int, size_s: float, *, by_own_time: bool
) -> Counts:
    """Return the windows that a range of events fills and its last event closes.

    Events belong to windows by their time of storage, or by the time that they carry.
    """

    def take(page: list[JetStreamMessage]) -> tuple[np.ndarray, np.ndarray]:
        payloads = [message.payload for message in page]
        times = reports.times_of(payloads) if by_own_time else _published(page)
        return times.astype(np.int64), reports.sensors_of(payloads)

    pages = await mesh.read(site, IN_STREAM, after, through, take)
    times = np.concatenate([page[0] for page in pages])
    sensors = np.concatenate([page[1] for page in pages])
    return counts_of(times, sensors, size_s)


def counts_of(times_us: np.ndarray, sensors: np.ndarray, size_s: float) -> Counts:
    """Events per closed window and sensor; the newest time closes windows that end at or before it."""
    size_us = int(size_s * 1_000_000)
    starts = times_us // size_us * size_us
    closed = starts + size_us <= times_us.max(initial=0)
    pairs, counts = np.unique(np.stack([starts[closed], sensors[closed]]), axis=1, return_counts=True)
    return {
        (int(start), f"s{sensor:05d}"): int(n) for (start, sensor), n in zip(pairs.T, counts, strict=True)
    }


def judge_windows(truth: Counts, results: list[tuple[tuple[int, str], int]]) -> Windows:
    """Check that every closed window is there exactly once, with its count."""
    times = Counter(identity for identity, _ in results)
    return Windows(
        expected=len(truth),
        events=sum(truth.values()),
        counted=sum(count for _, count in results),
        lost=len(truth.keys() - times.keys()),
        duplicated=sum(n - 1 for n in times.values()),
        wrong=sum(truth.get(identity) != count for identity, count in results),
    )


async def window_results(mesh: MeasuredMesh, spec: JobSpec) -> list[tuple[tuple[int, str], int]]:
    """All results of a windowed job: identity and count."""

    def take(page: list[JetStreamMessage]) -> list[tuple[tuple[int, str], int]]:
        bodies = [json.loads(message.payload) for message in page]
        starts = np.array([body["window"]["start"].rstrip("Z") for body in bodies], "datetime64[us]")
        return [
            ((int(start), body["key"]["sensor"]), body["count"])
            for start, body in zip(starts.astype(np.int64), bodies, strict=True)
        ]

    stream = output_stream(spec.name)
    count, last = await mesh.stored(spec.output_site, stream)
    pages = await mesh.read(spec.output_site, stream, last - count, last, take)
    return [result for page in pages for result in page]


def _published(page: list[JetStreamMessage]) -> np.ndarray:
    return (
        np.array([message.published.timestamp() * 1e6 for message in page]).round().astype("datetime64[us]")
    )
