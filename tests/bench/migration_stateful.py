"""Jobs with any amount of state that still have results every second; here a windowed one.

Windows stay open for the watermark's delay. Three loads use that, all by the time that events carry: a
backlog of random tokens, made *now*, is state that stays; the main load lies almost the delay in the past, so
that its windows close at once and give the results; a few events a second, made just now, are the clock that
moves the watermark. While the job moves, a fourth load changes one per cent of the backlog's keys.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
import reports
from benchmark import EDGE
from load import LoadSpec
from load_process import send
from measured_mesh import MeasuredMesh, until
from migration_workload import CONNECTION_RATE, Workload
from natsrpy.js import JetStreamMessage

from towpath.checker.identity import Identity, WindowIdentity
from towpath.checker.judging import judge
from towpath.checker.observation import ReceivedMessage
from towpath.checker.verdict import Verdict
from towpath.contracts.data_plane import IN_STREAM
from towpath.contracts.job import JobSpec
from towpath.contracts.operators import Aggregate, AggregateFunction, FieldType, Operator, Window

DELAY_S = 3_600.0
"""Time for which windows stay open: longer than any benchmark takes."""

AHEAD_OF_WATERMARK_S = 2.0
"""Lead of the main load over the watermark: more than the difference between two generators' clocks."""

SENSORS = 2_000
"""Keys of the backlog in each window."""

ACTIVE_SENSORS = 10
"""Keys of the main load: results each second."""

SETTLE_S_A_MEGABYTE = 0.03
CLOCK_RATE = 20.0
CLOCK_BEHIND_S = 0.5
"""The clock is half a window late. Micro-batches begin on whole seconds, and windows end there: of a clock
that is on time, chance would decide in each batch whether an event lies before that boundary or behind it."""
CHANGED_SHARE = 0.01
SHORTEST_CHANGE_S, CHANGE_S_A_MEGABYTE = 4.0, 0.02
"""Time to change that share, well within a migration of this much state. Sent in a few seconds, a hundredth
of a gigabyte would be several times the main load, and the job would pause for it without any migration."""

TOKEN_BYTES = 100
"""Rough size of a report and its state without the token."""

LARGEST_BATCH = 50_000
STORE_S, FILL_S, CLOSE_S = 300.0, 900.0, 240.0

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class StatefulJob(Workload):
    """A job whose state is a backlog of distinct tokens."""

    size_s = 1.0
    shows_changes_alone = True

    def __init__(self, rate: int, megabytes: int) -> None:
        self.rate = rate
        # RocksDB compacts the new state into fewer and larger files for a while.
        self.settle_s = 5.0 + megabytes * SETTLE_S_A_MEGABYTE
        # Few large events for much state, because the filling is not measured.
        self._size = 250 if megabytes <= 100 else 1_100
        self._change_s = max(SHORTEST_CHANGE_S, megabytes * CHANGE_S_A_MEGABYTE)
        self._backlog = int(megabytes * 1e6 / (self._size - TOKEN_BYTES + 20))
        self._stored_from = self._stored_until = 0.0

    @property
    @abstractmethod
    def keys(self) -> int:
        """Number of keys in the state once the backlog is processed."""

    @property
    def change_rate(self) -> float:
        """Keys changed per second while the job moves, at most `CHANGED_SHARE` of all."""
        return CHANGED_SHARE * self.keys / self._change_s

    @abstractmethod
    def operator(self, mesh: MeasuredMesh) -> Operator:
        """Return the job's operator."""

    async def start(self, mesh: MeasuredMesh, after: int) -> JobSpec:
        """Deploy the job on a backlog, and wait until that is its state."""
        site = EDGE.name
        self._stored_from = time.time()
        await send(self.backlog(mesh), STORE_S)
        self._stored_until = time.time()
        job = await mesh.job(
            self.prefix,
            site,
            self.operator(mesh),
            after=after,
            trigger_s=self.trigger_s,
            max_events_per_batch=LARGEST_BATCH,
        )
        last = await mesh.last_serial(site)

        async def filled() -> bool:
            return await mesh.processed(job) >= last

        await until(filled, FILL_S, f"{job.name} with its state")
        return job

    def backlog(self, mesh: MeasuredMesh) -> LoadSpec:
        """Return the same reports with the same tokens each time. Only their time differs."""
        return mesh.load_spec(
            EDGE.name, events=self._backlog, connections=4, sensors=SENSORS, size=self._size, random=True
        )

    def main_load(self, mesh: MeasuredMesh, ahead_s: float = 0.0) -> LoadSpec:
        """Return the load that flows all the time, and hardly changes the size of the state."""
        connections = max(1, self.rate // CONNECTION_RATE)
        return mesh.load_spec(
            EDGE.name,
            rate=float(self.rate),
            connections=connections,
            sensors=ACTIVE_SENSORS,
            ahead_s=ahead_s,
        )

    def changes(self, mesh: MeasuredMesh, **options: object) -> LoadSpec:
        """Return reports that change a share of `CHANGED_SHARE` of the state's keys."""
        return mesh.load_spec(
            EDGE.name,
            rate=self.change_rate,
            events=max(1, int(CHANGED_SHARE * self.keys)),
            sensors=SENSORS,
            size=self._size,
            random=True,
            **options,
        )


class StatefulWindows(StatefulJob):
    """Events and distinct tokens per second and sensor."""

    prefix = "windows"

    def __init__(self, rate: int, megabytes: int) -> None:
        super().__init__(rate, megabytes)
        self._truth: dict[Identity, dict[str, int]] = {}

    @property
    def keys(self) -> int:
        """Windows × sensors of the backlog, of those seconds that were filled from beginning to end."""
        return SENSORS * max(1, int(self._stored_until - self._stored_from))

    def operator(self, mesh: MeasuredMesh) -> Window:
        """Windows that stay open."""
        return Window(
            fields={"sensor": FieldType.STRING, "token": FieldType.STRING, "at": FieldType.TIMESTAMP},
            size_s=self.size_s,
            event_time="at",
            watermark_s=DELAY_S,
            key=["sensor"],
            aggregates={
                "events": Aggregate(function=AggregateFunction.COUNT),
                "tokens": Aggregate(function=AggregateFunction.DISTINCT, field="token"),
            },
        )

    def loads(self, mesh: MeasuredMesh) -> list[LoadSpec]:
        """The main load, whose windows close at once, and the clock that closes them."""
        return [
            self.main_load(mesh, AHEAD_OF_WATERMARK_S - DELAY_S),
            mesh.load_spec(EDGE.name, rate=CLOCK_RATE, sensors=1, ahead_s=-CLOCK_BEHIND_S),
        ]

    async def while_moving(self, mesh: MeasuredMesh) -> None:
        """Change some keys of the backlog, each once: one second further for every second that passes."""
        await send(self.changes(mesh, ahead_s=self._stored_from - time.time()), STORE_S)

    async def close(self, mesh: MeasuredMesh, job: JobSpec, after: int) -> None:
        """Close all windows, even those of the backlog, with one event far in the future."""
        site = EDGE.name
        await send(mesh.load_spec(site, events=1, ahead_s=2 * DELAY_S), CLOSE_S)
        through = await mesh.last_serial(site)
        pages = await mesh.read(site, IN_STREAM, after, through, _columns)
        self._truth = truth_of(pd.concat(pages, ignore_index=True), job.name, self.size_s, DELAY_S)
        await mesh.counted(job, len(self._truth), CLOSE_S)  # What has not come by then is lost.

    def judged(self, job: JobSpec, observations: Sequence[ReceivedMessage]) -> Verdict:
        """Every window of every key, with how many events and different tokens it has."""
        return judge(self._truth, observations)


def truth_of(events: pd.DataFrame, job: str, size_s: float, delay_s: float) -> dict[Identity, dict[str, int]]:
    """Windows that are closed, from the columns `at` (microseconds), `sensor` and `token` of all events."""
    size_us = round(size_s * 1e6)
    starts = events["at"] // size_us * size_us
    closed = starts + size_us <= events["at"].max() - delay_s * 1e6
    groups = events[closed].groupby([starts[closed].rename("start"), "sensor"])["token"]
    table = groups.agg(["size", "nunique"]).reset_index()
    truth: dict[Identity, dict[str, int]] = {}
    for start_us, sensor, count, tokens in table.to_numpy().tolist():
        start = _EPOCH + timedelta(microseconds=int(start_us))
        key = (("sensor", f"s{sensor:05d}"),)
        identity = WindowIdentity(job, start, start + timedelta(seconds=size_s), key)
        truth[identity] = {"events": count, "tokens": tokens}
    return truth


def _columns(page: list[JetStreamMessage]) -> pd.DataFrame:
    payloads = [message.payload for message in page]
    return pd.DataFrame(
        {
            "at": reports.times_of(payloads).astype(np.int64),
            "sensor": reports.sensors_of(payloads),
            "token": reports.tokens_of(payloads),
        }
    )
