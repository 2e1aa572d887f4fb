"""Both algorithms find the outliers of the definition, however values arrive, expire, and state is saved."""

from __future__ import annotations

import math
import random

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from running.outliers import obvious
from towpath.outliers.algorithms import ALGORITHMS
from towpath.outliers.detection import Outlier, OutlierDetector
from towpath.outliers.pmcod import Pmcod

Slide = tuple[list[float], float, bool]
"""Values, the share of the window that expires, and whether state is saved and restored after it."""

numbers = st.one_of(
    st.integers(-8, 8).map(lambda n: n / 10),  # No decimals as doubles: distances are rounded.
    st.integers(20, 60).map(lambda n: n * 0.1),
    st.floats(-2, 2),
    st.integers(-6, 6).map(lambda n: n * 5e-324),  # Half of R may be no double.
    st.sampled_from([0.0, -0.0, 0.5, 1e16, 1e16 + 2, -1.7e308, 1.7e308]),
)
bursts = st.builds(lambda value, count: [value] * count, numbers, st.integers(1, 12))
arrivals = st.one_of(st.lists(numbers, max_size=25), bursts)
shares = st.sampled_from([0.0, 0.1, 0.3, 0.6, 1.0])
slides = st.lists(st.tuples(arrivals, shares, st.booleans()), min_size=1, max_size=10)
ks = st.integers(0, 8)
rs = st.sampled_from([0.0, 5e-324, 1.5e-323, 0.1, 0.3, 0.5, 1.0, 1e308])


def restored(detector: OutlierDetector, k: int, r: float) -> OutlierDetector:
    """Another detector that goes on where this one is."""
    other = type(detector)(k, r)
    other.restore(msgspec.msgpack.decode(msgspec.msgpack.encode(detector.saved())))
    return other


def plain(found: list[Outlier]) -> list[tuple[int, float, int, str]]:
    return [(one.number, one.value, one.neighbours, one.explanation) for one in found]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@given(k=ks, r=rs, steps=slides)
def test_outliers_when_values_come_and_go_then_are_those_of_the_definition(
    algorithm: str, k: int, r: float, steps: list[Slide]
) -> None:
    detector = ALGORITHMS[algorithm](k, r)
    moved = ALGORITHMS[algorithm](k, r)
    stream: list[float] = []
    first = 0
    for values, share, moves in steps:
        stream += values
        expired = round(share * (len(stream) - first))
        first += expired

        found = detector.slide(values, expired)

        assert plain(found) == obvious(stream[first:], k, r, first)
        assert moved.slide(values, expired) == found
        if moves:
            moved = restored(moved, k, r)


@given(seed=st.integers(0, 2**32), k=st.integers(1, 20), spread=st.floats(0.5, 20))
def test_pmcod_when_values_drift_then_micro_clusters_are_dense_and_outliers_those_of_the_definition(
    seed: int, k: int, spread: float
) -> None:
    chance = random.Random(seed)
    stream = [chance.gauss(place / 40, spread / 4) for place in range(240)]
    detector, r = Pmcod(k, 0.5), 0.5
    for end in range(20, 241, 20):
        first = max(end - 80, 0)

        found = detector.slide(stream[end - 20 : end], first - detector.expired)

        assert plain(found) == obvious(stream[first:end], k, r, first)
        centres = check_micro_clusters(detector, k, r)
        for one in found:
            assert one.cluster_distance == min((abs(one.value - c) for c in centres), default=None)


def check_micro_clusters(detector: Pmcod, k: int, r: float) -> list[float]:
    """Each has more than K values within R/2, as the saved state says. Return their centres."""
    _, values, homes, centres = detector.saved()
    members: dict[int, list[float]] = {}
    for value, home in zip(np.frombuffer(values), np.frombuffer(homes, np.int32), strict=True):
        members.setdefault(int(home), []).append(float(value))
    members.pop(-1, None)
    places = np.frombuffer(centres).tolist()
    assert sorted(members) == [*range(len(places))]
    for home, inside in members.items():
        assert len(inside) > k
        assert max(abs(value - places[home]) for value in inside) <= r / 2
    assert all(math.isfinite(place) for place in places)
    return places
