"""The stream of a site's metrics, on a real server that restarts."""

from __future__ import annotations

import nats
import pytest
from nats.aio.client import Client

from running.servers import Server
from running.waiting import eventually
from towpath.agent.site_metrics import ensure_metrics
from towpath.contracts.data_plane import METRICS_STREAM, METRICS_SUBJECT, intake_subject
from towpath.contracts.site import Retention
from towpath.streams.pages import last_serial, page
from towpath.streams.streams import SiteStreams

pytestmark = pytest.mark.timeout(60)


async def kept(connection: Client) -> list[tuple[str, bytes]]:
    stored = await page(connection, "jfk", METRICS_STREAM, 1)
    return [(message.subject, message.body) for message in stored]


async def test_metrics_when_the_server_restarts_then_each_of_the_site_and_of_applications_is_kept_once(
    nats_server: Server,
) -> None:
    connection = await nats.connect(nats_server.url, max_reconnect_attempts=-1)
    streams = SiteStreams(connection, "jfk", Retention())
    await streams.ensure_in()
    await ensure_metrics(streams)
    jetstream = connection.jetstream()

    async def store(application: bytes, own: bytes, last: int) -> None:
        await jetstream.publish(intake_subject("site.other"), b"no metric")
        await jetstream.publish(intake_subject("site.metrics"), application)

        async def copied() -> bool:
            return await last_serial(connection, "jfk", METRICS_STREAM) == last - 1

        await eventually(copied)
        await jetstream.publish(METRICS_SUBJECT, own)

    await store(b"application's", b"the site's", last=2)
    await nats_server.kill()
    await nats_server.start()
    await ensure_metrics(streams)
    await store(b"application's second", b"the site's second", last=4)

    bodies = [b"application's", b"the site's", b"application's second", b"the site's second"]
    assert await kept(connection) == [("site.metrics", body) for body in bodies]
    await connection.close()
