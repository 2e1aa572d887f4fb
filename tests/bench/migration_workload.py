"""Jobs and loads with which migrations are measured, and their expected results."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
from benchmark import EDGE
from load import LoadSpec
from load_process import send
from measured_mesh import MeasuredMesh, until
from verdicts import Counts, window_truth
from windowed import counting

from towpath.checker.identity import Identity, WindowIdentity
from towpath.checker.judging import judge
from towpath.checker.observation import ReceivedMessage
from towpath.checker.ranges import judge_ranges
from towpath.checker.verdict import Verdict
from towpath.contracts.job import JobSpec
from towpath.contracts.operators import Aggregate, AggregateFunction, ProcessingWindow

WATERMARK_S = 0.5
"""More than the disorder between the generator's connections."""

CONNECTION_RATE = 5_000
"""Events per second per connection: 1,000 in flight then bridge 0.2 s."""

CLOSE_S = 60.0
"""Time limit for the last results."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_COUNTED = "events"
"""Name of the count in the windows' results."""


class Workload(ABC):
    """A job, its load, and the truth about its results."""

    prefix: str
    rate: int
    size_s: float
    settle_s: float
    """Seconds to observe the job before and after each migration."""
    trigger_s = 1.0
    shows_changes_alone = False
    """True if the load of a move is first sent while the job stays, to measure its effect alone."""

    @abstractmethod
    async def start(self, mesh: MeasuredMesh, after: int) -> JobSpec:
        """Deploy the job, for events after a serial number. Raises `TowpathError`."""

    def loads(self, mesh: MeasuredMesh) -> list[LoadSpec]:
        """Return the loads that flow all the time until they are told to stop."""
        connections = max(1, self.rate // CONNECTION_RATE)
        return [mesh.load_spec(EDGE.name, rate=float(self.rate), connections=connections)]

    async def while_moving(self, mesh: MeasuredMesh) -> None:  # noqa: B027 - most send nothing more.
        """Send additional load while the job moves; cancelled when it has moved."""

    @abstractmethod
    async def close(self, mesh: MeasuredMesh, job: JobSpec, after: int) -> None:
        """After the load has stopped, cause all results and wait for them."""

    @abstractmethod
    def judged(self, job: JobSpec, observations: Sequence[ReceivedMessage]) -> Verdict:
        """The verdict on what a subscriber saw, once `close` is done."""


class EventTimeWindows(Workload):
    """A count per window and sensor, by the time that events carry."""

    prefix = "window"

    def __init__(self, rate: int, size_s: float = 1.0) -> None:
        self.rate = rate
        self.size_s = size_s
        self.settle_s = max(5.0, 3 * size_s)
        self._truth: Counts = {}

    async def start(self, mesh: MeasuredMesh, after: int) -> JobSpec:
        operator = counting(self.size_s, own_time=True, watermark_s=WATERMARK_S)
        return await mesh.job(self.prefix, EDGE.name, operator, after=after, trigger_s=self.trigger_s)

    async def close(self, mesh: MeasuredMesh, job: JobSpec, after: int) -> None:
        """Close all windows with one event far in the future."""
        site = EDGE.name
        await send(mesh.load_spec(site, events=1, ahead_s=10 * self.size_s + 100.0), CLOSE_S)
        through = await mesh.last_serial(site)
        self._truth = await window_truth(mesh, site, after, through, self.size_s, by_own_time=True)
        await mesh.counted(job, len(self._truth), CLOSE_S)  # What has not come by then is lost.

    def judged(self, job: JobSpec, observations: Sequence[ReceivedMessage]) -> Verdict:
        return judge(expected_windows(job.name, self._truth, self.size_s), observations)


class ProcessingTimeWindows(Workload):
    """A count of the events of each micro-batch: windows end by the operator's clock."""

    prefix = "processing"

    def __init__(self, rate: int, size_s: float = 2.0) -> None:
        self.rate = rate
        self.size_s = size_s
        self.settle_s = max(6.0, 2.2 * size_s)
        self._range = (0, 0)

    async def start(self, mesh: MeasuredMesh, after: int) -> JobSpec:
        return await mesh.job(self.prefix, EDGE.name, self._operator(), after=after, trigger_s=self.trigger_s)

    def _operator(self) -> ProcessingWindow:
        return ProcessingWindow(
            size_s=self.size_s, aggregates={_COUNTED: Aggregate(function=AggregateFunction.COUNT)}
        )

    async def close(self, mesh: MeasuredMesh, job: JobSpec, after: int) -> None:
        last = await mesh.last_serial(EDGE.name)
        self._range = (after, last)

        async def processed() -> bool:
            return await mesh.processed(job) >= last

        await until(processed, CLOSE_S + 2 * self.size_s, f"{job.name} at {last}")

    def judged(self, job: JobSpec, observations: Sequence[ReceivedMessage]) -> Verdict:
        after, through = self._range
        # Nothing but the load is published at the site: every serial number is an event of it.
        events = pd.DataFrame({"serial": np.arange(after + 1, through + 1)})
        aggregates = self._operator().aggregates
        return judge_ranges(
            events, observations, job=job.name, key=[], aggregates=aggregates, after=after, through=through
        )


def expected_windows(job: str, truth: Counts, size_s: float) -> dict[Identity, dict[str, int]]:
    """Counts per window and sensor as the checker expects them."""
    size = timedelta(seconds=size_s)
    expected: dict[Identity, dict[str, int]] = {}
    for (start_us, sensor), count in truth.items():
        start = _EPOCH + timedelta(microseconds=start_us)
        expected[WindowIdentity(job, start, start + size, (("sensor", sensor),))] = {_COUNTED: count}
    return expected
