"""Samples that an engine has taken of its jobs, until its agent has fetched them."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice

from towpath.contracts.metrics import Sample
from towpath.engine.job_measures import Measured
from towpath.telemetry.intervals import INTERVAL_S

log = logging.getLogger(__name__)

KEPT = 100_000
"""Samples, some 15 MB at most. Ten busy jobs fill it in ten minutes, and a hundred in one minute. An agent is
away for less."""

PAGE = 5_000
"""Most samples of one answer: half a megabyte, which any NATS server carries. The agent then asks again."""


class SampleBuffer:
    """The newest samples, numbered from 1 in the order in which they were taken."""

    def __init__(self, kept: int = KEPT) -> None:
        self._samples: deque[Measured] = deque(maxlen=kept)
        self._last = 0

    def add(self, samples: Iterable[Measured]) -> None:
        """Keep samples. The oldest ones make room."""
        for sample in samples:
            self._samples.append(sample)
            self._last += 1

    def after(self, number: int, limit: int = PAGE) -> tuple[list[Sample], int]:
        """Return the samples behind `number`, at most `limit`, and the number of the last of them.

        Samples that are not kept any more are left out. A number that was not given yet comes from an earlier
        engine: then all samples count.
        """
        first = self._last - len(self._samples) + 1
        begin = max(number + 1, first) if number <= self._last else first
        found = list(islice(self._samples, begin - first, begin - first + limit))
        samples = [Sample(entity=s.entity, metric=s.metric, at=s.at, value=s.value) for s in found]
        return samples, begin + len(found) - 1


async def keep_sampling(take: Callable[[], None], interval_s: float = INTERVAL_S) -> None:
    """Take samples at every interval, until cancelled."""
    while True:
        await asyncio.sleep(interval_s)
        try:
            take()
        except Exception as error:
            # Jobs continue without their figures.
            log.warning("no samples this time: %s: %s", type(error).__name__, error)
