"""A subscriber with a session gets each result, also those on their way when its broker was killed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import aiomqtt
import pytest
from nats.aio.client import Client

from running.mesh import Mesh
from running.promises import promise
from running.publishing import always
from running.waiting import POLL_S, WITHIN_S, eventually
from towpath.agent import sessions
from towpath.contracts.data_plane import KEEPER_PREFIX, MQTT_STREAM, batch_label, sink_subject
from towpath.contracts.job import ResolvedOutput
from towpath.contracts.site import Retention
from towpath.streams.pages import read_after
from towpath.streams.publisher import Outgoing, Publisher, stream_life
from towpath.streams.redelivery import Redelivery
from towpath.streams.streams import SiteStreams
from towpath.tasks import end

OUTPUT = ResolvedOutput(site="lga", stream="OUT_board", topic="stats/board", rejected_topic="stats/rejected")
KILLS = 2
A_KILL = 3_000

SILENCE_S = 2.0
"""Time after all expected results in which a result that is delivered twice would come."""


@dataclass
class Site:
    """lga, with an output, and a subscriber that is away."""

    mesh: Mesh
    streams: SiteStreams
    engine: Client
    watching: asyncio.Task[None] | None = None
    """The agent's part, which gives sessions what they lack."""

    def board(self) -> aiomqtt.Client:
        return self.mesh.device("lga", identifier="board", clean_session=False)

    async def is_away(self) -> bool:
        return not any(c.push_bound for c in await self.streams.jetstream.consumers_info(MQTT_STREAM))

    async def is_kept(self) -> bool:
        """Tell if the agent has begun to keep what the session gets."""
        consumers = await self.streams.jetstream.consumers_info(MQTT_STREAM)
        return any(consumer.name.startswith(KEEPER_PREFIX) for consumer in consumers)

    async def all_wait(self) -> bool:
        """Tell if the session holds all results."""
        return await self.waiting() == len(await self.stored())

    async def publish(self, first: int, count: int = A_KILL, output: ResolvedOutput = OUTPUT) -> None:
        """Publish numbered results as an engine does."""
        job = output.stream.removeprefix("OUT_")
        subject, life = (
            sink_subject("lga", "lga", job, 1),
            await stream_life(self.engine, "lga", output.stream),
        )
        numbers = range(first, first + count)
        results = [Outgoing(subject, f"{life}/{job}/{n}", str(n).encode()) for n in numbers]
        publisher = Publisher(always(self.engine), patience_s=WITHIN_S)
        await publisher.publish(results, site="lga", stream=output.stream, batch=batch_label(1, first))

    async def forget_ids(self) -> None:
        """Let the store forget which ids it has seen, as it does after two minutes."""
        config = (await self.streams.jetstream.stream_info(MQTT_STREAM)).config
        await self.streams.jetstream.update_stream(replace(config, duplicate_window=0.1))
        await asyncio.sleep(0.3)

    async def waiting(self) -> int:
        """Return how many results the store holds."""
        store = await self.streams.view("lga", MQTT_STREAM)
        return store.last - store.first + 1

    async def stored(self) -> list[int]:
        """Return the results in the output."""
        found = await read_after(self.streams.connection, "lga", OUTPUT.stream, 0)
        return [int(message.body) for message in found]

    async def delivered(self, expected: int) -> list[int]:
        """Return what the subscriber gets when it comes back: as many as expected, and what follows them."""
        got: list[int] = []
        async with self.board() as board:
            messages = aiter(board.messages)
            while True:
                try:
                    async with asyncio.timeout(SILENCE_S if len(got) >= expected else WITHIN_S):
                        got.append(int(bytes((await anext(messages)).payload)))  # type: ignore[arg-type]
                except TimeoutError:
                    return got


@pytest.fixture
async def site(own_servers: Mesh) -> AsyncIterator[Site]:
    async with own_servers.agent("lga") as agent, own_servers.engine("lga") as engine:
        streams = SiteStreams(agent, "lga", Retention())
        await streams.ensure_in()
        await streams.outputs.set_epoch("board", 1, OUTPUT, owner="lga")
        made = Site(own_servers, streams, engine)
        async with made.board() as board:
            await board.subscribe("stats/#", qos=1)
        await eventually(made.is_away)
        made.watching = asyncio.create_task(sessions.watch(streams))
        await eventually(made.is_kept)
        yield made
        await end([made.watching])


@promise("mqtt")
async def test_session_when_results_wait_in_it_and_its_broker_is_killed_then_holds_each_once(
    site: Site,
) -> None:
    await site.publish(0)
    await eventually(site.all_wait)
    for kill in range(1, KILLS + 1):
        publishing = asyncio.create_task(site.publish(kill * A_KILL))
        last = kill * A_KILL + A_KILL // 3
        await eventually(lambda last=last: _reached(site, last))
        await site.mesh.kill("lga-nats")
        await site.mesh.start("lga-nats")
        await publishing
    await end([site.watching])  # It could give results once more when the store has forgotten their ids.
    await Redelivery(site.streams).complete()
    await site.forget_ids()
    assert await Redelivery(site.streams).complete() == 0
    stored = await site.stored()
    delivered = await site.delivered(len(stored))
    print(f"{KILLS} kills, {len(stored):,} results, all delivered once")
    assert sorted(delivered) == sorted(stored) == list(range((KILLS + 1) * A_KILL))


async def test_session_when_its_subscriber_reads_and_the_broker_is_killed_then_gets_each_result(
    site: Site,
) -> None:
    got: list[int] = []

    async def read() -> None:
        while True:
            with contextlib.suppress(aiomqtt.MqttError):
                async with site.board() as board:
                    async for message in board.messages:
                        got.append(int(bytes(message.payload)))  # type: ignore[arg-type]
            await asyncio.sleep(POLL_S)

    reading = asyncio.create_task(read())
    for kill in range(KILLS + 1):
        publishing = asyncio.create_task(site.publish(kill * A_KILL))
        await eventually(lambda kill=kill: _reached(site, kill * A_KILL + A_KILL // 3))
        if kill:
            await site.mesh.kill("lga-nats")
            await site.mesh.start("lga-nats")
        await publishing
    await eventually(lambda: len(set(got)) == (KILLS + 1) * A_KILL)
    await end([reading])
    print(f"{KILLS} kills, {len(set(got)):,} results, {len(got) - len(set(got))} delivered again")
    assert set(got) == set(range((KILLS + 1) * A_KILL))


async def test_session_when_the_store_was_cut_off_then_gets_nothing_twice(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "RENEW_EVERY_S", 3600.0)
    await site.publish(0)
    await eventually(site.all_wait)
    assert len(await site.delivered(A_KILL)) == A_KILL
    # As its bounds do, while no agent is there.
    await site.streams.jetstream.purge_stream(MQTT_STREAM)
    await site.mesh.kill("lga-nats")  # It knows no ids of messages any more.
    await site.mesh.start("lga-nats")
    assert await Redelivery(site.streams).complete() == 0
    assert await site.waiting() == 0, "the agent has not given any either"


async def test_session_when_two_outputs_have_one_topic_then_gets_what_each_lacks_once(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "RENEW_EVERY_S", 3600.0)
    other = OUTPUT.model_copy(update={"stream": "OUT_other", "rejected_topic": "stats/rejected/other"})
    await site.streams.outputs.set_epoch("other", 1, other, owner="lga")
    redelivery, given = Redelivery(site.streams), 20
    await redelivery.complete()
    for first in range(0, given, 10):
        await redelivery.renew()
        await site.publish(first, 10)
        await site.publish(first, 10, other)
        await eventually(lambda first=first: _waits_for(site, 2 * (first + 10)))
    await site.forget_ids()
    assert await redelivery.complete() == 0
    async with store_loses_what_comes(site):
        for output in (OUTPUT, other):
            await site.publish(given, 5, output)
    assert await redelivery.complete() == 10
    await site.forget_ids()
    assert await redelivery.complete() == 0
    assert await site.waiting() == 2 * given + 10


async def test_session_when_results_came_before_older_ones_were_given_again_then_gets_each_once(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "RENEW_EVERY_S", 3600.0)
    redelivery, lost = Redelivery(site.streams), 10
    await redelivery.complete()
    async with store_loses_what_comes(site):
        await site.publish(0, lost)
    await site.publish(lost, 20)
    await eventually(lambda: _waits_for(site, 20))

    assert await redelivery.complete() == lost
    await site.forget_ids()
    assert await Redelivery(site.streams).complete() == 0

    assert sorted(await site.delivered(lost + 20)) == list(range(lost + 20))


@contextlib.asynccontextmanager
async def store_loses_what_comes(site: Site) -> AsyncIterator[None]:
    """Let the store miss what outputs publish meanwhile, as it does when their server dies."""
    store = (await site.streams.jetstream.stream_info(MQTT_STREAM)).config
    await site.streams.jetstream.update_stream(replace(store, subjects=["closed.store"]))
    yield
    await site.streams.jetstream.update_stream(store)


async def _waits_for(site: Site, count: int) -> bool:
    return await site.waiting() == count


async def _reached(site: Site, last: int) -> bool:
    return (await site.streams.view("lga", OUTPUT.stream)).last > last
