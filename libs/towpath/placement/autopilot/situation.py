"""Everything that a decision starts from."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from towpath.placement.autopilot.outlook import Outlook
from towpath.placement.autopilot.rules import Rules
from towpath.placement.autopilot.violations import Prediction, predict
from towpath.placement.jobs.moves import Move
from towpath.placement.jobs.view import MeshView, Placement


@dataclass(frozen=True)
class Situation:
    """The time ahead, where jobs are, and what is wanted of them."""

    ahead: Outlook
    current: Placement
    goals: Mapping[str, float]
    """Job → seconds that its latency may take."""
    rules: Rules
    move_s: Callable[[Move], float] = lambda move: 5.0
    """Returns how long a move is expected to take. Infinite for one that is impossible."""

    @cached_property
    def staying(self) -> Prediction:
        """The course if nothing moves."""
        return predict(self.ahead, self.current, self.goals)

    @cached_property
    def view(self) -> MeshView:
        """The present, with the jobs that are late first."""
        view = self.ahead.phases[0].view
        begin_s = self.staying.begin_s
        return replace(view, jobs=tuple(sorted(view.jobs, key=lambda job: begin_s.get(job.name, math.inf))))

    def may_leave(self, job: str) -> bool:
        """True if there is a site to which a job could move."""
        origin = self.current[job]
        return any(
            math.isfinite(self.move_s(Move(job, origin, site.name)))
            for site in self.view.sites
            if site.cores and site.name != origin and self.view.job[job].may_run_at(site.name)
        )
