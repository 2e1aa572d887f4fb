"""Copies near the hub: begun where they pay, kept while they do, and within the places of sites."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from towpath.placement.data.near_copies import DESTINATIONS, NearbySites, near_copies

FAR = {"far": 200.0, "cloud": 2.0, "lga": 5.0}
"""Sites with their latencies, milliseconds."""


def sites(
    latency_ms: Mapping[str, float], copies_at: Mapping[str, list[str]] | None = None, beta_ms: float = 1000.0
) -> NearbySites:
    return NearbySites(latency_ms, copies_at or {}, beta_ms, interval_ms=500.0)


def begun(
    latency_ms: Mapping[str, float],
    copies_at: Mapping[str, list[str]] | None = None,
    most_copies: int = 5,
    beta_ms: float = 1000.0,
) -> dict[str, str]:
    """Return the copies that there are to be."""
    chosen = near_copies(sites(latency_ms, copies_at, beta_ms), most_copies)
    return {owner: site for owner, site in chosen.items() if site is not None}


def test_copy_when_a_site_is_far_then_is_at_the_nearest_one() -> None:
    assert begun(FAR) == {"far": "cloud"}


@pytest.mark.parametrize(("far_ms", "copies"), [(62.0, {}), (63.0, {"far": "lga"})])
def test_copy_when_it_lowers_f_by_less_than_a_fifth_then_is_not_begun(
    far_ms: float, copies: dict[str, str]
) -> None:
    # With this beta, F is all but proportional to the latency.
    near = NearbySites({"far": far_ms, "lga": 50.0}, {}, beta_ms=1e6, interval_ms=500.0)

    assert {o: at for o, at in near_copies(near, 5).items() if at} == copies


def test_copy_when_there_is_one_then_is_kept_until_the_site_itself_is_as_good() -> None:
    held = {"far": ["cloud"]}

    assert begun({"far": 23.0, "cloud": 20.0}, held, beta_ms=1e6) == {"far": "cloud"}
    assert begun({"far": 20.0, "cloud": 20.0}, held) == {}


def test_copy_when_it_would_save_a_few_milliseconds_then_is_not_begun() -> None:
    assert begun({"lga": 9.0, "cloud": 0.5}) == {}


def test_copy_when_another_site_is_as_slow_and_nothing_helps_then_is_not_begun() -> None:
    assert begun({"far": 200.0, "further": 210.0}) == {}


def test_copies_when_places_are_taken_then_go_to_the_next_site() -> None:
    held = {"lga": ["cloud"], "cloud": []}

    assert begun(FAR, held, most_copies=1) == {"far": "lga"}


def test_copies_when_two_sites_compete_for_one_place_then_each_gets_its_own_destination() -> None:
    chosen = begun({"far": 200.0, "further": 300.0, "cloud": 2.0, "lga": 5.0}, most_copies=1)

    assert sorted(chosen) == ["far", "further"]
    assert sorted(chosen.values()) == ["cloud", "lga"]


def test_copies_when_sites_may_have_none_then_are_not_begun() -> None:
    assert begun(FAR, most_copies=0) == {}


def test_copies_when_the_mesh_is_large_then_are_at_few_of_its_sites() -> None:
    latency_ms = {f"s{number}": 1.0 + number for number in range(100)}

    chosen = begun(latency_ms, most_copies=4)

    assert 0 < len(set(chosen.values())) <= DESTINATIONS


def test_reads_when_latencies_are_not_known_then_are_not_planned() -> None:
    assert sites({}).reads(["far"]) is None
    assert near_copies(sites({}), 5) == {}


def test_reads_when_the_holder_is_down_then_are_at_the_site() -> None:
    found = sites({"far": 200.0}, {"far": ["cloud"]}).reads(["far"])

    assert found is not None
    assert [read.node for read in found.chosen] == ["far"]


def test_reads_when_their_staleness_is_worse_than_the_latency_then_are_at_the_site() -> None:
    held = {"far": ["cloud"]}
    near = sites({"far": 20.0, "cloud": 10.0}, held, beta_ms=100.0).reads(["far"])

    assert near is not None
    assert [(read.node, read.staleness_ms) for read in near.chosen] == [("far", 0.0)]
