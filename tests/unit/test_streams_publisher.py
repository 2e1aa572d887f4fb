"""The order in which a publisher's messages are stored when its server dies and comes back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from running.publishing import always
from towpath.contracts.data_plane import MESSAGE_ID_HEADER
from towpath.streams import publisher as publisher_module
from towpath.streams.failures import Unpublished
from towpath.streams.publisher import Outgoing, Publisher

COUNT = 6_000
BEFORE_THE_CUT = 3_000


class Connection:
    """A connection whose server dies after some messages, and is back before anyone misses it."""

    is_closed = False
    options = {"user": "jfk.engine"}
    is_connected = True

    def __init__(self) -> None:
        self.stats = {"reconnects": 0}
        self.stored: dict[str, None] = {}
        """Ids, in order; a repeated one is dropped."""
        self.is_dead = False
        self.sent = 0

    def new_inbox(self) -> str:
        return "_INBOX.test"

    async def subscribe(
        self, subject: str, cb: Callable[[Any], Awaitable[None]], **_: Any
    ) -> SimpleNamespace:
        self.acknowledge = cb

        async def unsubscribe() -> None:
            """Do nothing: nothing is left behind."""

        return SimpleNamespace(unsubscribe=unsubscribe)

    async def request(self, subject: str, body: bytes, timeout: float) -> SimpleNamespace:
        """Describe the stream: it has one owner."""
        state = {"last_seq": len(self.stored)}
        view = {"config": {"subjects": ["sink.jfk.jfk.hourly.1"]}, "state": state}
        return SimpleNamespace(data=json.dumps(view).encode())

    async def publish(self, subject: str, body: bytes, reply: str, headers: dict[str, str]) -> None:
        self.sent += 1
        if self.is_dead:
            return
        self.stored.setdefault(headers[MESSAGE_ID_HEADER])
        asyncio.get_running_loop().call_soon(self.answer, reply)
        if len(self.stored) == BEFORE_THE_CUT and not self.stats["reconnects"]:
            self.is_dead = True
            asyncio.get_running_loop().call_soon(self.come_back)

    def answer(self, reply: str) -> None:
        self.answers = asyncio.ensure_future(
            self.acknowledge(SimpleNamespace(subject=reply, headers=None, data=json.dumps({}).encode()))
        )

    def come_back(self) -> None:
        self.is_dead = False
        self.stats["reconnects"] += 1


async def test_messages_when_some_are_lost_with_the_connection_then_later_ones_do_not_overtake_them() -> None:
    connection = Connection()
    messages = [Outgoing("sink.jfk.jfk.hourly.1", f"{number}", b"{}") for number in range(COUNT)]

    await Publisher(always(cast("Any", connection))).publish(
        messages, site="jfk", stream="OUT_hourly", batch="1.0"
    )

    assert list(connection.stored) == [message.identity for message in messages]


async def test_batch_when_the_link_is_slow_then_is_tried_as_long_as_results_are_stored() -> None:
    class Slow(Connection):
        """A connection over which a message takes a tenth of a second."""

        async def publish(self, subject: str, body: bytes, reply: str, headers: dict[str, str]) -> None:
            nonlocal now
            now += 0.1
            self.stored.setdefault(headers[MESSAGE_ID_HEADER])
            asyncio.get_running_loop().call_soon(self.answer, reply)
            self.sent += 1

    now, connection = 0.0, Slow()
    messages = [Outgoing("sink.jfk.jfk.hourly.1", f"{number}", b"{}") for number in range(2_000)]
    sending = Publisher(always(cast("Any", connection)), clock=lambda: now)

    assert await sending.publish(messages, site="jfk", stream="OUT_hourly", batch="1.0") == 2_000

    assert (connection.sent, now > 3 * sending.patience_s) == (2_000, True)


async def test_messages_when_the_machine_slept_longer_than_ids_are_remembered_then_are_not_sent_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Silent(Connection):
        """A connection that stores, and whose acknowledgements are lost while the machine sleeps."""

        def answer(self, reply: str) -> None:
            nonlocal now
            now += 600.0

    now, connection = 0.0, Silent()
    monkeypatch.setattr(publisher_module, "SILENCE_S", 0.01)
    sending = Publisher(always(cast("Any", connection)), clock=lambda: now)

    with pytest.raises(Unpublished):
        await sending.publish(
            [Outgoing("sink.jfk.jfk.hourly.1", "1", b"{}")], site="jfk", stream="OUT_hourly", batch="1.0"
        )
    assert connection.sent == 1
