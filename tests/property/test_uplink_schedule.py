"""Sharing a link: each promise of `schedule.py` for any lanes and sizes, and the pace of any link."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from towpath.uplinks.pace import QUEUE_S, Flight, LinkPace
from towpath.uplinks.schedule import FLOOR, Schedule, Waiting

LARGEST = 1000

LANES = st.lists(
    st.tuples(st.integers(0, 9), st.booleans(), st.sampled_from([0.1, 0.3, 0.7])), min_size=1, max_size=6
).map(lambda found: [Waiting(f"u{n}", *each) for n, each in enumerate(found)])
SIZES = st.lists(st.integers(1, LARGEST), min_size=200, max_size=400)


def served(lanes: list[Waiting], sizes: list[int]) -> list[tuple[Waiting, int]]:
    schedule, turns = Schedule(), []
    for size in sizes:
        chosen = schedule.next(lanes)
        assert chosen is not None
        schedule.sent(chosen, size, lanes)
        turns.append((chosen, size))
    return turns


@given(LANES, SIZES)
def test_backlog_when_new_events_wait_too_then_it_has_its_share_to_within_a_batch(
    lanes: list[Waiting], sizes: list[int]
) -> None:
    kinds = {lane.is_backlog for lane in lanes}
    share = max((lane.share for lane in lanes if lane.is_backlog), default=0.0)
    backlog = total = 0
    for lane, size in served(lanes, sizes):
        total += size
        backlog += size * lane.is_backlog
        if len(kinds) == 2:
            assert abs(backlog - share * total) <= LARGEST


@given(LANES, SIZES)
def test_lane_when_it_waits_then_it_is_served_within_its_floor(
    lanes: list[Waiting], sizes: list[int]
) -> None:
    share = min([1.0, *(s for lane in lanes for s in (lane.share, 1 - lane.share))])
    longest = (len(lanes) + 1) * LARGEST / (FLOOR * share)
    since = Counter({lane.uplink: 0 for lane in lanes})
    for chosen, size in served(lanes, sizes):
        for lane in lanes:
            since[lane.uplink] += size
        since[chosen.uplink] = 0
        assert max(since.values()) <= longest


@given(SIZES)
def test_priority_when_one_lane_has_the_lower_number_then_it_has_all_but_the_floor(sizes: list[int]) -> None:
    first, second = Waiting("a", 1, False, 0.3), Waiting("b", 5, False, 0.3)
    had = Counter[str]()
    for lane, size in served([first, second], sizes):
        had[lane.uplink] += size

    assert had["a"] >= (1 - FLOOR) * sum(sizes) - LARGEST


@given(st.floats(20_000, 5_000_000), st.floats(0.001, 0.6))
def test_pace_when_a_backlog_fills_any_link_then_bytes_wait_briefly_and_the_link_is_full(
    rate: float, length_s: float
) -> None:
    pace, now, free_at = LinkPace(), 0.0, 0.0
    flights: list[tuple[float, Flight]] = []
    queued: list[float] = []
    delivered = 0
    begun = 0.0
    for turn in range(1200):
        while pace.has_room(now):
            free_at = max(free_at, now) + pace.batch / rate
            queued.append(free_at - now)
            flights.append((free_at + length_s, pace.sent(pace.batch, now)))
        now, flight = flights.pop(0)
        pace.answered(flight, now)
        delivered += flight.size
        if turn == 200:  # By then it knows the link.
            queued, delivered, begun = [], 0, now

    assert max(queued) <= 4 * QUEUE_S + 2 * length_s
    assert delivered / (now - begun) >= 0.7 * rate
