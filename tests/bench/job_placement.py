"""Placement of jobs: beside the best of all placements, beside simpler ones, its time, and RAINBOW's trials.

Without a mesh. Exit code 1 if a policy places what no placement can hold, refuses what one can, or names
something worse than the best of all as better; a target that is not met does not change it.

    .venv/bin/python tests/bench/job_placement.py [--quick | --full]
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import job_placement_trials
from benchmark import Benchmark, Say, Scale
from figures import Case, Measured, Target, Value, rounded
from measured_mesh import MeasuredMesh

from towpath.placement.jobs.evaluation import evaluate
from towpath.placement.jobs.policies.energy import power_first
from towpath.placement.jobs.policies.performance import latency_first
from towpath.placement.jobs.policies.quality import Quality
from towpath.placement.jobs.policies.registry import policy
from towpath.placement.jobs.policy import NoFeasiblePlacement
from towpath.placement.jobs.scores import Objective, Scorer
from towpath.placement.jobs.search import Search
from towpath.placement.jobs.view import MeshView

sys.path.append(str(Path(__file__).parents[1]))

from running.placements import DECIDES, SHAPES, exhaustive, feasible_latency_s, generated, r_storm

JOBS, SITES = 6, 5
LOADS = (0.2, 0.4, 0.6)
OBJECTIVES: dict[str, Objective] = {
    "performance": latency_first,
    "quality": Quality().objective,
    "energy": power_first,
}
SEEDS = {Scale.QUICK: 2, Scale.DEFAULT: 6, Scale.FULL: 100}
MEDIUM_SEEDS = {Scale.QUICK: 1, Scale.DEFAULT: 3, Scale.FULL: 40}
MEDIUM_JOBS = (11, 12, 13, 14)
SITES_PER_JOB, MEDIUM_LOAD = 5, 0.08
WITHIN = 1.05

WITHIN_5, EXACT, WORST = "within 5 %, % of graphs", "the best, % of graphs", "worst / best"
PACKING, ROUND, ROUND_FITS = "/ R-Storm", "/ round robin", "round robin fits, %"
TO_PLACE = "ms to place"
AS_REPORTED = "as reported"
TARGETS = {WITHIN_5: Target(at_least=95)}
FASTER = {PACKING: Target(at_most=1), ROUND: Target(at_most=1)}


@dataclass
class Comparison:
    """Policies beside others, over some graphs."""

    to_best: list[float] = field(default_factory=list)
    to_packing: list[float] = field(default_factory=list)
    to_round: list[float] = field(default_factory=list)
    round_fits: list[bool] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    graphs: int = 0
    faults: int = 0

    def figures(self) -> dict[str, Value]:
        """Return the columns of the table."""
        return {
            "graphs": self.graphs,
            "with a placement": len(self.to_best) or len(self.to_round),
            WITHIN_5: _percent([ratio <= WITHIN for ratio in self.to_best]),
            EXACT: _percent([ratio <= 1 + 1e-9 for ratio in self.to_best]),
            WORST: rounded(max(self.to_best, default=None)),
            PACKING: _mean(self.to_packing),
            ROUND: _mean(self.to_round),
            ROUND_FITS: _percent(self.round_fits),
            TO_PLACE: rounded(1000 * statistics.median(self.seconds), 0),
        }


async def measure(mesh: MeasuredMesh | None, scale: Scale, say: Say, measured: Measured) -> None:
    """Measure quality, time, and the trials of RAINBOW."""
    measured.notes.append(
        f"{JOBS} jobs at {SITES} sites: all placements are tried. A load is the share of cores and memory "
        "that jobs need. Ratios are of the objective (best) or of latency (others), means over graphs; "
        "R-Storm's where it finds room, round robin's even where it overloads sites. Time is a median of "
        "CPU time."
    )
    for load in LOADS:
        for name, objective in OBJECTIVES.items():
            say(f"{name}, load {load}")
            beside = await asyncio.to_thread(_beside_all, name, objective, load, SEEDS[scale])
            targets = {**TARGETS, **(FASTER if name == "performance" else {})}
            measured.cases.append(
                Case(f"{name}, load {load}", beside.figures(), targets, faults=beside.faults)
            )
    say("medium graphs")
    medium = await asyncio.to_thread(_medium, MEDIUM_SEEDS[scale])
    name = f"performance, {MEDIUM_JOBS[0]} to {MEDIUM_JOBS[-1]} jobs, {SITES_PER_JOB} sites each"
    measured.cases.append(Case(name, medium.figures(), FASTER, faults=medium.faults))
    say("14 jobs at 70 sites")
    view = generated("medium", 14, 70, MEDIUM_LOAD, 1, checked=True)
    for name, parameters in (*((name, {}) for name in OBJECTIVES), ("energy", {"weight": 0.5})):
        took = await asyncio.to_thread(_seconds, lambda n=name, p=parameters: policy(n, **p).place(view))
        title = f"{name}{' 0.5' if parameters else ''}, 14 jobs at 70 sites"
        measured.cases.append(Case(title, {TO_PLACE: rounded(1000 * took, 0)}))
    say("RAINBOW's trials")
    trials = [*job_placement_trials.trials()]
    verdicts = [trial.is_as_reported for trial in trials if trial.is_as_reported is not None]
    figures: dict[str, Value] = {"graphs": len(verdicts), AS_REPORTED: sum(verdicts)}
    measured.cases.append(
        Case("FR.DPS, who gets more", figures, {AS_REPORTED: Target(at_least=len(verdicts))})
    )
    measured.notes += [*job_placement_trials.NOTES, *(trial.text for trial in trials)]


def _beside_all(name: str, objective: Objective, load: float, seeds: int) -> Comparison:
    """Compare a policy with the best of all placements, and with simpler ones."""
    found = Comparison()
    for shape in SHAPES:
        for seed in range(seeds):
            view = generated(shape, JOBS, SITES, load, seed, checked=name == "quality")
            scorer = Scorer(view)
            search = Search(scorer, objective)
            best = exhaustive(search, scorer)
            placement = _placed(view, name, found)
            found.faults += (best is None) != (placement is None)
            if best is None or placement is None:
                continue
            mine = search.key(scorer.row(placement))[DECIDES[name]]
            least = best[DECIDES[name]]
            found.faults += mine < least - 1e-9
            found.to_best.append(mine / least if least else 1.0 + (mine > 1e-9))
            _compare(view, placement, found)
    return found


def _medium(seeds: int) -> Comparison:
    """Compare the fastest placements of larger graphs with simpler ones."""
    found = Comparison()
    for jobs in MEDIUM_JOBS:
        for seed in range(seeds):
            view = generated("medium", jobs, SITES_PER_JOB * jobs, MEDIUM_LOAD, seed)
            placement = _placed(view, "performance", found)
            if placement is not None:
                _compare(view, placement, found)
    return found


def _placed(view: MeshView, name: str, found: Comparison) -> dict[str, str] | None:
    """Return the placement of a policy, whose time is counted; None if it refuses."""
    began = time.process_time()
    try:
        placement = dict(policy(name).place(view))
    except NoFeasiblePlacement:
        placement = None
    found.seconds.append(time.process_time() - began)
    found.graphs += 1
    found.faults += placement is not None and not evaluate(view, placement).feasible
    return placement


def _compare(view: MeshView, placement: dict[str, str], found: Comparison) -> None:
    mine = evaluate(view, placement).latency_s
    if packed := feasible_latency_s(view, r_storm(view)):
        found.to_packing.append(mine / packed)
    in_turn = evaluate(view, policy("baseline").place(view))
    found.round_fits.append(in_turn.feasible)
    if in_turn.latency_s:
        found.to_round.append(mine / in_turn.latency_s)


def _seconds(place: Callable[[], object]) -> float:
    began = time.process_time()
    place()
    return time.process_time() - began


def _percent(verdicts: list[bool]) -> float | None:
    return round(100 * sum(verdicts) / len(verdicts), 1) if verdicts else None


def _mean(ratios: list[float]) -> float | None:
    return rounded(statistics.mean(ratios)) if ratios else None


BENCHMARK = Benchmark(
    "job-placement", "Placement of jobs, without a mesh, one core", (), measure, on_request=True
)

if __name__ == "__main__":
    import run  # Here, because it imports this file.

    alone = replace(BENCHMARK, on_request=False)
    sys.exit(run.main(every={alone.name: alone}, program="job_placement.py", prefix="job-placement-"))
