"""A connection over which jobs publish: it waits while results are stored, and gives up when none is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from types import SimpleNamespace
from typing import Any, cast

import pytest

from running.waiting import until
from towpath.bus.connecting import Login
from towpath.streams.failures import Unpublished
from towpath.streams.publisher import Outgoing, Publisher
from towpath.streams.sink import SinkConnection

RESULTS = [Outgoing("sink.jfk.jfk.hourly.1", str(number), b"{}") for number in range(3)]


class Slow:
    """A publisher that stores a result whenever a test says so, and waits for the others."""

    def __init__(self) -> None:
        self.on_stored: Callable[[], None] | None = None
        self.stored = 0
        self.was_ended = False

    async def publish(self, messages: Sequence[Outgoing], *, on_stored: Callable[[], None], **_: str) -> int:
        self.on_stored = on_stored
        try:
            while self.stored < len(messages):
                await asyncio.sleep(0.001)
        except asyncio.CancelledError:
            self.was_ended = True
            raise
        return self.stored

    def store(self) -> None:
        """Store a result."""
        until(lambda: self.on_stored)()
        self.stored += 1


@pytest.fixture
def connection() -> Iterator[SinkConnection]:
    made = SinkConnection(Login("nats://127.0.0.1:1", "", ""), "jfk")
    made.start()
    yield made
    made.close()


def publish(connection: SinkConnection, publisher: Slow, stores: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Publish three results. In each of the first waits for the publisher it stores one."""
    wait = futures.wait

    def waited(running: Sequence[futures.Future[int]], timeout: float) -> Any:
        if publisher.stored == stores:
            return wait(running, 10.0 if stores == len(RESULTS) else 0.0)
        publisher.store()
        return SimpleNamespace(done=set())

    monkeypatch.setattr(futures, "wait", waited)
    connection._publisher = cast("Publisher", cast("Any", publisher))
    return connection.publish(RESULTS, site="jfk", stream="OUT_hourly", batch="1.0")


def test_batch_when_results_are_stored_slowly_then_is_waited_for(
    connection: SinkConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert publish(connection, Slow(), 3, monkeypatch) == 3


def test_batch_when_no_more_results_are_stored_then_fails_and_nothing_goes_on(
    connection: SinkConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher = Slow()
    with pytest.raises(Unpublished, match="1 of 3 results stored"):
        publish(connection, publisher, 1, monkeypatch)
    until(lambda: publisher.was_ended)
