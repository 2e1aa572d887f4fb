"""Counts of the steps of a chain, for its status and its metrics."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import Self

from towpath.contracts.job import JobSpec, StepStatus
from towpath.contracts.operators import step_names
from towpath.engine.job_measures import Measured
from towpath.operators.rejections import Observed


@dataclass
class StepCounts:
    """Counts of one run of one job. A job that is no chain has none. Any thread may call it."""

    job: str
    names: list[str]
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _events: Counter[int] = field(default_factory=Counter)
    _rejected: Counter[int] = field(default_factory=Counter)
    _results: int = 0
    """Of the last step. Those of the others are the events of the next."""

    @classmethod
    def of(cls, spec: JobSpec) -> Self:
        """Return counts that begin at 0."""
        return cls(spec.name, step_names(spec.operator))

    def take_in(self, seen: Observed, results: int) -> None:
        """Count a micro-batch that is published."""
        if self.names:
            with self._lock:
                self._events.update(seen.counts)
                self._rejected.update(event.step for event in seen.rejected)
                self._results += results

    def counts(self) -> list[StepStatus]:
        """Return the counts of each step, in their order."""
        with self._lock:
            made = [*(self._events[n] for n in range(1, len(self.names))), self._results]
            return [
                StepStatus(name=name, events=self._events[n], rejected=self._rejected[n], results=made[n])
                for n, name in enumerate(self.names)
            ]

    def samples(self, at: float) -> list[Measured]:
        """Return the counts as measurements at `at` (Unix seconds)."""
        return [
            Measured(f"step:{self.job}/{step.name}", f"job.step.{name}", at, float(value))
            for step in self.counts()
            for name, value in (
                ("events", step.events),
                ("rejected", step.rejected),
                ("results", step.results),
            )
        ]
