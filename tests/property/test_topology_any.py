"""Journeys and outages of any node."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.contracts.errors import TowpathError
from towpath.contracts.topology import CoverageWindow, Node, NodeLink
from towpath.lab.topology.movements import journey, outages

links = st.one_of(st.none(), st.just(NodeLink(cut=True)), st.builds(NodeLink, delay_ms=st.floats(0, 1000)))
windows = st.builds(CoverageWindow, for_s=st.floats(0.5, 1000), link=links)
moving = st.builds(
    Node, name=st.just("train"), cores=st.just(1.0), coverage=st.lists(windows, min_size=1, max_size=6)
)


@given(moving, st.integers(1, 20))
def test_journey_of_any_node_when_travelled_then_has_no_gap_and_repeats_its_windows(
    node: Node, rounds: int
) -> None:
    legs = list(journey(node, rounds))
    assert all(one < other for (one, _), (other, _) in itertools.pairwise(legs))
    assert legs[-1][0] == pytest.approx(rounds * sum(window.for_s for window in node.coverage))
    assert [link for _, link in legs] == [window.link or node.link for window in node.coverage] * rounds


def test_journey_when_a_node_has_no_coverage_then_is_refused_at_once() -> None:
    with pytest.raises(TowpathError) as refused:
        journey(Node(name="jfk", cores=1), 1)
    assert refused.value.detail.field == "coverage"


@given(st.floats(0.3, 0.99), st.floats(1, 60), st.integers())
def test_outages_of_any_node_when_drawn_then_are_one_behind_the_other_and_the_same_for_the_same_seed(
    stability: float, outage_s: float, seed: int
) -> None:
    node = Node(name="jfk", cores=1, stability=stability, outage_s=outage_s)
    drawn = outages(node, 3600.0, seed)
    assert drawn == outages(node, 3600.0, seed)
    for one, other in itertools.pairwise(drawn):
        assert one.begin_s + one.for_s <= other.begin_s + 0.01
    assert all(0 <= outage.begin_s < 3600 for outage in drawn)


@pytest.mark.parametrize("stability", [0.8, 0.95])
def test_outages_when_drawn_over_a_long_time_then_the_node_is_up_as_often_as_it_says(
    stability: float,
) -> None:
    node = Node(name="jfk", cores=1, stability=stability, outage_s=20)
    length = 3_000_000.0
    away = sum(outage.for_s for outage in outages(node, length, 1))
    assert 1 - away / length == pytest.approx(stability, abs=0.01)


def test_outages_when_a_node_says_nothing_of_it_then_there_are_none() -> None:
    assert outages(Node(name="jfk", cores=1), 3600, 1) == []
    assert outages(Node(name="jfk", cores=1, stability=1.0), 3600, 1) == []
