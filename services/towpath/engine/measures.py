"""The samples an engine has taken of its jobs, until its agent has fetched them."""

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
"""Samples; some 15 MB at most. Ten busy jobs fill it in ten minutes, a hundred in one: longer than an agent
is away."""

PAGE = 5_000
"""Samples of one answer: half a megabyte, which any NATS server carries. Whoever gets so many asks again."""


class SampleBuffer:
    """The newest samples, numbered from 1 in the order in which they were taken."""

    def __init__(self, kept: int = KEPT) -> None:
        self._samples: deque[Measured] = deque(maxlen=kept)
        self._last = 0

    def add(self, samples: Iterable[Measured]) -> None:
        """Keep samples; the oldest make room."""
        for sample in samples:
            self._samples.append(sample)
            self._last += 1

    def after(self, number: int, limit: int = PAGE) -> tuple[list[Sample], int]:
        """The samples behind `number`, at most `limit`, and the number of the last of them.

        What is not kept any more is passed over. A number that was not given yet is of an engine before this
        one: then all count.
        """
        first = self._last - len(self._samples) + 1
        begin = max(number + 1, first) if number <= self._last else first
        found = list(islice(self._samples, begin - first, begin - first + limit))
        samples = [Sample(entity=s.entity, metric=s.metric, at=s.at, value=s.value) for s in found]
        return samples, begin + len(found) - 1


async def keep_sampling(take: Callable[[], None], interval_s: float = INTERVAL_S) -> None:
    """Take samples at every interval, for ever."""
    while True:
        await asyncio.sleep(interval_s)
        try:
            take()
        except Exception as error:
            # Jobs go on whatever becomes of their figures.
            log.warning("no samples this time: %s: %s", type(error).__name__, error)
