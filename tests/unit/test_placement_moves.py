"""The order of moves where room is scarce."""

from __future__ import annotations

from dataclasses import replace

import pytest

from towpath.placement.jobs.moves import Move, NoSafeOrder, order_of_moves
from towpath.placement.jobs.view import Job, MeshView, Site, Source

SITES = (Site("a", 2, 100), Site("b", 2, 100), Site("c", 0, 100))
JOBS = (Job("x", ("in",), 2, 10), Job("y", ("in",), 2, 10))
VIEW = MeshView(SITES, (), (Source("in", "a", 1),), JOBS)
SWAPPED = {"x": "a", "y": "b"}, {"x": "b", "y": "a"}


def test_moves_when_nothing_changes_then_are_none() -> None:
    assert order_of_moves(VIEW, SWAPPED[0], SWAPPED[0]) == ()


def test_moves_when_one_makes_room_for_another_then_it_goes_first() -> None:
    view = replace(VIEW, sites=(*SITES[:2], replace(SITES[2], cores=2)))

    moves = order_of_moves(view, {"x": "a", "y": "b"}, {"x": "b", "y": "c"})

    assert moves == (Move("y", "b", "c"), Move("x", "a", "b"))


def test_moves_when_two_full_sites_swap_then_one_job_waits_elsewhere() -> None:
    view = replace(VIEW, sites=(*SITES[:2], replace(SITES[2], cores=2)))

    moves = order_of_moves(view, *SWAPPED)

    assert moves == (
        Move("x", "a", "c", temporary=True),
        Move("y", "b", "a"),
        Move("x", "c", "b"),
    )


def test_moves_when_only_one_job_may_wait_elsewhere_then_it_does() -> None:
    jobs = (replace(JOBS[0], allowed=frozenset({"a", "b"})), JOBS[1])
    view = replace(VIEW, sites=(*SITES[:2], replace(SITES[2], cores=2)), jobs=jobs)

    moves = order_of_moves(view, *SWAPPED)

    assert moves[0] == Move("y", "b", "c", temporary=True)


def test_moves_when_there_is_no_room_elsewhere_then_are_refused() -> None:
    with pytest.raises(NoSafeOrder, match="jobs x, y cannot move one after the other") as caught:
        order_of_moves(VIEW, *SWAPPED)

    assert caught.value.proven


def test_moves_when_a_site_is_overloaded_now_then_lead_away_from_it() -> None:
    view = replace(VIEW, sites=(replace(SITES[0], cores=1), *SITES[1:]))

    assert order_of_moves(view, {"x": "a", "y": "a"}, {"x": "b", "y": "a"}) == (Move("x", "a", "b"),)
