"""Round robin: the next job goes to the next site that may run it.

Storm's default scheduler, and BaselineScheduler of RAINBOW D4.2. It knows neither resources nor latencies, so
its placement may overload sites: `evaluate` says so. To compare others with.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from towpath.placement.jobs.optimising import nowhere
from towpath.placement.jobs.view import MeshView, Placement


@dataclass(frozen=True)
class Baseline:
    """Equal shares, and nothing else."""

    name: ClassVar[str] = "baseline"
    summary: ClassVar[str] = "equal shares: round robin over the sites that may run each job"

    def place(self, view: MeshView, seed: int = 0) -> Placement:
        """Return a site for each job; `seed` is the number of the first site.

        Raise `NoFeasiblePlacement` only if a job is allowed at no site.
        """
        names = [site.name for site in view.sites]
        turn = seed % len(names) if names else 0
        placement: dict[str, str] = {}
        for job in view.order:
            round_ = names[turn:] + names[:turn]
            site = next((name for name in round_ if job.may_run_at(name)), None)
            if site is None:
                raise nowhere(view, job)
            placement[job.name] = site
            turn = (names.index(site) + 1) % len(names)
        return placement
