"""Samples of events by their serial numbers."""

from __future__ import annotations

from towpath.streams.sampling import is_sampled


def test_sample_when_compared_with_sparks_hash_then_has_the_same_events() -> None:
    # select id, pmod(xxhash64(id), 1000000) from range(1, 6)
    numbers = {1: 954_418, 2: 606_989, 3: 108_107, 4: 566_627, 5: 458_373}

    assert [serial for serial in numbers if is_sampled(serial, 0.5)] == [3, 5]
    assert all(not is_sampled(s, n / 1e6) and is_sampled(s, (n + 1) / 1e6) for s, n in numbers.items())


def test_sample_when_its_share_is_larger_then_holds_the_smaller_one() -> None:
    small, large = ({serial for serial in range(20_000) if is_sampled(serial, share)} for share in (0.2, 0.5))

    assert small < large
    assert abs(len(small) / 20_000 - 0.2) < 0.01
