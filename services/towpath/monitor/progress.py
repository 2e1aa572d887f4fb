"""The progress of both runs, as their agents report it."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import nullcontext

from nats.errors import Error as NatsError

from towpath.bus import Bus
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import JobState, JobStatus
from towpath.contracts.monitor import Watch
from towpath.contracts.site_commands import ReportProgress
from towpath.telemetry.tracing import untraced

LEAST_LAG_S = 0.3
"""Shortest lag. Two reports a fifth of a second apart see the same micro-batch.

A shorter lag would require the target to be level with the source."""

Serials = Mapping[str, int]
"""Input → newest serial number processed."""


class CatchUp:
    """The target has caught up when it is where the source was one trigger interval ago, in every input.

    A target that has worked, and is where the source is now, need not wait until that interval has passed.
    Serial numbers are compared input by input and not by a watermark. So an idle input stands still for both
    and holds neither up.
    """

    def __init__(self, inputs: Iterable[str], trigger_s: float) -> None:
        self._inputs = tuple(inputs)
        self._lag_s = max(trigger_s, LEAST_LAG_S)
        self._earlier: deque[tuple[float, Serials]] = deque()
        """The source's serials with the time of each report. Only the first may be older than the lag."""
        self._target: Serials = {}

    def observe(self, at_s: float, source: Serials, target: Serials, *, worked: bool = False) -> bool:
        """Take both serial numbers at `at_s` (any clock, seconds). True if the target has caught up.

        `worked`: the target has processed events itself.
        """
        self._earlier.append((at_s, dict(source)))
        self._target = dict(target)
        while len(self._earlier) > 1 and self._earlier[1][0] <= at_s - self._lag_s:
            self._earlier.popleft()
        then, wanted = self._earlier[0]
        if worked and self._reaches(source):
            return True
        return then <= at_s - self._lag_s and self._reaches(wanted)

    def _reaches(self, wanted: Serials) -> bool:
        return all(self._target.get(name, 0) >= wanted.get(name, 0) for name in self._inputs)

    def distances(self) -> dict[str, int]:
        """Return input → serial numbers by which the target is behind the newest of the source."""
        newest = self._earlier[-1][1] if self._earlier else {}
        return {name: newest.get(name, 0) - self._target.get(name, 0) for name in self._inputs}


log = logging.getLogger(__name__)

ANSWER_S = 2.0
"""Deadline for one report. A broken link does not make it longer, so that silence is noticed in time."""

SILENCE_S = 20.0
"""An agent that is silent for this long will not end its migration: its restart takes less."""


class RunProgress:
    """Asks both agents, and remembers their last reports."""

    def __init__(self, bus: Bus, operation: str, watch: Watch) -> None:
        self._bus = bus
        self._operation = operation
        self._watch = watch
        self._catch_up = CatchUp((i.name for i in watch.inputs), watch.trigger_s)
        self._heard: dict[str, float] = {}
        """Site → its last answer, or the first request if it never answered."""
        self._trouble: dict[str, str] = {}
        self.source: JobStatus | None = None
        self.target: JobStatus | None = None
        self.caught_up = False
        """True if the target has caught up, by the newest reports of both."""

    async def ask(self) -> None:
        """Ask both at the same time.

        Raises `TowpathError` when one of them has not answered for too long, or when the target reports that
        it cannot run the job.
        """
        watch = self._watch
        # The first request is part of the migration's trace. Hundreds more would hide everything else there.
        with untraced() if self._heard else nullcontext():
            source, target = await asyncio.gather(self._report(watch.source), self._report(watch.target))
        if target is not None and target.epoch != watch.target_epoch:
            target = None  # It reports what it did before this migration.
        if target is not None and target.state is JobState.FAILED:
            raise TowpathError(ErrorCode.FAILED, f"the job cannot run at {watch.target}: {target.error}")
        self.source, self.target = source or self.source, target or self.target
        self.caught_up = False
        if source is not None and target is not None and target.state is JobState.RUNNING:
            at = asyncio.get_running_loop().time()
            worked = target.events > 0
            level = self._catch_up.observe(at, source.serials, target.serials, worked=worked)
            # A checkpoint that was just shipped is level, too. What counts is that the target works: its
            # first micro-batch takes longest, and no result comes before it has ended.
            self.caught_up = level and (worked or target.serials == source.serials)

    async def _report(self, site: str) -> JobStatus | None:
        loop = asyncio.get_running_loop()
        self._heard.setdefault(site, loop.time())
        command = ReportProgress(site=site, operation=self._operation, job=self._watch.job)
        try:
            status = await self._bus.request(command, deadline_s=ANSWER_S)
        except (TowpathError, NatsError, OSError) as error:
            self._trouble[site] = str(error)
            if loop.time() - self._heard[site] > SILENCE_S:
                raise TowpathError(
                    ErrorCode.FAILED, f"{site} has not reported for {SILENCE_S:g} s: {error}"
                ) from error
            return None
        self._heard[site] = loop.time()
        self._trouble.pop(site, None)
        return status

    def standing(self) -> str:
        """Return how far the two are apart, and who does not answer, for people."""
        watch = self._watch
        parts = [f"{watch.target} is {n} behind in {name}" for name, n in self._catch_up.distances().items()]
        if self.target is None:
            parts = [f"{watch.target} does not run the job yet"]
        return "; ".join([*parts, *(f"{site}: {trouble}" for site, trouble in self._trouble.items())])
