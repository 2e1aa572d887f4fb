"""Look back at decisions: measure how the jobs that moved did afterwards."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import timedelta

from towpath.autopilot.memory import Memory
from towpath.autopilot.settings import AutopilotSettings
from towpath.bus import Bus
from towpath.contracts.autopilot import Decision, DecisionState
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import now
from towpath.contracts.metrics import MAX_POINTS, Aggregation, QueryMetrics, Series
from towpath.mesh.present_picture import ASK_S

log = logging.getLogger(__name__)

LATENCY = "job.latency.end_to_end.p95"

STEP_S, MOST_STEPS = 10.0, 500
"""A job breaks its goal in so many seconds together, or not; in more, if the horizon has too many of them."""

AT_ONCE = 50
"""Jobs that one question names. At two sites each, they have no more points than one answer."""


class LookingBack:
    """Completes the outcomes of decisions when their horizon has passed."""

    def __init__(self, bus: Bus, settings: AutopilotSettings, memory: Memory) -> None:
        self._bus = bus
        self._settings = settings
        self._memory = memory

    async def review(self) -> None:
        """Measure how the decisions did whose horizon has passed. Raises `TowpathError`."""
        for decision in [*self._memory.decisions.values()]:
            if self._is_due(decision):
                await self._review(decision)

    def _is_due(self, decision: Decision) -> bool:
        outcome = decision.outcome
        if decision.state is not DecisionState.DONE or outcome is None or outcome.late_s is not None:
            return False
        return now() > outcome.ended + timedelta(seconds=decision.horizon_s)

    async def _review(self, decision: Decision) -> None:
        outcome = decision.outcome
        assert outcome is not None
        jobs = [*dict.fromkeys(move.job for move in decision.moves)]
        step_s = max(STEP_S, decision.horizon_s / MOST_STEPS)
        found: list[Series] = []
        for first in range(0, len(jobs), AT_ONCE):
            asked = QueryMetrics(
                metrics=[LATENCY],
                entities=[f"job:{name}" for name in jobs[first : first + AT_ONCE]],
                since=outcome.ended,
                until=outcome.ended + timedelta(seconds=decision.horizon_s),
                step_s=step_s,
                limit=MAX_POINTS,
                aggregation=Aggregation.MAX,
            )
            found += await self._answer(asked)
        late_s, measured_s = late_seconds(found, self._settings.spec.latency_s, step_s)
        measured = outcome.model_copy(update={"late_s": late_s, "measured_s": measured_s})
        await self._memory.change(decision.model_copy(update={"outcome": measured}))

    async def _answer(self, asked: QueryMetrics) -> list[Series]:
        """Return what was measured. Nothing, if the question is refused: it would be the next time, too."""
        try:
            return (await self._bus.request(asked, deadline_s=ASK_S)).series
        except TowpathError as error:
            if error.detail.code is not ErrorCode.INVALID:
                raise
            log.warning("no look back: %s", error)
            return []


def late_seconds(found: Iterable[Series], goal_s: float, step_s: float) -> tuple[float, float]:
    """Return the job-seconds above a goal, and those that were measured."""
    values = [value for series in found for _, value in series.points]
    return step_s * sum(value > goal_s for value in values), step_s * len(values)
