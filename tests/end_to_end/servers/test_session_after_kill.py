"""A subscriber with a session gets each result, also those on their way when its broker was killed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import aiomqtt
import pytest
from nats.aio.client import Client
from nats.errors import Error as NatsError

from running.mesh import Mesh
from running.promises import promise
from running.publishing import always
from running.waiting import WITHIN_S, eventually
from towpath.agent.sessions import Sessions
from towpath.contracts.data_plane import MQTT_STREAM, batch_label, sink_subject
from towpath.contracts.job import ResolvedOutput
from towpath.contracts.site import Retention
from towpath.streams.pages import read_after
from towpath.streams.publisher import Outgoing, Publisher
from towpath.streams.streams import SiteStreams

OUTPUT = ResolvedOutput(site="lga", stream="OUT_board", topic="stats/board", rejected_topic="stats/rejected")
KILLS = 3
A_KILL = 3_000


@dataclass
class Site:
    """lga, with an output, and a subscriber that is away."""

    mesh: Mesh
    streams: SiteStreams
    engine: Client
    sessions: Sessions

    def board(self) -> aiomqtt.Client:
        return self.mesh.device("lga", identifier="board", clean_session=False)

    async def is_away(self) -> bool:
        return not any(c.push_bound for c in await self.streams.jetstream.consumers_info(MQTT_STREAM))

    async def is_looked_after(self) -> bool:
        """Do what the agent does until its server is back."""
        if not self.streams.connection.is_connected:
            return False
        try:
            await self.sessions.look()
        except (NatsError, TimeoutError):
            return False
        return True

    async def publish(self, first: int) -> None:
        subject = sink_subject("lga", "board", 1)
        numbers = range(first, first + A_KILL)
        results = [Outgoing(subject, f"board/{n}", str(n).encode()) for n in numbers]
        publisher = Publisher(always(self.engine), patience_s=WITHIN_S)
        await publisher.publish(results, site="lga", stream=OUTPUT.stream, batch=batch_label(1, first))

    async def stored(self) -> list[int]:
        """Return the results in the output."""
        found = await read_after(self.streams.connection, "lga", OUTPUT.stream, 0)
        return [int(message.body) for message in found]

    async def delivered(self) -> list[int]:
        """Return what the subscriber gets when it comes back, until nothing more comes."""
        got: list[int] = []
        async with self.board() as board:
            messages = aiter(board.messages)
            while True:
                try:
                    async with asyncio.timeout(2.0 if got else WITHIN_S):
                        got.append(int(bytes((await anext(messages)).payload)))  # type: ignore[arg-type]
                except TimeoutError:
                    return got


@pytest.fixture
async def site(own_servers: Mesh, tmp_path: Path) -> AsyncIterator[Site]:
    async with own_servers.agent("lga") as agent, own_servers.engine("lga") as engine:
        streams = SiteStreams(agent, "lga", Retention())
        await streams.ensure_in()
        await streams.set_epoch("board", 1, OUTPUT)
        sessions = Sessions(streams, tmp_path / "server.json")
        made = Site(own_servers, streams, engine, sessions)
        async with made.board() as board:
            await board.subscribe("stats/#", qos=1)
        await eventually(made.is_away)
        yield made


@promise("mqtt")
async def test_session_when_its_broker_was_killed_under_load_then_holds_each_result_once(site: Site) -> None:
    await site.sessions.look()
    for kill in range(KILLS):
        publishing = asyncio.create_task(site.publish(kill * A_KILL))
        last = kill * A_KILL + A_KILL // 3
        await eventually(lambda last=last: _reached(site, last))
        await site.mesh.kill("lga-nats")
        await site.mesh.start("lga-nats")
        await eventually(site.is_looked_after)
        await publishing
    stored, delivered = await site.stored(), await site.delivered()
    print(f"{KILLS} kills, {len(stored):,} results, all delivered once")
    assert sorted(delivered) == sorted(stored) == list(range(KILLS * A_KILL))


async def _reached(site: Site, last: int) -> bool:
    return (await site.streams.view("lga", OUTPUT.stream)).last > last
