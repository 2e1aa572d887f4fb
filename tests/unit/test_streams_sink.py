"""A sink's reports on the micro-batches it has published."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from towpath.contracts.job import Assignment
from towpath.contracts.migration import EXAMPLE_ASSIGNMENT
from towpath.streams.encoding import Message
from towpath.streams.failures import Unpublished
from towpath.streams.publisher import Outgoing
from towpath.streams.sink import JobSink, SinkConnection, StoredBatch


@dataclass
class Stream:
    """Takes what is published; `known` ids it has already."""

    site: str = "jfk"
    known: set[str] = field(default_factory=set)
    refuses: bool = False
    stored: list[str] = field(default_factory=list)

    def life_of(self, **_: str) -> str:
        return "life"

    def published_since(self, **_: Any) -> set[str]:
        return set(self.stored)

    def publish(self, messages: list[Outgoing], **_: str) -> int:
        if self.refuses:
            raise Unpublished("full")
        self.stored += [message.identity for message in messages]
        return len([message for message in messages if message.identity not in self.known])


@pytest.fixture
def stream() -> Stream:
    return Stream()


@pytest.fixture
def told() -> list[StoredBatch]:
    return []


@pytest.fixture
def sink(stream: Stream, told: list[StoredBatch]) -> JobSink:
    job = Assignment.model_validate(EXAMPLE_ASSIGNMENT)
    return JobSink(cast(SinkConnection, stream), job, on_stored=told.append)


def publish(sink: JobSink, batch: int, results: int) -> None:
    """Publish the results 0, 1, … and one rejected event."""
    messages = [Message(f"job/{n}", f'{{"serial":{n}}}'.encode()) for n in range(results + 1)]
    sink(messages[:-1], messages[-1:], batch)


def test_batch_when_its_results_are_new_then_is_told_with_them_and_when(
    sink: JobSink, told: list[StoredBatch]
) -> None:
    publish(sink, 4, results=3)
    (stored,) = told
    assert (stored.batch, [result.body for result in stored.results]) == (
        4,
        [b'{"serial":0}', b'{"serial":1}', b'{"serial":2}'],
    )
    assert stored.begun_ns <= stored.ended_ns
    assert (sink.results, sink.rejected) == (3, 1)


def test_batch_when_a_result_was_stored_before_then_is_not_told(
    stream: Stream, sink: JobSink, told: list[StoredBatch]
) -> None:
    stream.known = {"life/job/0"}
    publish(sink, 4, results=3)
    assert (told, sink.results) == ([], 2)


def test_batch_when_it_has_no_results_then_is_not_told(sink: JobSink, told: list[StoredBatch]) -> None:
    publish(sink, 4, results=0)
    assert told == []


def test_batch_when_its_results_are_refused_then_is_not_told(
    stream: Stream, sink: JobSink, told: list[StoredBatch]
) -> None:
    stream.refuses = True
    with pytest.raises(Unpublished):
        publish(sink, 4, results=3)
    assert told == []


def test_batch_when_it_runs_again_after_a_failure_then_stores_only_what_is_missing(
    stream: Stream, sink: JobSink
) -> None:
    publish(sink, 4, results=1)
    publish(sink, 5, results=3)
    stored = [*stream.stored]
    sink.begin()
    publish(sink, 5, results=3)
    assert stream.stored == stored
