"""Watch steady state: since when it holds, and which probes left it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.scenario import LagProbe, Probe, ThroughputProbe
from towpath.lab.harness.journal import Entry, Journal
from towpath.lab.scenarios.probes import ProbeValue, measure
from towpath.lab.scenarios.sampler import Sampler

LOOK_EVERY_S = 0.5
ASK_EVERY_S = 0.1


@dataclass
class Steadiness:
    """Takes the probes' measurements twice a second, and writes them down."""

    probes: Sequence[Probe]
    sampler: Sampler
    journal: Journal
    on_sample: Callable[[], None] = lambda: None
    since: float | None = None
    """Unix seconds since which all probes are inside their tolerance. None while one is not."""
    last_outside: float | None = None
    """Unix seconds when one was last outside, since `watch_from_now`."""
    deviated: dict[str, int] = field(default_factory=dict)
    """Probe → looks in which it was outside, since `watch_from_now`."""
    failure: Exception | None = None
    """The reason why it has stopped looking."""
    _watching: bool = False
    _left_at: float | None = None

    def watch_from_now(self) -> None:
        """Deviations count from now on."""
        self._watching = True

    async def run(self) -> None:
        """Look until cancelled. After a failure, steady state is unknown."""
        try:
            await self._look_on()
        except Exception as error:
            self.failure, self.since = error, None
            raise

    async def _look_on(self) -> None:
        loop = asyncio.get_running_loop()
        behind = {probe.job for probe in self.probes if isinstance(probe, LagProbe | ThroughputProbe)}
        while True:
            begun = loop.time()
            await self.sampler.look(behind)
            self.take(await measure(self.probes, self.sampler), time.time())
            self.on_sample()
            await asyncio.sleep(max(0.05, LOOK_EVERY_S - (loop.time() - begun)))

    async def until_held(self, held_s: float, within_s: float) -> bool:
        """Wait until steady state has held for `held_s`. Return false if it does not in time.

        Raises `TowpathError` if the probes have failed.
        """
        end_at = time.monotonic() + within_s
        while self.since is None or self.held_for() < held_s:
            if self.failure is not None:
                raise TowpathError(ErrorCode.FAILED, f"the probes ended: {self.failure!r}") from self.failure
            if time.monotonic() > end_at:
                return False
            await asyncio.sleep(ASK_EVERY_S)
        return True

    def take(self, measured: Sequence[ProbeValue], now: float) -> None:
        """Take the measurements of one look."""
        outside = [m.probe for m in measured if not m.inside]
        values = {m.probe: m.value for m in measured}
        self.journal.add(Entry.SAMPLE, values=values, outside=outside)
        if not outside:
            self._back(now)
            return
        self.since = None
        if not self._watching:
            return
        self.last_outside = now
        for probe in outside:
            self.deviated[probe] = self.deviated.get(probe, 0) + 1
        if self._left_at is None:
            self._left_at = now
            self.journal.add(Entry.DEVIATED, probes=outside)

    def held_for(self) -> float:
        """Seconds for which steady state has held without a break."""
        return 0.0 if self.since is None else time.time() - self.since

    def _back(self, now: float) -> None:
        if self.since is None:
            self.since = now
        if self._left_at is not None:
            self.journal.add(Entry.STEADY, after_s=round(now - self._left_at, 2))
            self._left_at = None
