"""Reads of a query are the best of all choices, and both ways to find them agree."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from towpath.placement.data.limited_reads import limited_reads
from towpath.placement.data.query_reads import Candidate, ReadingQuery, Reads, Spout, within_places
from towpath.placement.data.read_placement import enumerated_reads, place_reads

NODES = ["a", "b", "c", "d"]
numbers = st.one_of(st.integers(0, 6).map(float), st.floats(0.1, 10))
"""Integers make ties."""

candidates = st.builds(Candidate, st.sampled_from(NODES), numbers, numbers, st.booleans())
spouts = st.builds(
    Spout,
    st.just("spout"),
    st.lists(candidates, min_size=1, max_size=4, unique_by=lambda one: one.node).map(tuple),
)
queries = st.builds(
    ReadingQuery,
    st.lists(spouts, min_size=1, max_size=4).map(tuple),
    st.sampled_from([0.0, 0.5, 1.0, 20.0]),
    st.dictionaries(st.sampled_from(NODES), st.integers(0, 2)),
)


def unlimited(query: ReadingQuery) -> ReadingQuery:
    return ReadingQuery(query.spouts, query.beta_ms)


def best_of_all(query: ReadingQuery) -> tuple[float, float, int, float] | None:
    """F, D, copies and sum of latencies of the best choice, by looking at every one."""
    choices = (Reads(chosen) for chosen in product(*(spout.candidates for spout in query.spouts)))
    allowed = [measures(reads, query) for reads in choices if within_places(query, reads.chosen)]
    return min(allowed, default=None)


def measures(reads: Reads, query: ReadingQuery) -> tuple[float, float, int, float]:
    total = sum(sorted(candidate.latency_ms for candidate in reads.chosen))
    return reads.cost_ms2(query.beta_ms), reads.staleness_ms, reads.copies, total


@given(query=queries)
def test_enumerated_reads_when_nodes_have_no_limit_then_are_the_best_of_all(query: ReadingQuery) -> None:
    query = unlimited(query)

    reads = enumerated_reads(query)

    best = best_of_all(query)
    assert best is not None
    assert measures(reads, query)[0] == best[0]
    if best[0] > 0:  # With β = D = 0, any L has F = 0, and the least L is taken before the fewest copies.
        assert measures(reads, query) == best


@settings(max_examples=60)
@given(query=queries)
def test_solved_reads_when_nodes_have_no_limit_then_are_as_good_as_enumerated_ones(
    query: ReadingQuery,
) -> None:
    query = unlimited(query)

    solved = limited_reads(query)

    assert solved is not None
    assert measures(solved, query) == pytest.approx(measures(enumerated_reads(query), query), rel=1e-5)


@settings(max_examples=80)
@given(query=queries)
def test_placed_reads_when_places_are_short_then_are_the_best_of_all(query: ReadingQuery) -> None:
    reads = place_reads(query)

    best = best_of_all(query)
    if best is None:
        assert reads is None
        return
    assert reads is not None
    assert within_places(query, reads.chosen)
    found = measures(reads, query)
    assert found[0] == best[0]
    if best[0] > 0:
        assert found[1:3] == best[1:3]
        assert found[3] == pytest.approx(best[3], rel=1e-5)
