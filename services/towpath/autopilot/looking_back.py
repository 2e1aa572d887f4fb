"""Look back at decisions: measure how the jobs that moved did afterwards."""

from __future__ import annotations

from datetime import timedelta

from towpath.autopilot.memory import Memory
from towpath.autopilot.settings import AutopilotSettings
from towpath.bus import Bus
from towpath.contracts.autopilot import Decision, DecisionState
from towpath.contracts.message import now
from towpath.contracts.metrics import Aggregation, QueryMetrics, SeriesList
from towpath.mesh.present_picture import ASK_S

LATENCY = "job.latency.end_to_end.p95"

STEP_S = 10.0
"""A job breaks its goal in so many seconds together, or not."""


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
        asked = QueryMetrics(
            metrics=[LATENCY],
            entities=[f"job:{name}" for name in dict.fromkeys(move.job for move in decision.moves)],
            since=outcome.ended,
            until=outcome.ended + timedelta(seconds=decision.horizon_s),
            step_s=STEP_S,
            aggregation=Aggregation.MAX,
        )
        found = await self._bus.request(asked, deadline_s=ASK_S)
        late_s, measured_s = late_seconds(found, self._settings.spec.latency_s)
        measured = outcome.model_copy(update={"late_s": late_s, "measured_s": measured_s})
        await self._memory.change(decision.model_copy(update={"outcome": measured}))


def late_seconds(found: SeriesList, goal_s: float) -> tuple[float, float]:
    """Return the job-seconds above a goal, and those that were measured."""
    values = [value for series in found.series for _, value in series.points]
    return STEP_S * sum(value > goal_s for value in values), STEP_S * len(values)
