"""Placements on generated graphs, beside the best of all placements, R-Storm's and round robin."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

import pytest

from running.placements import DECIDES, SHAPES, exhaustive, feasible_latency_s, generated, r_storm
from towpath.placement.jobs.evaluation import evaluate
from towpath.placement.jobs.policies.energy import power_first
from towpath.placement.jobs.policies.performance import latency_first
from towpath.placement.jobs.policies.quality import Quality
from towpath.placement.jobs.policies.registry import policy
from towpath.placement.jobs.policy import NoFeasiblePlacement
from towpath.placement.jobs.scores import Objective, Scorer
from towpath.placement.jobs.search import Search
from towpath.placement.jobs.view import MeshView

OBJECTIVES = {
    "performance": latency_first,
    "quality": Quality().objective,
    "energy": power_first,
}
WITHIN = 1.05


def graphs(load: float, seeds: range, checked: bool = False) -> Iterator[MeshView]:
    for shape in SHAPES:
        yield from (generated(shape, 6, 5, load, seed, checked) for seed in seeds)


def beside_best(view: MeshView, name: str, objective: Objective) -> tuple[float, float] | None:
    """Return the objective for the policy and for the best of all; None if nothing is feasible."""
    scorer = Scorer(view)
    search = Search(scorer, objective)
    best = exhaustive(search, scorer)
    if best is None:
        with pytest.raises(NoFeasiblePlacement):
            policy(name).place(view)
        return None
    part = DECIDES[name]
    return search.key(scorer.row(policy(name).place(view)))[part], best[part]


@pytest.mark.parametrize("load", [0.2, 0.4, 0.6])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_policy_when_all_placements_can_be_tried_then_is_within_5_percent_of_the_best(
    name: str, load: float
) -> None:
    views = graphs(load, range(3), checked=name == "quality")

    pairs = [pair for view in views if (pair := beside_best(view, name, OBJECTIVES[name]))]

    assert len(pairs) >= 8
    assert any(best > 0 for _, best in pairs)
    assert all(best - 1e-9 <= mine <= WITHIN * best + 1e-9 for mine, best in pairs)


def test_performance_when_compared_then_is_faster_than_packing_and_round_robin() -> None:
    ratios: dict[str, list[float]] = {"r-storm": [], "baseline": []}

    for view in graphs(0.2, range(3, 6)):
        mine = evaluate(view, policy("performance").place(view)).latency_s
        packed = feasible_latency_s(view, r_storm(view))
        if packed:
            ratios["r-storm"].append(mine / packed)
        ratios["baseline"].append(mine / evaluate(view, policy("baseline").place(view)).latency_s)

    assert len(ratios["r-storm"]) >= 8
    assert statistics.mean(ratios["r-storm"]) < 0.5
    assert statistics.mean(ratios["baseline"]) < 0.5
