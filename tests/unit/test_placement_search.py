"""Parts of the search: coordinates, springs, packing, and its limit."""

from __future__ import annotations

import numpy as np
import pytest

from running.placements import exhaustive, generated
from towpath.placement.jobs import search
from towpath.placement.jobs.evaluation import evaluate
from towpath.placement.jobs.packing import packed
from towpath.placement.jobs.policies.performance import latency_first
from towpath.placement.jobs.policies.registry import policy
from towpath.placement.jobs.scores import Scorer
from towpath.placement.jobs.search import Search
from towpath.placement.jobs.spring import coordinates, relaxed
from towpath.placement.jobs.view import Job, Link, MeshView, Site, Source


def test_coordinates_when_latencies_are_distances_then_come_out_alike() -> None:
    chance = np.random.default_rng(1)
    points = chance.uniform(0, 2, (12, 3))
    distances = np.linalg.norm(points[:, None] - points, axis=2)

    found = coordinates(distances, np.random.default_rng(0))

    apart = np.linalg.norm(found[:, None] - found, axis=2)
    assert np.abs(apart - distances).max() < 0.1


def test_coordinates_when_a_latency_is_unknown_then_the_others_still_count() -> None:
    latencies = np.array([[0, 1, np.inf], [1, 0, 2], [np.inf, 2, 0]])

    found = coordinates(latencies, np.random.default_rng(0))

    assert np.linalg.norm(found[0] - found[1]) == pytest.approx(1, abs=0.05)
    assert np.linalg.norm(found[1] - found[2]) == pytest.approx(2, abs=0.05)


def test_springs_when_a_job_reads_two_sources_then_lie_nearest_to_the_site_between() -> None:
    line = {"left": 0.0, "near": 0.1, "middle": 0.5, "right": 1.0}
    links = [Link(u, v, abs(line[u] - line[v])) for u in line for v in line if u < v]
    view = MeshView(
        sites=tuple(Site(name, 1, 100) for name in line),
        links=tuple(links),
        sources=(Source("one", "left", 1), Source("two", "right", 1)),
        jobs=(Job("join", ("one", "two"), 0.5, 10),),
    )
    scorer = Scorer(view)

    assert scorer.placement(relaxed(scorer)) == {"join": "middle"}


def test_springs_when_the_nearest_site_is_full_then_take_the_next() -> None:
    view = MeshView(
        sites=(Site("near", 1, 100), Site("next", 1, 100), Site("far", 1, 100)),
        links=(Link("near", "next", 0.1), Link("near", "far", 1), Link("next", "far", 1)),
        sources=(Source("one", "near", 1),),
        jobs=(Job("first", ("one",), 1, 10), Job("second", ("one",), 1, 10)),
    )
    scorer = Scorer(view)

    assert scorer.placement(relaxed(scorer)) == {"first": "near", "second": "next"}


@pytest.mark.parametrize("shape", ["sequential", "replicated"])
def test_packing_when_there_is_little_room_then_finds_it_or_proves_that_there_is_none(shape: str) -> None:
    for seed in range(8):
        scorer = Scorer(generated(shape, 6, 4, load=0.75, seed=seed))
        best = exhaustive(Search(scorer, latency_first), scorer)

        room, _, proven = packed(scorer)

        assert proven
        assert (room is None) == (best is None)
        assert room is None or evaluate(scorer.view, scorer.placement(room)).feasible


def test_search_when_its_effort_is_used_up_then_still_returns_a_placement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    view = generated("medium", 12, 8, load=0.3, seed=2)
    best = evaluate(view, policy("performance").place(view))
    monkeypatch.setattr(search, "MOST_CELLS", 0)

    found = evaluate(view, policy("performance").place(view))

    assert found.feasible
    assert best.latency_s <= found.latency_s


def test_policy_when_its_seed_differs_then_is_as_good() -> None:
    view = generated("medium", 8, 6, load=0.3, seed=3)

    latencies = {evaluate(view, policy("performance").place(view, seed)).latency_s for seed in range(3)}

    assert max(latencies) <= 1.05 * min(latencies)
