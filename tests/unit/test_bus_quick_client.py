"""A client that hears thousands of answers a second hears each once, however the network cuts them."""

from __future__ import annotations

import asyncio
import random
from types import SimpleNamespace

import pytest
from nats.aio.msg import Msg

from towpath.bus.quick_client import UNLIMITED, QuickClient

UNLIMITED_ONE, USUAL_ONE, ENDED = 1, 2, 3


def delivered(number: int, subscription: int, payload: bytes) -> bytes:
    return b"MSG _INBOX.x.%d %d %d\r\n%b\r\n" % (number, subscription, len(payload), payload)


def with_header(number: int, subscription: int) -> bytes:
    head = b"NATS/1.0 503\r\n\r\n"
    return b"HMSG _INBOX.x.%d %d %d %d\r\n%b\r\n" % (number, subscription, len(head), len(head), head)


class Heard:
    """A client, and what its subscriptions hear."""

    def __init__(self) -> None:
        self.client = QuickClient()
        self.at_once: list[tuple[str, bytes]] = []
        self.usual = asyncio.Queue[Msg]()
        for number, limit in ((UNLIMITED_ONE, UNLIMITED), (USUAL_ONE, 100)):
            self.client._subs[number] = SimpleNamespace(  # type: ignore[assignment]
                _received=0,
                _max_msgs=0,
                _jsi=None,
                _future=None,
                _cb=self.hear,
                _pending_size=0,
                _pending_msgs_limit=limit,
                _pending_bytes_limit=0,
                _pending_queue=self.usual,
            )

    async def hear(self, message: Msg) -> None:
        if message.data == b"wrong":
            raise ValueError("wrong")
        self.at_once.append((message.subject, message.data))


@pytest.mark.parametrize("seed", range(20))
async def test_answers_when_cut_anywhere_then_each_is_heard_once(seed: int) -> None:
    chance = random.Random(seed)
    heard = Heard()
    commands = [delivered(n, UNLIMITED_ONE, b"\r\nMSG {}" * chance.randrange(4)) for n in range(200)]
    commands += [delivered(n, USUAL_ONE, b"usual") for n in range(200, 220)]
    commands += [with_header(n, UNLIMITED_ONE) for n in range(220, 230)]
    commands += [delivered(300, ENDED, b"late"), b"+OK\r\n"]
    chance.shuffle(commands)
    data = b"".join(commands)

    while data:
        cut = chance.choice([1, 7, 40, 400])
        await heard.client._ps.parse(data[:cut])
        data = data[cut:]

    queued = [heard.usual.get_nowait().subject for _ in range(heard.usual.qsize())]
    subjects = [subject for subject, _ in heard.at_once] + queued
    assert sorted(subjects) == sorted(f"_INBOX.x.{n}" for n in range(230))
    assert {payload.replace(b"\r\nMSG {}", b"") for _, payload in heard.at_once} == {b""}


async def test_answers_when_one_cannot_be_read_then_the_others_are_heard() -> None:
    heard = Heard()
    errors: list[Exception] = []

    async def note(error: Exception) -> None:
        errors.append(error)

    heard.client._error_cb = note
    await heard.client._ps.parse(delivered(1, UNLIMITED_ONE, b"wrong") + delivered(2, UNLIMITED_ONE, b"{}"))

    assert heard.at_once == [("_INBOX.x.2", b"{}")]
    assert [str(error) for error in errors] == ["wrong"]
