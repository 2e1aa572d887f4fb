"""The position of an uplink: folded from its destination's messages, and renumbered."""

from __future__ import annotations

from towpath.contracts.data_plane import UPLINK_HEADER, UPLINK_POSITION_HEADER
from towpath.uplinks.position import EventPlace, Lane, Position, folded


def place(
    serial: int, lane: Lane = Lane.LIVE, *, after: int | None = None, through: int | None = None
) -> EventPlace:
    before = serial - 1 if after is None else after
    return EventPlace(0, lane, serial, before, through or serial, "t")


def test_position_when_it_jumps_to_new_events_then_what_is_between_is_pending() -> None:
    position = Position(life="a", live=10).jumped(50, "t50").with_event(place(51))

    assert position.pending == ((11, 50),)
    assert position.live == 51


def test_position_when_it_jumps_twice_without_an_event_between_then_the_ranges_are_one() -> None:
    position = Position(live=10).jumped(50, "t").jumped(70, "t")

    assert position.pending == ((11, 70),)


def test_late_event_when_its_range_has_no_other_then_the_range_ends() -> None:
    position = Position(live=100, pending=((11, 50), (60, 70)))

    assert position.with_event(place(20, Lane.LATE, after=10, through=50)).pending == ((60, 70),)
    assert position.with_event(place(20, Lane.LATE)).pending == ((21, 50), (60, 70))


def test_gone_events_when_they_are_next_in_the_live_lane_then_it_goes_on_behind_them() -> None:
    position = Position(live=10, pending=((3, 5),)).without([(2, 4), (11, 30)], 22)

    assert (position.live, position.pending, position.discarded) == (30, ((5, 5),), 22)


def test_position_when_only_an_earlier_message_tells_it_then_later_places_are_added() -> None:
    told = Position(life="a", live=5, pending=((1, 3),), forwarded=7)
    headers = [
        {UPLINK_HEADER: place(4).header()},
        {UPLINK_HEADER: place(5).header(), UPLINK_POSITION_HEADER: told.text()},
        {UPLINK_HEADER: place(6).header()},
        {UPLINK_HEADER: place(1, Lane.LATE).header()},
    ]

    found = folded(headers)

    assert found is not None
    assert (found.live, found.pending, found.forwarded) == (6, ((2, 3),), 9)


def test_position_when_no_message_tells_it_then_there_is_none() -> None:
    assert folded([{UPLINK_HEADER: place(4).header()}, {}]) is None


def test_position_when_the_origin_lost_its_end_then_later_serial_numbers_come_again() -> None:
    position = Position(life="a", live=100, pending=((40, 60),)).renumbered("a", 50)

    assert (position.live, position.pending, position.numbering) == (50, ((40, 50),), 1)
