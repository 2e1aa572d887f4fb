"""Webhooks on a real server: results in order, over restarts of the service, and past one that is refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import nats
import pytest
from nats.aio.client import Client
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

from running.promises import promise
from running.servers import Server
from running.waiting import eventually
from running.webhook_receiver import Receiver, receiving
from towpath.api import webhooks
from towpath.api.webhooks import Delivery, Webhook
from towpath.bus import Bus
from towpath.contracts.data_plane import WEBHOOK_CONSUMER
from towpath.contracts.message import Message, now
from towpath.contracts.pipeline_commands import ResultUndelivered
from towpath.tasks import end

STREAM, SUBJECT = "OUT_sums", "results"


@pytest.fixture
async def connection(nats_server: Server) -> AsyncIterator[Client]:
    client = await nats.connect(nats_server.url)
    await client.jetstream().add_stream(name=STREAM, subjects=[SUBJECT], allow_direct=True)
    yield client
    await client.close()


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as made:
        yield made


async def publish(connection: Client, *results: str) -> None:
    for result in results:
        await connection.jetstream().publish(SUBJECT, result.encode(), headers={"Nats-Msg-Id": result})


@asynccontextmanager
async def delivering(
    connection: Client, url: str, since: datetime | None = None
) -> AsyncIterator[list[Message]]:
    """Run the webhook of a job. Give its events."""
    events: list[Message] = []

    async def tell(event: Message) -> None:
        events.append(event)

    bus: Any = SimpleNamespace(connection=connection, publish=tell)
    async with aiohttp.ClientSession() as client:
        delivery = Delivery(cast("Bus", bus), client, Webhook("sums", "jfk", url), since)
        running = asyncio.create_task(delivery.run())
        try:
            yield events
        finally:
            await end([running])


def in_order(receiver: Receiver) -> list[str]:
    """Return each result that was taken once: a result whose answer came late is sent again."""
    return [*dict.fromkeys(receiver.taken)]


@promise("webhooks")
async def test_results_when_the_service_restarts_then_the_others_follow_in_order(
    connection: Client, receiver: Receiver
) -> None:
    await publish(connection, "a", "b")
    async with delivering(connection, receiver.url):
        await eventually(lambda: in_order(receiver) == ["a", "b"])
    await publish(connection, "c", "d")

    async with delivering(connection, receiver.url):
        await eventually(lambda: in_order(receiver) == ["a", "b", "c", "d"])


async def test_webhook_when_named_later_then_gets_results_from_then_on(
    connection: Client, receiver: Receiver
) -> None:
    await publish(connection, "old")
    since = now()
    await publish(connection, "new")

    async with delivering(connection, receiver.url, since):
        await eventually(lambda: receiver.taken == ["new"])


@pytest.mark.parametrize("made_by_time", [False, True], ids=["new place", "place of an earlier version"])
async def test_webhook_when_the_clock_of_the_site_is_behind_then_gets_each_result_from_then_on(
    connection: Client, receiver: Receiver, *, made_by_time: bool
) -> None:
    since = now() + timedelta(hours=1)
    await publish(connection, "old")
    if made_by_time:
        place = ConsumerConfig(
            durable_name=WEBHOOK_CONSUMER,
            ack_policy=AckPolicy.EXPLICIT,
            max_ack_pending=1,
            deliver_policy=DeliverPolicy.BY_START_TIME,
            opt_start_time=since,
        )
        await connection.jetstream().add_consumer(STREAM, place)
    else:
        async with delivering(connection, receiver.url, since):
            await eventually(lambda: has_place(connection))

    await publish(connection, "a", "b", "c")

    async with delivering(connection, receiver.url, since):
        await eventually(lambda: receiver.taken == ["a", "b", "c"])


async def has_place(connection: Client) -> bool:
    return bool(await connection.jetstream().consumers_info(STREAM))


async def test_result_when_refused_each_time_then_is_told_and_the_next_one_follows(
    connection: Client, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks, "ATTEMPTS", 2)
    receiver.refused = {"a"}
    await publish(connection, "a", "b")

    async with delivering(connection, receiver.url) as events:
        await eventually(lambda: receiver.taken == ["b"])

    assert [
        (event.job, event.serial, event.attempts, event.error)
        for event in events
        if isinstance(event, ResultUndelivered)
    ] == [("sums", 1, 2, "503 Service Unavailable")]
