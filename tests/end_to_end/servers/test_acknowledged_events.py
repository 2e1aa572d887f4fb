"""An event that was acknowledged to a device is kept.

nats-server's MQTT side acknowledges what the stream has answered for. Another release may wait for something
else. So these tests belong to every change of the server. TOWPATH_KILLS=50 makes a measurement of them.
"""

from __future__ import annotations

import asyncio
import os

import pytest
from nats.js.api import RePublish, RetentionPolicy, StreamConfig
from nats.js.errors import NotFoundError

from running.kills import kept_through
from running.mesh import Mesh, limit_files
from running.promises import promise
from towpath.contracts.data_plane import ARRIVED_STREAM, IN_STREAM, MQTT_STREAM
from towpath.contracts.site import Retention
from towpath.streams.streams import SiteStreams

FULL_S = 0.5
"""Time for which the disk has no room. Events under way are a thousand, and come within milliseconds."""

KILLS = int(os.environ.get("TOWPATH_KILLS", "2"))


@pytest.mark.parametrize(
    ("site", "a_kill"),
    [
        pytest.param("jfk", 40_000, marks=promise("exactly once"), id="fast"),
        pytest.param("lga", 6_000, id="power-safe"),
    ],
)
async def test_event_when_acknowledged_and_the_server_is_killed_then_is_kept(
    own_servers: Mesh, site: str, a_kill: int
) -> None:
    events, server = KILLS * a_kill, f"{site}-nats"

    async def kill() -> None:
        await own_servers.kill(server)
        await own_servers.start(server)

    kept = await kept_through(own_servers, site, kill, events=events, strikes=KILLS, seed=1)
    print(f"{KILLS} kills, {events:,} events acknowledged, {len(kept.lost)} lost, {kept.again} stored again")
    assert (kept.report.acknowledged, kept.lost[:10], kept.in_order) == (events, [], True)
    assert kept.again <= kept.report.redelivered


async def test_event_when_acknowledged_and_the_disk_is_full_then_is_kept(own_servers: Mesh) -> None:
    async def fill() -> None:
        """Let every write fail until device and server have noticed. Then start the server with room."""
        limit_files(own_servers, "jfk-nats", 0)
        await asyncio.sleep(FULL_S)
        await own_servers.stop("jfk-nats")
        await own_servers.start("jfk-nats")

    kept = await kept_through(own_servers, "jfk", fill, events=80_000, strikes=2, seed=2)
    assert (kept.report.acknowledged, kept.lost[:10], kept.in_order) == (80_000, [], True)


async def test_site_when_its_streams_are_of_an_earlier_version_then_they_are_changed_and_keep_what_they_have(
    mesh: Mesh,
) -> None:
    async with mesh.agent("jfk") as agent, mesh.device("jfk") as device:
        jetstream, streams = agent.jetstream(), SiteStreams(agent, "jfk", Retention())
        for name in (IN_STREAM, ARRIVED_STREAM, MQTT_STREAM):
            try:
                await jetstream.delete_stream(name)
            except NotFoundError:
                continue
        await jetstream.add_stream(name=IN_STREAM, subjects=["site.>"])
        await jetstream.add_stream(
            StreamConfig(name=MQTT_STREAM, subjects=["$MQTT.msgs.>"], retention=RetentionPolicy.INTEREST)
        )
        await jetstream.add_stream(
            StreamConfig(
                name="OUT_old",
                subjects=["sink.jfk.old.1"],
                republish=RePublish(src="sink.jfk.old.1", dest="$MQTT.msgs.old.results"),
            )
        )
        try:
            await device.publish("site/old", b"1", qos=1)
            await streams.ensure_in()
            await device.publish("site/old", b"2", qos=1)

            assert [(await jetstream.get_msg(IN_STREAM, n)).data for n in (1, 2)] == [b"1", b"2"]
            assert (await jetstream.get_msg(IN_STREAM, 2)).subject == "site.old"
            assert (await jetstream.stream_info(MQTT_STREAM)).config.subjects == [
                "towpath.mqtt.>",
                "$MQTT.msgs.$EDC.>",
            ]
            republish = (await jetstream.stream_info("OUT_old")).config.republish
            assert republish is not None
            assert republish.dest == "towpath.mqtt.old.results"
        finally:
            await jetstream.delete_stream("OUT_old")
