"""A page of the origin, the batch it becomes, and the receiver's account of it."""

from __future__ import annotations

from collections.abc import Sequence

from towpath.contracts.data_plane import STORED_AT_HEADER, UPLINK_GONE_HEADER
from towpath.contracts.uplink import ResolvedUplink, UplinkSpec
from towpath.streams.pages import StoredMessage
from towpath.uplinks.account import Account
from towpath.uplinks.batches import LaneBatch, batch_of
from towpath.uplinks.position import Lane, Position
from towpath.uplinks.reading import sort_out

SPEC = UplinkSpec(name="axles", site="train", topic="axles/events", to="cloud")
UPLINK = ResolvedUplink(spec=SPEC, stream="OUT_axles")
MUCH = 10**6


def event(serial: int, size: int = 10) -> StoredMessage:
    return StoredMessage(serial, "s", {STORED_AT_HEADER: f"2026-01-01T00:00:{serial % 60:02}Z"}, b"x" * size)


def events(serials: Sequence[int]) -> list[StoredMessage]:
    return [event(serial) for serial in serials]


def batch(
    lane: Lane, position: Position, serials: Sequence[int], wanted: tuple[int, int], **kept: int
) -> LaneBatch:
    read = sort_out(events(serials), wanted, kept.get("first_kept", 1), is_whole=True)
    made = batch_of(UPLINK, lane, position, read, MUCH)
    assert made is not None
    return made


def account_of(*batches: LaneBatch) -> Account:
    account = Account()
    for each in batches:
        for message in each.messages:
            account.take(message.headers)
    return account


def test_page_when_the_stream_has_a_hole_then_it_is_gone() -> None:
    read = sort_out(events([5, 6, 9]), (3, 9), 5, is_whole=True)

    assert read.gone == [(3, 4), (7, 8)]


def test_page_of_a_shared_stream_when_only_other_topics_lie_between_then_nothing_is_gone() -> None:
    read = sort_out(events([5, 9]), (3, 9), 1, is_whole=False)

    assert read.gone == []


def test_page_of_a_shared_stream_when_retention_passed_it_then_what_it_took_is_gone() -> None:
    read = sort_out(events([9]), (3, 12), 7, is_whole=False)

    assert read.gone == [(3, 6)]


def test_page_when_a_later_message_is_found_then_the_range_is_exhausted() -> None:
    read = sort_out(events([5, 20]), (3, 12), 3, is_whole=False)

    assert [message.serial for message in read.events] == [5]
    assert read.through == 12


def test_batch_when_something_is_gone_then_a_notice_comes_first() -> None:
    made = batch(Lane.LIVE, Position(live=2), [5, 6], (3, 6))

    assert made.messages[0].headers[UPLINK_GONE_HEADER] == "3-4"
    assert made.position.discarded == 2
    assert made.position.live == 6


def test_batch_when_not_all_fits_then_it_ends_early() -> None:
    read = sort_out([event(n, 1000) for n in (1, 2, 3)], (1, 3), 1, is_whole=True)

    made = batch_of(UPLINK, Lane.LIVE, Position(), read, 3300)

    assert made is not None
    assert made.position.live == 2
    assert made.size <= 3300


def test_batch_when_not_all_fits_then_what_is_gone_behind_its_end_is_told_later() -> None:
    read = sort_out([event(n, 1000) for n in (1, 4, 7)], (1, 7), 1, is_whole=True)

    first = batch_of(UPLINK, Lane.LIVE, Position(), read, 3500)
    assert first is not None
    assert first.messages[0].headers[UPLINK_GONE_HEADER] == "2-3"
    assert first.position.live == 4
    second = batch(Lane.LIVE, first.position, [7], (5, 7))

    assert second.position.discarded == 4
    assert account_of(first, second).proof().gone == ((2, 3), (5, 6))


def test_batch_when_not_even_one_event_fits_then_there_is_none() -> None:
    read = sort_out([event(1, 1000)], (1, 1), 1, is_whole=True)

    assert batch_of(UPLINK, Lane.LIVE, Position(), read, 900) is None


def test_batch_of_the_late_lane_when_nothing_is_there_then_a_notice_ends_the_range() -> None:
    read = sort_out([], (3, 9), 1, is_whole=False)

    made = batch_of(UPLINK, Lane.LATE, Position(live=20, pending=((3, 9),)), read, MUCH)

    assert made is not None
    assert made.position.pending == ()
    assert account_of(made).proof().missing == ()


def test_account_when_live_and_late_are_there_then_it_is_complete() -> None:
    live = batch(Lane.LIVE, Position().jumped(4, "t"), [5, 6], (5, 6))
    late = batch(Lane.LATE, live.position, [1, 2, 3, 4], (1, 4))

    proof = account_of(live, late).proof()

    assert proof.is_complete
    assert (proof.events, proof.through) == (6, 6)


def test_account_when_the_late_lane_is_under_way_then_the_rest_is_pending() -> None:
    live = batch(Lane.LIVE, Position().jumped(4, "t"), [5, 6], (5, 6))
    late = batch(Lane.LATE, live.position, [1, 2], (1, 2))

    assert account_of(live, late).proof().pending == ((3, 4),)


def test_account_when_a_message_was_deleted_then_its_serial_number_is_missing() -> None:
    first = batch(Lane.LIVE, Position(), [1, 2, 3, 4, 5], (1, 5))
    account = Account()
    for message in [*first.messages[:2], *first.messages[3:]]:
        account.take(message.headers)

    assert account.proof().missing == ((3, 3),)


def test_account_when_an_event_comes_again_then_it_is_counted() -> None:
    first = batch(Lane.LIVE, Position(), [1, 2], (1, 2))

    assert account_of(first, first).proof().repeated == 2


def test_account_when_it_begins_in_the_middle_then_it_says_so() -> None:
    first = batch(Lane.LIVE, Position(), [1, 2, 3], (1, 3))
    second = batch(Lane.LIVE, first.position, [4, 5], (4, 5))

    proof = account_of(second).proof()

    assert proof.begins_after == 3
    assert proof.is_complete


def test_account_when_retention_took_events_then_they_are_gone_and_not_missing() -> None:
    proof = account_of(batch(Lane.LIVE, Position(), [4, 5], (1, 5), first_kept=4)).proof()

    assert proof.gone == ((1, 3),)
    assert proof.missing == ()
