"""A bridge takes messages for repetitions only if they continue to the very end of the stored ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from towpath.brokers.overlap import Overlap, Seen


@dataclass(frozen=True)
class Delivery:
    packet: int
    payload: str
    again: bool = True

    @property
    def seen(self) -> Seen:
        return Seen(self.packet, self.payload)


def numbered(*payloads: str, first: int = 1) -> list[Seen]:
    return [Seen(first + at, payload) for at, payload in enumerate(payloads)]


def told_apart(stored: Sequence[Seen], came: Sequence[Delivery]) -> tuple[list[Delivery], list[Delivery]]:
    """Known and new, when nothing more comes."""
    overlap: Overlap[Delivery] = Overlap(stored)
    known: list[Delivery] = []
    new: list[Delivery] = []
    for delivery in came:
        now_known, now_new = overlap.offer(delivery)
        known += now_known
        new += now_new
    return known, new + overlap.give_up()


def test_repetition_when_it_runs_to_the_end_of_what_is_stored_then_is_known() -> None:
    came = [Delivery(2, "b"), Delivery(3, "c"), Delivery(4, "d"), Delivery(5, "e", again=False)]
    assert told_apart(numbered("a", "b", "c"), came) == (came[:2], came[2:])


def test_repetition_when_it_stops_before_the_end_then_counts_as_new() -> None:
    came = [Delivery(2, "b"), Delivery(5, "e", again=False)]
    assert told_apart(numbered("a", "b", "c"), came) == ([], came)


def test_repetition_when_nothing_follows_before_the_end_then_counts_as_new() -> None:
    assert told_apart(numbered("a", "b", "c"), [Delivery(2, "b")]) == ([], [Delivery(2, "b")])


def test_message_when_it_looks_like_a_stored_one_without_flag_then_is_new() -> None:
    came = [Delivery(3, "c", again=False)]
    assert told_apart(numbered("a", "b", "c"), came) == ([], came)


def test_message_when_packet_id_is_that_of_another_payload_then_is_new() -> None:
    came = [Delivery(3, "x"), Delivery(4, "d")]
    assert told_apart(numbered("a", "b", "c"), came) == ([], came)


def test_message_when_broker_uses_packet_ids_again_then_is_new() -> None:
    stored = [Seen(1, "a"), Seen(1, "a")]
    assert told_apart(stored, [Delivery(1, "a")]) == ([], [Delivery(1, "a")])


def test_message_when_nothing_is_stored_then_is_new() -> None:
    assert told_apart([], [Delivery(1, "a")]) == ([], [Delivery(1, "a")])


@given(
    payloads=st.lists(st.sampled_from("ab"), max_size=40),
    first=st.integers(min_value=1, max_value=65_535),
    acknowledged=st.integers(min_value=0, max_value=40),
    stored=st.integers(min_value=0, max_value=40),
    sent=st.integers(min_value=0, max_value=40),
)
def test_every_message_when_connection_broke_anywhere_then_is_stored_once(
    payloads: list[str], first: int, acknowledged: int, stored: int, sent: int
) -> None:
    """A broker that counts packet ids up, payloads that are mostly equal, and a loss at any three places."""
    acknowledged, stored, sent = sorted(min(each, len(payloads)) for each in (acknowledged, stored, sent))
    ids = [(first + at - 1) % 65_535 + 1 for at in range(len(payloads))]
    log = [Seen(ids[at], payloads[at]) for at in range(stored)]
    came = [Delivery(ids[at], payloads[at], again=at < sent) for at in range(acknowledged, len(payloads))]
    known, new = told_apart(log, came)
    assert known == came[: stored - acknowledged]
    assert [*log, *(each.seen for each in new)] == [Seen(*each) for each in zip(ids, payloads, strict=True)]
