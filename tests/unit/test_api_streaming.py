"""Streams of the REST interface that end: in good order only when all was sent."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import nats.errors
import pytest
from aiohttp import ClientPayloadError, web
from aiohttp.test_utils import TestClient, TestServer

from towpath.api.event_log import KeptEventReader
from towpath.api.streaming import EventStream


async def served(error: type[Exception] | None, *, ends: bool) -> bytes:
    """Return what a client gets of a stream that ends with an error."""

    async def handler(request: web.Request) -> web.StreamResponse:
        stream = EventStream(asyncio.Event(), write_s=5.0, ends=ends)
        async with stream.to(request):
            await stream.write(b"data: 1\n\n")
            if error is not None:
                raise error
        return stream.response

    app = web.Application()
    app.router.add_get("/", handler)
    async with TestClient(TestServer(app)) as client:
        answer = await client.get("/")
        assert answer.status == 200
        return await answer.read()


async def test_stream_when_all_was_sent_then_ends_in_good_order() -> None:
    assert await served(None, ends=True) == b"data: 1\n\n"


async def test_stream_when_what_it_sends_cannot_be_read_any_more_then_is_cut_off() -> None:
    with pytest.raises(ClientPayloadError):
        await served(TimeoutError, ends=True)


async def test_stream_when_its_client_follows_then_it_ends_in_good_order_and_the_client_comes_back() -> None:
    assert await served(TimeoutError, ends=False) == b"data: 1\n\n"


async def test_events_when_the_hub_is_away_then_are_not_taken_for_all() -> None:
    async def add_consumer(*_: Any) -> None:
        raise nats.errors.ConnectionClosedError

    jetstream = SimpleNamespace(add_consumer=add_consumer)
    connection = cast("Any", SimpleNamespace(jetstream=lambda timeout: jetstream))
    reader = KeptEventReader(connection, after=3, subject=None)

    assert await reader.page(within_s=0.01) == []
    with pytest.raises(TimeoutError):
        await reader.page(within_s=0.01, follow=False)
