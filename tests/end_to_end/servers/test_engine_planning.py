"""The planners of one engine share a connection to the broker, and its answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nats
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from running.servers import Server
from running.waiting import eventually
from towpath.streams.log_reader import FRESH_S, Access, LogReader

STREAM = "IN"
THREADS = 50


@pytest.fixture
async def connection(nats_server: Server) -> AsyncIterator[Client]:
    client = await nats.connect(nats_server.url, max_reconnect_attempts=-1, reconnect_time_wait=0.05)
    await client.jetstream().add_stream(name=STREAM, subjects=["site.>"])
    for _ in range(3):
        await client.jetstream().publish("site.a", b"{}")
    yield client
    await client.close()


@pytest.fixture
def reader(nats_server: Server, tmp_path: Path) -> LogReader:
    credentials = tmp_path / "credentials.json"
    credentials.write_text(json.dumps({"user": "engine", "password": ""}))
    return LogReader(Access(nats_server.url, str(credentials)))


def bounds(reader: LogReader, stream: str, fresh_s: float = FRESH_S) -> tuple[int, int]:
    """Return the first and the last serial number of a stream."""
    view = reader.view(stream, fresh_s)
    return view.first, view.last


async def test_bounds_when_many_ask_at_the_same_moment_then_the_broker_is_asked_few_times(
    connection: Client, reader: LogReader
) -> None:
    questions: list[str] = []

    async def on_question(message: Msg) -> None:
        questions.append(message.subject)

    await connection.subscribe(f"$JS.API.STREAM.INFO.{STREAM}", cb=on_question)
    await connection.flush()
    with ThreadPoolExecutor(THREADS) as threads:
        loop = asyncio.get_running_loop()
        asked = [loop.run_in_executor(threads, bounds, reader, STREAM, 0.5) for _ in range(THREADS)]
        assert await asyncio.gather(*asked) == [(1, 3)] * THREADS
    await connection.flush()
    assert 1 <= len(questions) < THREADS / 5


async def test_bounds_when_an_event_was_stored_then_they_tell_of_it(
    connection: Client, reader: LogReader
) -> None:
    assert await asyncio.to_thread(bounds, reader, STREAM) == (1, 3)
    await connection.jetstream().publish("site.a", b"{}")

    async def has_all() -> bool:
        return await asyncio.to_thread(bounds, reader, STREAM) == (1, 4)

    await eventually(has_all)


async def test_bounds_when_a_reader_waits_for_what_is_not_there_then_others_are_answered(
    connection: Client, reader: LogReader
) -> None:
    fetches: list[str] = []

    async def on_fetch(message: Msg) -> None:
        fetches.append(message.reply)

    await connection.subscribe(f"$JS.API.CONSUMER.MSG.NEXT.{STREAM}.>", cb=on_fetch)
    await connection.flush()
    waiting = asyncio.create_task(asyncio.to_thread(lambda: list(reader.read(STREAM, 3, 4))))
    await eventually(lambda: fetches)
    for _ in range(20):
        assert await asyncio.to_thread(bounds, reader, STREAM, 0.0) == (1, 3)
    assert len(fetches) < 10, "one answer a fetch: it waits until the reader's fetch is over"
    assert not waiting.done()
    await connection.jetstream().publish("site.a", b"{}")
    (messages,) = await waiting
    assert [message.stream_sequence for message in messages] == [4]


async def test_bounds_when_a_stream_does_not_exist_then_says_so_and_finds_it_once_it_does(
    connection: Client, reader: LogReader
) -> None:
    with pytest.raises(LookupError, match="stream LATER"):
        await asyncio.to_thread(bounds, reader, "LATER", 60.0)
    await connection.jetstream().add_stream(name="LATER", subjects=["later"])
    assert await asyncio.to_thread(bounds, reader, "LATER", 60.0) == (1, 0)


async def test_bounds_when_the_broker_is_killed_then_are_answered_once_it_is_back(
    nats_server: Server, connection: Client, reader: LogReader
) -> None:
    assert await asyncio.to_thread(bounds, reader, STREAM) == (1, 3)
    await nats_server.kill()
    asked = asyncio.create_task(asyncio.to_thread(bounds, reader, STREAM))
    await nats_server.start()
    assert await asked == (1, 3)
