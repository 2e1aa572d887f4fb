"""Any mesh: formulas as arrays are those for one placement, policies keep limits, moves overload no site."""

from __future__ import annotations

import itertools
from collections import deque

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from running.example_counts import share_of_examples
from running.placements import inputs_of, longest_path_s
from towpath.placement.jobs.evaluation import evaluate
from towpath.placement.jobs.moves import NoSafeOrder, order_of_moves
from towpath.placement.jobs.policies.registry import POLICIES, policy
from towpath.placement.jobs.policy import NoFeasiblePlacement
from towpath.placement.jobs.scores import Scorer
from towpath.placement.jobs.view import Job, Link, MeshView, Placement, Site, Source

FEW = st.integers(0, 3)
NAMES = ("a", "b", "c")
ALLOWED = st.sampled_from([None, None, frozenset("ab")])
ANY_TO_ANY = tuple(Link(u, v, 0.01) for u, v in itertools.combinations(NAMES, 2))


@st.composite
def meshes(draw: st.DrawFn) -> MeshView:
    """Draw sites, links that may be missing or narrow, and up to five jobs, some with checks."""
    inputs = inputs_of("medium", draw(st.integers(1, 5)), np.random.default_rng(draw(st.integers(0, 999))))
    sites = [
        Site(name, draw(FEW), 100 * draw(FEW), 5, 5 + draw(FEW), draw(st.booleans()), draw(FEW) / 3)
        for name in NAMES
    ]
    links = [
        Link(
            *(u, v, draw(FEW) / 10, draw(st.sampled_from([5.0, 50.0, float("inf")]))),
            loss=draw(FEW) / 10,
            price_per_byte=draw(FEW) / 100,
        )
        for u, v in itertools.permutations(NAMES, 2)
        if draw(st.integers(0, 5))
    ]
    sources = {name for reads in inputs.values() for name in reads if name.startswith("source")}
    jobs = [
        Job(
            name,
            reads,
            cpu_s_per_event=draw(FEW) / 4,
            memory_mb=50 * draw(FEW),
            factor=draw(st.sampled_from([0.5, 1.0, 2.0])),
            bytes_per_event=draw(FEW),
            check_cpu_s_per_event=draw(st.sampled_from([None, 0.0, 0.5])),
            check_memory_mb=50 * draw(FEW),
            allowed=draw(st.sampled_from([None, frozenset("ab")])),
            output_site=draw(st.sampled_from([None, None, "b"])),
        )
        for name, reads in inputs.items()
    ]
    return MeshView(
        sites=tuple(sites),
        links=tuple(links),
        sources=tuple(Source(name, draw(st.sampled_from(NAMES)), 1, 4) for name in sorted(sources)),
        jobs=tuple(jobs),
        hop_penalty_s=draw(FEW) / 100,
        joules_per_byte=draw(FEW) / 100,
    )


def placements(view: MeshView) -> st.SearchStrategy[Placement]:
    return st.fixed_dictionaries({job.name: st.sampled_from(NAMES) for job in view.jobs})


@given(data=st.data())
def test_scores_when_computed_for_many_then_are_those_of_each_placement(data: st.DataObject) -> None:
    view = data.draw(meshes())
    several = data.draw(st.lists(placements(view), min_size=1, max_size=4))
    scorer = Scorer(view)

    scores = scorer.scores(np.stack([scorer.row(placement) for placement in several]))

    for number, placement in enumerate(several):
        found = evaluate(view, placement)
        limits = [one for one in found.shortages if one.lacking != "permission"]
        assert (scores.excess[number] > 0) == bool(limits)
        assert scores.latency_s[number] == pytest.approx(found.latency_s)
        assert scores.mean_latency_s[number] == pytest.approx(found.mean_latency_s)
        assert scores.checked_share[number] == pytest.approx(found.checked_share)
        assert scores.link_price_per_h[number] == pytest.approx(found.link_price_per_h)
        assert found.latency_s == pytest.approx(longest_path_s(view, placement))
        if view.joules_per_byte == 0 or not any(one.lacking == "link" for one in limits):
            assert scores.added_w[number] == pytest.approx(found.added_w)


@share_of_examples(0.2)
@given(view=meshes(), name=st.sampled_from([name for name in POLICIES if name != "baseline"]))
def test_policy_when_it_places_then_nothing_is_short_and_all_else_is_refused(
    view: MeshView, name: str
) -> None:
    every = itertools.product(NAMES, repeat=len(view.jobs))
    names = [job.name for job in view.jobs]
    possible = (dict(zip(names, sites, strict=True)) for sites in every)

    try:
        placement = policy(name).place(view)
    except NoFeasiblePlacement:
        placement = None

    if placement is None:
        assert not any(evaluate(view, one).feasible for one in possible)
    else:
        assert evaluate(view, placement).feasible
        assert placement == policy(name).place(view)


@st.composite
def crowded(draw: st.DrawFn) -> MeshView:
    """Draw four jobs that nearly fill three sites: some moves need a detour, some are impossible."""
    jobs = [
        Job(f"job{number}", ("in",), draw(st.integers(1, 2)), 1, allowed=draw(ALLOWED)) for number in range(4)
    ]
    sites = [Site(name, draw(st.integers(2, 4)), draw(st.sampled_from([2, 9]))) for name in NAMES]
    return MeshView(tuple(sites), ANY_TO_ANY, (Source("in", "a", 1),), tuple(jobs))


@given(data=st.data(), view=crowded())
def test_moves_when_carried_out_then_never_overload_a_site(data: st.DataObject, view: MeshView) -> None:
    fitting = feasible_placements(view)
    assume(fitting)
    current, wanted = data.draw(st.sampled_from(fitting)), data.draw(st.sampled_from(fitting))

    try:
        moves = order_of_moves(view, current, wanted)
    except NoSafeOrder:
        assert not reachable(view, current, wanted)
        return

    places = dict(current)
    for move in moves:
        assert places[move.job] == move.origin
        assert has_room(view, places, move.job, move.target)
        assert move.temporary == (move.target != wanted[move.job])
        places[move.job] = move.target
    assert places == wanted
    assert any(move.temporary for move in moves) == (len(moves) > len({move.job for move in moves}))


def feasible_placements(view: MeshView) -> list[Placement]:
    names = [job.name for job in view.jobs]
    every = itertools.product(view.site, repeat=len(names))
    placements = [dict(zip(names, sites, strict=True)) for sites in every]
    return [one for one in placements if evaluate(view, one).feasible]


def has_room(view: MeshView, places: Placement, job: str, site: str) -> bool:
    there = {job, *(one for one, place in places.items() if place == site)}
    limits = view.site[site]
    return (
        sum(view.cores_of(view.job[one]) for one in there) <= limits.cores + 1e-9
        and sum(view.job[one].memory_mb for one in there) <= limits.memory_mb + 1e-9
        and view.job[job].may_run_at(site)
    )


def reachable(view: MeshView, current: Placement, wanted: Placement) -> bool:
    """True if any order of moves of the jobs that change leads from one placement to the other."""
    changing = [job for job in current if current[job] != wanted[job]]
    seen = {tuple(current.values())}
    queue = deque([dict(current)])
    while queue:
        places = queue.popleft()
        for job, site in itertools.product(changing, view.site):
            following = {**places, job: site}
            state = tuple(following.values())
            if state not in seen and has_room(view, places, job, site):
                seen.add(state)
                queue.append(following)
    return tuple(wanted.values()) in seen
