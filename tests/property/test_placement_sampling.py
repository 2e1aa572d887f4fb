"""Sampling ratios lower the latency as far as quality and F allow, and no other ratios lower it further."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from towpath.placement.data.query_reads import Candidate, Reads
from towpath.placement.data.sampling_ratios import LEAST_RATIO, sampling_ratios

BETA_MS = 1.0
latencies = st.lists(st.floats(0.1, 100), min_size=1, max_size=10)
averages = st.floats(0, 1)
shares = st.floats(LEAST_RATIO, 1)


def reads_of(latencies_ms: list[float], staleness_ms: float = 2.0) -> Reads:
    return Reads(tuple(Candidate("a", latency, staleness_ms, takes_place=True) for latency in latencies_ms))


@given(latencies_ms=latencies, average=averages)
def test_ratios_when_any_spouts_read_then_keep_f_and_the_quality(
    latencies_ms: list[float], average: float
) -> None:
    reads = reads_of(latencies_ms)

    ratios = sampling_ratios(latencies_ms, average)

    assert reads.cost_ms2(BETA_MS, ratios) == pytest.approx(reads.cost_ms2(BETA_MS), rel=1e-12)
    assert sum(ratios) / len(ratios) >= average
    assert all(LEAST_RATIO <= ratio <= 1 for ratio in ratios)
    assert reads.sampled_latency_ms(ratios) <= reads.latency_ms


@given(spouts=st.lists(st.tuples(st.floats(0.1, 100), shares), min_size=1, max_size=6))
def test_f_when_any_shares_are_kept_then_is_no_lower_than_without_sampling(
    spouts: list[tuple[float, float]],
) -> None:
    reads = reads_of([latency for latency, _ in spouts])

    cost_ms2 = reads.cost_ms2(BETA_MS, [share for _, share in spouts])

    assert cost_ms2 >= reads.cost_ms2(BETA_MS) * (1 - 1e-12)


@given(latencies_ms=latencies, cap=st.floats(0, 1), average=averages, data=st.data())
def test_ratios_when_others_keep_f_and_the_quality_then_have_no_lower_latency(
    latencies_ms: list[float], cap: float, average: float, data: st.DataObject
) -> None:
    reads = reads_of(latencies_ms)
    longest = max(latencies_ms)
    # Shares of any kind keep F only if none is below that of the slowest, under one common cap.
    least = max(cap, LEAST_RATIO)
    highest = [min(1.0, least * longest / latency) for latency in latencies_ms]
    others = [data.draw(st.floats(least, max(least, ratio))) for ratio in highest]
    assume(sum(others) / len(others) >= average)
    assume(reads.cost_ms2(BETA_MS, others) <= reads.cost_ms2(BETA_MS) * (1 + 1e-9))

    ratios = sampling_ratios(latencies_ms, average)

    assert reads.sampled_latency_ms(ratios) <= reads.sampled_latency_ms(others) * (1 + 1e-8)
