"""A connection over which jobs publish: it waits while results are stored, and gives up when none is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import pytest

from running.waiting import until
from towpath.bus.connecting import Login
from towpath.streams import sink as sink_module
from towpath.streams.failures import Unpublished
from towpath.streams.publisher import Outgoing, Publisher
from towpath.streams.sink import SinkConnection

RESULTS = [Outgoing("sink.jfk.jfk.hourly.1", str(number), b"{}") for number in range(50)]


class Slow:
    """A publisher that stores a result now and then, and some number of them in all."""

    def __init__(self, stores: int) -> None:
        self.stores = stores
        self.was_ended = False

    async def publish(self, messages: Sequence[Outgoing], *, on_stored: Callable[[], None], **_: str) -> int:
        for _message in messages[: self.stores]:
            await asyncio.sleep(0.02)
            on_stored()
        try:
            await asyncio.sleep(0.0 if self.stores == len(messages) else 60.0)
        except asyncio.CancelledError:
            self.was_ended = True
            raise
        return self.stores


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> Iterator[SinkConnection]:
    monkeypatch.setattr(sink_module, "STANDSTILL_S", 0.5)
    made = SinkConnection(Login("nats://127.0.0.1:1", "", ""), "jfk")
    made.start()
    yield made
    made.close()


def publish(connection: SinkConnection, publisher: Slow) -> int:
    connection._publisher = cast("Publisher", cast("Any", publisher))
    return connection.publish(RESULTS, site="jfk", stream="OUT_hourly", batch="1.0")


def test_batch_when_results_are_stored_slowly_then_is_waited_for(connection: SinkConnection) -> None:
    assert publish(connection, Slow(stores=50)) == 50


def test_batch_when_no_more_results_are_stored_then_fails_and_nothing_goes_on(
    connection: SinkConnection,
) -> None:
    publisher = Slow(stores=1)
    with pytest.raises(Unpublished, match="1 of 50 results stored"):
        publish(connection, publisher)
    until(lambda: publisher.was_ended)
