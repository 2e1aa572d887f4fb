"""An engine's Spark session and the streams of one site, for tests of jobs without agent and coordinator."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import nats
from nats.aio.client import Client
from nats.js import JetStreamContext
from pyspark.sql import SparkSession

from running.waiting import WITHIN_S
from towpath.contracts.data_plane import intake_subject
from towpath.contracts.job import Assignment
from towpath.contracts.result import Rejected, Result
from towpath.contracts.site import EngineSpec, Retention
from towpath.engine.query import Query
from towpath.engine.settings import EngineSettings
from towpath.streams.sink import SinkConnection
from towpath.streams.streams import SiteStreams

DEVICE = {
    "name": "jfk/site/a",
    "site": "jfk",
    "stream": "IN",
    "subject": "site.a",
    "from_device": True,
    "after_serial": 0,
}
UPSTREAM = {
    "name": "jfk/clean",
    "site": "jfk",
    "stream": "OUT_clean",
    "subject": None,
    "from_device": False,
    "after_serial": 0,
}
SUMS = {"total": {"function": "sum", "field": "v"}, "events": {"function": "count"}}


def processing_window(**changes: Any) -> dict[str, Any]:
    operator = {
        "kind": "processing_window",
        "fields": {"k": "string", "v": "double"},
        "size_s": 0.5,
        "key": ["k"],
        "aggregates": SUMS,
    }
    return {name: value for name, value in {**operator, **changes}.items() if value is not None}


def by_count(size: int, **changes: Any) -> dict[str, Any]:
    return processing_window(size_s=None, size_events=size, **changes)


def assignment(operator: dict[str, Any], *inputs: dict[str, Any], **spec: Any) -> Assignment:
    sources = inputs or (DEVICE,)
    return Assignment.model_validate(
        {
            "spec": {
                "name": "job",
                "site": "jfk",
                "inputs": [{"site": "jfk", "topic": i["name"].removeprefix("jfk/")} for i in sources],
                "output": {"topic": "out"},
                "operator": operator,
                "trigger_s": 0,
                **spec,
            },
            "epoch": 1,
            "inputs": list(sources),
            "output": {"site": "jfk", "stream": "OUT_job", "topic": "out", "rejected_topic": "out/rejected"},
        }
    )


SETTINGS = EngineSettings("jfk", EngineSpec(), "", "engine", "", Path())


@asynccontextmanager
async def site_of(session: SparkSession, url: str, directory: Path) -> AsyncIterator[Site]:
    """Open a site whose streams are at the server `url`; the output takes the results of epoch 1."""
    connection = await nats.connect(url)
    streams = SiteStreams(connection, "jfk", Retention())
    await streams.ensure_in()
    await streams.outputs.set_epoch("job", 1, assignment({"kind": "forward"}).output, owner="jfk")
    settings = replace(SETTINGS, nats_url=url, directory=directory / "engine")
    sink = SinkConnection(settings.login, settings.site)
    sink.start()
    yield Site(connection, session, settings, sink, directory / "job" / "checkpoint")
    await asyncio.to_thread(sink.close)
    await connection.close()


@dataclass
class Site:
    """A site's streams, and an engine that runs one job."""

    connection: Client
    session: SparkSession
    settings: EngineSettings
    sink: SinkConnection
    checkpoint: Path

    @property
    def jetstream(self) -> JetStreamContext:
        """The streams, with time for a server on a busy machine."""
        return self.connection.jetstream(timeout=WITHIN_S)

    async def put(self, subject: str, *events: dict[str, Any] | str) -> None:
        """Store events of a device, or results, under a subject."""
        to = intake_subject(subject) if subject.startswith("site.") else subject
        for event in events:
            body = event if isinstance(event, str) else json.dumps(event)
            await self.jetstream.publish(to, body.encode())

    async def stored(self) -> int:
        """Return the number of events in IN."""
        return (await self.jetstream.stream_info("IN")).state.messages

    async def put_results(self, *values: dict[str, Any]) -> None:
        """Publish results of an upstream job."""
        await self.put("sink.jfk.jfk.clean.1", *({"values": value, "count": 1} for value in values))

    def query(self, job: Assignment) -> Query:
        return Query.of(self.session, self.settings, self.sink, job, self.checkpoint)

    @asynccontextmanager
    async def running(self, job: Assignment) -> AsyncIterator[Query]:
        query = self.query(job)
        await asyncio.to_thread(query.start)
        try:
            yield query
        finally:
            await asyncio.to_thread(query.halt, 10.0)

    async def bodies(self, stream: str) -> list[bytes]:
        count = (await self.jetstream.stream_info(stream)).state.messages
        messages = [await self.jetstream.get_msg(stream, n + 1) for n in range(count)]
        return [message.data or b"" for message in messages]

    async def results(self) -> list[Result]:
        return [Result.model_validate_json(body) for body in await self.bodies("OUT_job")]

    async def rejected(self) -> list[Rejected]:
        return [Rejected.model_validate_json(body) for body in await self.bodies("REJECTED_job")]

    async def until(self, condition: Callable[[list[Result]], bool]) -> list[Result]:
        """Wait until the results fulfil the condition, and return them."""
        async with asyncio.timeout(WITHIN_S):
            while not condition(found := await self.results()):
                await asyncio.sleep(0.05)
            return found
