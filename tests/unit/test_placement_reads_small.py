"""Reads of small queries, whose best choice can be seen."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping

import pytest

from towpath.placement.data.query_reads import Candidate, ReadingQuery, Reads, Spout
from towpath.placement.data.read_placement import place_reads
from towpath.placement.data.sampling_ratios import sampling_ratios


def source(latency_ms: float) -> Candidate:
    return Candidate("source", latency_ms, 0.0, takes_place=False)


def copy(node: str, latency_ms: float, staleness_ms: float) -> Candidate:
    return Candidate(node, latency_ms, staleness_ms, takes_place=True)


def query(*spouts: tuple[Candidate, ...], places: Mapping[str, int] | None = None) -> ReadingQuery:
    named = tuple(Spout(f"s{place}", candidates) for place, candidates in enumerate(spouts))
    return ReadingQuery(named, beta_ms=1.0, places=places or {})


def nodes(reads: Reads | None) -> list[str]:
    assert reads is not None
    return [candidate.node for candidate in reads.chosen]


def test_reads_when_a_copy_saves_more_latency_than_its_staleness_costs_then_use_it() -> None:
    near, stale = (source(10.0), copy("a", 2.0, 1.0)), (source(10.0), copy("a", 2.0, 4.0))

    assert nodes(place_reads(query(near))) == ["a"]
    assert nodes(place_reads(query(stale))) == ["source"]


def test_reads_when_another_spout_is_slow_anyway_then_stay_at_the_source() -> None:
    slow, quick = (source(10.0),), (source(9.0), copy("a", 1.0, 0.0))

    assert nodes(place_reads(query(slow, quick))) == ["source", "source"]


def test_reads_when_one_place_is_left_then_the_slower_spout_gets_it() -> None:
    slow, slower = (source(10.0), copy("a", 1.0, 0.1)), (source(20.0), copy("a", 1.0, 0.1))

    reads = place_reads(query(slow, slower, places={"a": 1}))

    assert nodes(reads) == ["source", "a"]
    assert reads is not None
    assert reads.cost_ms2(1.0) == pytest.approx(11.0)


def test_solver_when_it_starts_in_a_process_then_prints_nothing() -> None:
    code = "from towpath.placement.data.limited_reads import _SilentHighs; _SilentHighs().minimize()"

    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)

    assert run.stdout == b""


def test_reads_when_the_copy_is_there_already_then_need_no_place() -> None:
    held = Candidate("a", 1.0, 0.1, takes_place=False)

    assert nodes(place_reads(query((source(10.0), held), places={"a": 0}))) == ["a"]


def test_reads_when_no_place_is_left_then_are_none() -> None:
    only = (copy("a", 1.0, 0.1),)

    assert place_reads(query(only, only, places={"a": 1})) is None


def test_query_when_a_number_makes_no_sense_then_is_refused() -> None:
    with pytest.raises(ValueError, match="'a' must be finite"):
        copy("a", -1.0, 0.0)
    with pytest.raises(ValueError, match="'s0' has no node"):
        query(())
    with pytest.raises(ValueError, match="'s0' names a node twice"):
        query((copy("a", 1.0, 0.0), copy("a", 2.0, 0.0)))
    with pytest.raises(ValueError, match="at least one spout"):
        query()
    with pytest.raises(ValueError, match="places must not be negative"):
        query((source(1.0),), places={"a": -1})
    with pytest.raises(ValueError, match="beta must be finite"):
        ReadingQuery((Spout("s", (source(1.0),)),), beta_ms=float("inf"))


def test_ratios_when_one_spout_is_slow_then_only_it_is_sampled() -> None:
    assert sampling_ratios([1.0, 1.0, 10.0], 0.8) == (1.0, 1.0, pytest.approx(0.4))


def test_ratios_when_the_average_would_allow_less_then_are_a_tenth_at_least() -> None:
    assert sampling_ratios([0.0, 1.0, 1000.0], 0.5) == (1.0, pytest.approx(1.0), pytest.approx(0.1))


@pytest.mark.parametrize(("latencies_ms", "average"), [([], 0.8), ([-1.0], 0.8), ([1.0], 1.1)])
def test_ratios_when_a_number_makes_no_sense_then_are_refused(
    latencies_ms: list[float], average: float
) -> None:
    with pytest.raises(ValueError, match=r"latency|average"):
        sampling_ratios(latencies_ms, average)
