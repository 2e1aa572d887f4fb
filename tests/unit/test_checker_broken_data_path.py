"""One bug in the data path, planted in Towpath's own code while it runs: the checker finds every one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from checker_data_path import BATCH, OUT, SIZE_S, DataPath, Engine, MemoryReader, Operator
from checker_server import Stream

from towpath.brokers.overlap import Overlap
from towpath.checker.verdict import Verdict
from towpath.streams import publisher, sink
from towpath.streams.acknowledged import Acknowledgement
from towpath.streams.failures import EventsLost
from towpath.streams.log_reader import LogReader
from towpath.streams.publisher import Publisher, _Sending

Patch = pytest.MonkeyPatch


@pytest.fixture
def path() -> Iterator[DataPath]:
    loop = asyncio.new_event_loop()
    yield DataPath(1, loop)
    loop.close()


def publisher_sends_no_message_id(path: DataPath, patch: Patch) -> Verdict:
    patch.setattr(publisher, "MESSAGE_ID_HEADER", "Some-Other-Id")
    patch.setattr(path, "hand_over", lambda engine, through: engine)
    return path.run()


def stream_forgets_ids_at_once(path: DataPath, patch: Patch) -> Verdict:
    path.server.streams[OUT].remembers = False
    patch.setattr(sink, "published_since", _nothing)
    return path.run()


def sink_does_not_read_back_what_it_published(path: DataPath, patch: Patch) -> Verdict:
    patch.setattr(sink, "published_since", _nothing)
    return path.run()


async def _nothing(*_: Any, **__: Any) -> set[str]:
    return set()


def sink_forgets_the_life_of_its_stream(path: DataPath, patch: Patch) -> Verdict:
    async def always_the_same(*_: Any) -> str:
        return "life"

    patch.setattr(sink, "stream_life", always_the_same)
    return path.deploy_again()


def sink_does_not_sort_its_batch(path: DataPath, patch: Patch) -> Verdict:
    real = _Sending.round

    async def backwards(self: _Sending, *arguments: Any, **options: Any) -> bool:
        self.messages = [*reversed(self.messages)]
        return await real(self, *arguments, **options)

    patch.setattr(_Sending, "round", backwards)
    patch.setattr("checker_data_path.BATCH", 250)
    return path.run()


def publisher_takes_a_refusal_for_storage(path: DataPath, patch: Patch) -> Verdict:
    real = _Sending._on_acknowledgement

    def content(self: _Sending, heard: Acknowledgement) -> None:
        real(self, heard._replace(is_stored=True, is_unheard=False))

    patch.setattr(_Sending, "_on_acknowledgement", content)
    return path.run()


def publisher_drops_the_end_of_a_batch(path: DataPath, patch: Patch) -> Verdict:
    real = Publisher.publish

    async def short(self: Publisher, messages: Any, **of: Any) -> int:
        return await real(self, messages[:-1] or messages, **of)

    patch.setattr(Publisher, "publish", short)
    return path.run()


def new_owner_repeats_what_was_taken_over(path: DataPath, patch: Patch) -> Verdict:
    patch.setattr(Publisher, "_pass_over", lambda *_: None)
    return path.run()


def output_accepts_the_former_owner_too(path: DataPath, patch: Patch) -> Verdict:
    real = path.accept

    def both(*epochs: int, overlap: str = "0-0") -> None:
        real(*range(1, max(epochs) + 1), overlap=overlap)

    patch.setattr(path, "accept", both)
    return path.run()


def source_counts_events_past_a_purge(path: DataPath, patch: Patch) -> Verdict:
    patch.setattr(LogReader, "_checked", lambda self, stream, position, messages: position + len(messages))
    patch.setattr(path, "reader", MemoryReader(path.stored, kept_from=45))
    return path.run()


def source_takes_a_purge_for_the_end(path: DataPath, patch: Patch) -> Verdict:
    def past(self: LogReader, stream: str, position: int, messages: list[Any]) -> int:
        return messages[-1].stream_sequence

    patch.setattr(LogReader, "_checked", past)
    patch.setattr(path, "reader", MemoryReader(path.stored, kept_from=45))
    return path.run()


def source_reads_the_last_event_again(path: DataPath, patch: Patch) -> Verdict:
    real = LogReader.read

    def once_more(self: LogReader, stream: str, after: int, through: int) -> Any:
        return real(self, stream, max(0, after - 1), through)

    patch.setattr(LogReader, "read", once_more)
    return path.run()


def source_skips_the_first_event_of_a_batch(path: DataPath, patch: Patch) -> Verdict:
    real = LogReader.read
    patch.setattr(
        LogReader, "read", lambda self, stream, after, through: real(self, stream, after + 1, through)
    )
    return path.run()


def intake_takes_what_comes_again_for_new(path: DataPath, patch: Patch) -> Verdict:
    patch.setattr(Overlap, "offer", lambda self, message: ([], [message]))
    return path.run()


def intake_takes_what_is_new_for_known(path: DataPath, patch: Patch) -> Verdict:
    real = Overlap.offer

    def forgetful(self: Any, message: Any) -> Any:
        known, new = real(self, message)
        return (known + new, []) if len(known) > 0 or message.event["id"] % 50 == 7 else (known, new)

    patch.setattr(Overlap, "offer", forgetful)
    return path.run()


def window_closes_before_its_end(path: DataPath, patch: Patch) -> Verdict:
    patch.setattr(Operator, "closes", lambda self, window: (window + 1) * SIZE_S - 1 <= self.watermark + 3)
    return path.run()


def window_has_its_end_and_not_its_start(path: DataPath, patch: Patch) -> Verdict:
    patch.setattr(Operator, "window_of", lambda self, second: int((second - 1e-3) // SIZE_S))
    path.events[10]["at"] = path.events[10]["at"][:17] + "00Z"
    return path.run()


def window_never_closes_for_a_key(path: DataPath, patch: Patch) -> Verdict:
    real = Operator.take

    def without(self: Operator, messages: Any) -> list[dict[str, Any]]:
        return [body for body in real(self, messages) if body["key"]["device"] != "beta"]

    patch.setattr(Operator, "take", without)
    return path.run()


def checkpoint_has_a_later_position_than_its_state(path: DataPath, patch: Patch) -> Verdict:
    real = Operator.checkpoint

    def ahead(self: Operator) -> Operator:
        copy = real(self)
        copy.position += BATCH // 4
        return copy

    patch.setattr(Operator, "checkpoint", ahead)
    return path.run()


def checkpoint_leaves_a_key_behind(path: DataPath, patch: Patch) -> Verdict:
    real = Operator.checkpoint

    def incomplete(self: Operator) -> Operator:
        copy = real(self)
        copy.open = {place: held for place, held in copy.open.items() if place[1] != "gamma"}
        return copy

    patch.setattr(Operator, "checkpoint", incomplete)
    return path.run()


def checkpoint_shares_its_state_with_the_running_job(path: DataPath, patch: Patch) -> Verdict:
    patch.setattr(Operator, "checkpoint", lambda self: Operator(self.open, self.watermark, self.position))
    return path.run()


def target_begins_without_state(path: DataPath, patch: Patch) -> Verdict:
    real = Engine.__init__

    def empty(self: Engine, of: DataPath, epoch: int, operator: Operator, batch: int = 0) -> None:
        operator = operator if epoch == 1 else Operator({}, operator.watermark, operator.position)
        real(self, of, epoch, operator, batch)

    patch.setattr(Engine, "__init__", empty)
    return path.run()


def subscribers_do_not_get_every_stored_result(path: DataPath, patch: Patch) -> Verdict:
    real = path.server._deliver
    patch.setattr(
        path.server, "_deliver", lambda serial, identity, body: serial % 9 and real(serial, identity, body)
    )
    return path.run()


def output_is_made_again_in_mid_life(path: DataPath, patch: Patch) -> Verdict:
    real = path.hand_over

    def after_the_output_was_lost(engine: Engine, through: int) -> Engine:
        target = real(engine, through)
        kept = path.server.streams[OUT]
        path.server.streams[OUT] = Stream(OUT, kept.subjects, life=9)
        return target

    patch.setattr(path, "hand_over", after_the_output_was_lost)
    return path.run()


@dataclass(frozen=True)
class Bug:
    """A bug, and the word the checker must say."""

    plant: Callable[[DataPath, Patch], Verdict]
    word: str


BUGS = [
    Bug(publisher_sends_no_message_id, "duplicated"),
    Bug(stream_forgets_ids_at_once, "duplicated"),
    Bug(sink_does_not_read_back_what_it_published, "duplicated"),
    Bug(sink_forgets_the_life_of_its_stream, "unseen"),
    Bug(sink_does_not_sort_its_batch, "out_of_order"),
    Bug(publisher_takes_a_refusal_for_storage, "lost"),
    Bug(publisher_drops_the_end_of_a_batch, "lost"),
    Bug(new_owner_repeats_what_was_taken_over, "duplicated"),
    Bug(output_accepts_the_former_owner_too, "stale_owner"),
    Bug(source_counts_events_past_a_purge, "wrong"),
    Bug(source_takes_a_purge_for_the_end, "wrong"),
    Bug(source_reads_the_last_event_again, "wrong"),
    Bug(source_skips_the_first_event_of_a_batch, "wrong"),
    Bug(intake_takes_what_comes_again_for_new, "wrong"),
    Bug(intake_takes_what_is_new_for_known, "wrong"),
    Bug(window_closes_before_its_end, "wrong"),
    Bug(window_has_its_end_and_not_its_start, "wrong"),
    Bug(window_never_closes_for_a_key, "lost"),
    Bug(checkpoint_has_a_later_position_than_its_state, "wrong"),
    Bug(checkpoint_leaves_a_key_behind, "wrong"),
    Bug(checkpoint_shares_its_state_with_the_running_job, "wrong"),
    Bug(target_begins_without_state, "wrong"),
    Bug(subscribers_do_not_get_every_stored_result, "unseen"),
    Bug(output_is_made_again_in_mid_life, "nonmonotonic"),
]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: f"{bug.plant.__name__}-{bug.word}")
def test_bug_when_planted_in_the_data_path_then_is_found_under_its_name(
    bug: Bug, path: DataPath, monkeypatch: Patch
) -> None:
    verdict = bug.plant(path, monkeypatch)
    assert verdict.found().get(bug.word, 0) > 0, verdict


@pytest.mark.parametrize("block", range(4))
def test_data_path_when_nothing_is_planted_then_nothing_is_found_whatever_happens(block: int) -> None:
    loop = asyncio.new_event_loop()
    for seed in range(10 * block, 10 * block + 10):
        verdict = DataPath(seed, loop).run()
        assert verdict.found() == {}, (seed, verdict)
        assert verdict.expected > 40
        assert DataPath(seed, loop).deploy_again().found() == {}, seed
    loop.close()


def test_purge_of_what_is_still_to_be_read_when_unnoticed_then_the_reader_says_so(
    path: DataPath,
) -> None:
    path.reader = MemoryReader(path.stored, kept_from=45)
    with pytest.raises(EventsLost, match=r"serials 1\.\.44"):
        path.run()
