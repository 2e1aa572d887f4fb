"""Samples of events by their serial numbers."""

from __future__ import annotations

import struct

import numpy as np
import xxhash

from towpath.streams.sampling import STEPS, places, sampled


def test_sample_when_compared_with_sparks_hash_then_has_the_same_events() -> None:
    # select id, pmod(xxhash64(id), 1000000) from range(1, 6)
    assert places(range(1, 6)).tolist() == [954_418, 606_989, 108_107, 566_627, 458_373]


def test_places_when_compared_with_the_package_of_the_hash_then_are_the_same() -> None:
    serials = [0, 1, 2**31, 2**40 + 7, 2**63 - 1, *range(10_000, 10_100)]
    hashes = [xxhash.xxh64_intdigest(struct.pack("<q", serial), 42) for serial in serials]

    assert places(serials).tolist() == [int(np.uint64(one).astype(np.int64)) % STEPS for one in hashes]


def test_places_when_there_is_no_event_then_are_none() -> None:
    assert places([]).tolist() == []


def test_sample_when_its_share_is_larger_then_holds_the_smaller_one() -> None:
    small, large = ({*np.flatnonzero(sampled(range(20_000), share)).tolist()} for share in (0.2, 0.5))

    assert small < large
    assert abs(len(small) / 20_000 - 0.2) < 0.01
