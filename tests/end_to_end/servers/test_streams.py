"""Streams of a site on a real server: epochs, message ids, loss and recovery."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path

import nats
import pytest
from nats.aio.client import Client
from nats.js.errors import NoStreamResponseError

from running.promises import promise
from running.publishing import always
from running.servers import Server
from running.waiting import WITHIN_S, eventually
from towpath.bus.connecting import Login
from towpath.contracts.data_plane import (
    BATCH_HEADER,
    MESSAGE_ID_HEADER,
    batch_label,
    intake_subject,
    output_stream,
    rejected_stream,
    rejected_subject,
    sink_subject,
)
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import ResolvedOutput
from towpath.contracts.migration import OpenShadow
from towpath.contracts.site import Retention
from towpath.streams.event_reader import SerialRange
from towpath.streams.failures import EventsLost, Fenced, Unpublished
from towpath.streams.log_reader import Access, LogReader
from towpath.streams.published import published_since
from towpath.streams.publisher import Outgoing, Publisher, stream_life
from towpath.streams.reading import REASON, SERIAL, Reading
from towpath.streams.shadows import Shadows
from towpath.streams.sink import SinkConnection
from towpath.streams.source import StreamReader
from towpath.streams.streams import SiteStreams

OUTPUT = ResolvedOutput(
    site="jfk", stream=output_stream("hourly"), topic="stats/hourly", rejected_topic="stats/hourly/rejected"
)


@pytest.fixture
async def connection(nats_server: Server) -> AsyncIterator[Client]:
    client = await nats.connect(nats_server.url, max_reconnect_attempts=-1, reconnect_time_wait=0.05)
    yield client
    with contextlib.suppress(OSError):  # In the middle of a reconnection there is nothing to close.
        await client.close()


@pytest.fixture
async def streams(connection: Client) -> SiteStreams:
    return SiteStreams(connection, "jfk", Retention(max_bytes=100_000_000, max_age_s=3600))


def results(epoch: int, first: int, count: int) -> list[Outgoing]:
    subject = sink_subject("jfk", "jfk", "hourly", epoch)
    return [
        Outgoing(subject, f"hourly/{n}", json.dumps({"n": n}).encode()) for n in range(first, first + count)
    ]


async def stored(connection: Client) -> list[int]:
    """Return the serials in the output stream, in order."""
    jetstream = connection.jetstream()
    count = (await jetstream.stream_info(OUTPUT.stream)).state.messages
    subscription = await jetstream.subscribe("sink.>", stream=OUTPUT.stream, ordered_consumer=True)
    return [json.loads((await subscription.next_msg(timeout=WITHIN_S)).data)["n"] for _ in range(count)]


async def publish(
    connection: Client, messages: list[Outgoing], batch: int = 0, patience_s: float = WITHIN_S
) -> int:
    publisher = Publisher(always(connection), patience_s=patience_s)
    return await publisher.publish(messages, site="jfk", stream=OUTPUT.stream, batch=batch_label(1, batch))


@promise("repeats")
async def test_publish_when_batch_is_repeated_then_each_result_is_stored_once(
    streams: SiteStreams, connection: Client
) -> None:
    await streams.outputs.set_epoch("hourly", 1, OUTPUT, owner="jfk")
    assert await publish(connection, results(1, 0, 10_000)) == 10_000
    assert await publish(connection, results(1, 5_000, 10_000)) == 5_000
    assert await stored(connection) == list(range(15_000))


@promise("fencing")
@pytest.mark.parametrize(("owner", "epoch"), [("lga", 2), ("jfk", 1), ("jfk", 3), ("hub", 2)])
async def test_output_when_owner_and_epoch_are_not_those_it_was_told_then_no_stream_takes_the_result(
    streams: SiteStreams, connection: Client, owner: str, epoch: int
) -> None:
    await streams.outputs.set_epoch("hourly", 2, OUTPUT, owner="jfk")
    for subject in (sink_subject, rejected_subject):
        with pytest.raises(NoStreamResponseError):
            await connection.jetstream().publish(subject("jfk", owner, "hourly", epoch), b"forged")
    assert await publish(connection, results(2, 0, 3)) == 3
    assert await stored(connection) == [0, 1, 2]


async def test_publish_when_the_epoch_is_another_owners_then_writer_is_fenced_at_once(
    streams: SiteStreams, connection: Client
) -> None:
    await streams.outputs.set_epoch("hourly", 1, OUTPUT, owner="lga")
    with pytest.raises(Fenced, match=r"accepts sink\.jfk\.lga\.hourly\.1"):
        await publish(connection, results(1, 0, 3))


@promise("fencing")
async def test_publish_when_epoch_has_passed_then_writer_is_fenced_and_stores_nothing(
    streams: SiteStreams, connection: Client
) -> None:
    await streams.outputs.set_epoch("hourly", 1, OUTPUT, owner="jfk")
    await publish(connection, results(1, 0, 3))
    await streams.outputs.set_epoch("hourly", 2, OUTPUT, owner="jfk")
    with pytest.raises(Fenced):
        await publish(connection, results(1, 3, 3))
    assert await stored(connection) == [0, 1, 2]
    await publish(connection, results(2, 2, 3))
    assert await stored(connection) == [0, 1, 2, 3, 4]


async def test_set_epoch_when_a_later_one_is_in_force_then_it_is_refused(streams: SiteStreams) -> None:
    await streams.outputs.set_epoch("hourly", 3, OUTPUT, owner="jfk")
    with pytest.raises(TowpathError) as refusal:
        await streams.outputs.set_epoch("hourly", 2, OUTPUT, owner="jfk")
    assert refusal.value.detail.code is ErrorCode.FENCED
    assert await streams.outputs.accepted_epoch(OUTPUT.stream) == 3


async def test_set_epoch_when_repeated_and_a_stream_of_the_output_is_gone_then_it_is_made_again(
    streams: SiteStreams, connection: Client
) -> None:
    await streams.outputs.set_epoch("hourly", 1, OUTPUT, owner="jfk")
    await connection.jetstream().delete_stream(rejected_stream(OUTPUT.stream))
    await streams.outputs.set_epoch("hourly", 1, OUTPUT, owner="jfk")
    assert await streams.outputs.accepted_epoch(rejected_stream(OUTPUT.stream)) == 1


@pytest.fixture
def sink(nats_server: Server) -> Iterator[SinkConnection]:
    connection = SinkConnection(Login(nats_server.url, "", ""), "jfk")
    connection.start()
    yield connection
    connection.close()


@promise("repeats")
async def test_publish_when_server_is_killed_in_the_middle_then_all_is_stored_once_and_in_order(
    streams: SiteStreams, connection: Client, sink: SinkConnection, nats_server: Server
) -> None:
    await streams.outputs.set_epoch("hourly", 1, OUTPUT, owner="jfk")
    publishing = partial(sink.publish, results(1, 0, 60_000), site="jfk", stream=OUTPUT.stream, batch="1.0")
    sending = asyncio.create_task(asyncio.to_thread(publishing))
    jetstream = connection.jetstream()

    async def is_in_the_middle() -> bool:
        return (await jetstream.stream_info(OUTPUT.stream)).state.messages >= 200

    await eventually(is_in_the_middle)
    assert not sending.done()
    await nats_server.kill()
    await nats_server.start()
    await sending
    assert await stored(connection) == list(range(60_000))


async def test_publish_when_no_stream_exists_then_writer_is_fenced(
    streams: SiteStreams, connection: Client
) -> None:
    with pytest.raises(Fenced):
        await publish(connection, results(1, 0, 1))


async def test_publish_when_server_is_away_for_too_long_then_batch_fails(
    streams: SiteStreams, connection: Client, nats_server: Server
) -> None:
    await streams.outputs.set_epoch("hourly", 1, OUTPUT, owner="jfk")
    await nats_server.kill()
    with pytest.raises(Unpublished):
        await publish(connection, results(1, 0, 1), patience_s=0.5)
    await nats_server.start()


async def test_stream_life_when_output_is_deleted_and_made_again_then_it_is_another(
    streams: SiteStreams, connection: Client
) -> None:
    await streams.outputs.set_epoch("hourly", 1, OUTPUT, owner="jfk")
    first = await stream_life(connection, "jfk", OUTPUT.stream)
    await streams.outputs.set_epoch("hourly", 2, OUTPUT, owner="jfk")
    assert await stream_life(connection, "jfk", OUTPUT.stream) == first
    await streams.outputs.drop(OUTPUT.stream)
    with pytest.raises(Fenced):
        await stream_life(connection, "jfk", OUTPUT.stream)
    await streams.outputs.set_epoch("hourly", 3, OUTPUT, owner="jfk")
    assert await stream_life(connection, "jfk", OUTPUT.stream) != first


async def known_at_restart(connection: Client, batch: int, *, epoch: int, generation: int = 1) -> set[str]:
    """Return the results that a run which continues with `batch` under `epoch` knows as published."""
    return await published_since(
        connection,
        site="jfk",
        stream=OUTPUT.stream,
        generation=generation,
        batch=batch,
        job="hourly",
        epoch=epoch,
    )


async def test_published_since_when_batch_was_stored_in_part_then_its_ids_are_found(
    streams: SiteStreams, connection: Client
) -> None:
    await streams.outputs.set_epoch("hourly", 1, OUTPUT, owner="jfk")
    await publish(connection, results(1, 0, 5_000), batch=7)
    await publish(connection, results(1, 5_000, 3_000), batch=8)

    assert await known_at_restart(connection, 8, epoch=1) == {f"hourly/{n}" for n in range(5_000, 8_000)}
    assert await known_at_restart(connection, 9, epoch=1) == set()
    assert len(await known_at_restart(connection, 7, epoch=1)) == 8_000
    assert await known_at_restart(connection, 0, epoch=1, generation=2) == set()


async def test_published_since_when_an_owner_wrote_labels_that_are_none_then_its_successor_starts(
    streams: SiteStreams, connection: Client
) -> None:
    await streams.outputs.set_epoch("hourly", 1, OUTPUT, owner="jfk")
    await publish(connection, results(1, 0, 10), batch=5)
    await publish(connection, results(1, 10, 10), batch=6)
    for number, label in enumerate(("abc", "1." + "9" * 5000, "")):
        headers = {BATCH_HEADER: label, MESSAGE_ID_HEADER: f"forged-{number}"}
        await connection.jetstream().publish(sink_subject("jfk", "jfk", "hourly", 1), b"{}", headers=headers)
    await publish(connection, results(1, 20, 10), batch=6)

    assert await known_at_restart(connection, 6, epoch=1) == {f"hourly/{n}" for n in range(10, 30)}


async def test_published_since_when_another_run_had_the_output_then_all_of_its_ids_are_found(
    streams: SiteStreams, connection: Client
) -> None:
    """The other run's micro-batches were larger, so their numbers are smaller than the returning run's."""
    await streams.outputs.set_epoch("hourly", 1, OUTPUT, owner="jfk")
    await publish(connection, results(1, 0, 1_000), batch=60)
    await publish(connection, results(1, 1_000, 10), batch=61)
    await streams.outputs.set_epoch("hourly", 3, OUTPUT, owner="jfk")
    await publish(connection, results(3, 1_010, 4_000), batch=56)
    await publish(connection, results(3, 5_010, 90), batch=57)
    await streams.outputs.set_epoch("hourly", 4, OUTPUT, owner="jfk", resumes=1)

    assert await known_at_restart(connection, 61, epoch=4) == {f"hourly/{n}" for n in range(1_000, 5_100)}

    await streams.outputs.set_epoch("hourly", 4, OUTPUT, owner="jfk", resumes=1)
    await publish(connection, results(4, 5_100, 10), batch=62)
    assert len(await known_at_restart(connection, 63, epoch=4)) == 4_090, "only what the other run stored"


async def test_published_since_when_the_owner_has_not_passed_what_another_run_stored_then_its_successor_knows(
    streams: SiteStreams, connection: Client
) -> None:
    await streams.outputs.set_epoch("hourly", 1, OUTPUT, owner="jfk")
    await publish(connection, results(1, 0, 1_000), batch=60)
    await streams.outputs.set_epoch("hourly", 3, OUTPUT, owner="jfk")
    await publish(connection, results(3, 1_000, 50), batch=56)
    await streams.outputs.set_epoch("hourly", 4, OUTPUT, owner="jfk", resumes=1)
    others = {f"hourly/{n}" for n in range(1_000, 1_050)}

    await streams.outputs.set_epoch("hourly", 5, OUTPUT, owner="jfk")
    assert await known_at_restart(connection, 61, epoch=5) == others, "moved before it published anything"
    await streams.outputs.set_epoch("hourly", 6, OUTPUT, owner="jfk")
    await publish(connection, results(6, 1_050, 7), batch=57)
    await streams.outputs.set_epoch("hourly", 7, OUTPUT, owner="jfk", resumes=5)
    others |= {f"hourly/{n}" for n in range(1_050, 1_057)}
    assert await known_at_restart(connection, 61, epoch=7) == others, "given back once more"

    await publish(connection, results(7, 1_057, 1), batch=61)
    await streams.outputs.set_epoch("hourly", 8, OUTPUT, owner="jfk")
    assert await known_at_restart(connection, 62, epoch=8) == set(), "the owner is past all that"


async def test_published_since_when_epoch_is_yet_to_come_then_own_ids_are_found_unless_they_go_aside(
    streams: SiteStreams, connection: Client
) -> None:
    await streams.outputs.set_epoch("hourly", 1, OUTPUT, owner="jfk")
    await publish(connection, results(1, 0, 5), batch=7)
    own = {f"hourly/{n}" for n in range(5)}
    assert await known_at_restart(connection, 7, epoch=4) == own

    shadows = Shadows(streams)
    await shadows.open(
        OpenShadow(site="jfk", operation="m1", job="hourly", epochs=[4], owners={4: "jfk"}, output=OUTPUT)
    )
    assert await known_at_restart(connection, 7, epoch=4) == set()


async def test_publish_when_epoch_is_given_back_late_then_what_others_stored_meanwhile_is_passed_over(
    streams: SiteStreams, connection: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By then the server has forgotten the ids."""
    monkeypatch.setattr("towpath.contracts.data_plane.DUPLICATE_WINDOW_S", 0.2)
    await streams.outputs.set_epoch("hourly", 1, OUTPUT, owner="jfk")
    await publish(connection, results(1, 0, 5), batch=60)
    await streams.outputs.set_epoch("hourly", 3, OUTPUT, owner="jfk")
    waiting = asyncio.create_task(publish(connection, results(4, 5, 20), batch=61))
    await publish(connection, results(3, 5, 10), batch=56)
    await forgotten(connection, results(3, 5, 1))
    await streams.outputs.set_epoch("hourly", 4, OUTPUT, owner="jfk", resumes=1)
    await waiting
    assert sorted(set(await stored(connection))) == list(range(25))
    assert (await connection.jetstream().stream_info(OUTPUT.stream)).state.messages == 26, "the probe and 25"


async def forgotten(connection: Client, probe: list[Outgoing]) -> None:
    """Wait until the server stores a result again because it has forgotten its id."""
    await eventually(lambda: publish(connection, probe, batch=56))


async def test_topic_when_result_is_stored_then_live_subscriber_gets_it_once(
    streams: SiteStreams, connection: Client
) -> None:
    await streams.outputs.set_epoch("hourly", 1, OUTPUT, owner="jfk")
    live = await connection.subscribe("stats.hourly")
    durable = await connection.subscribe("towpath.mqtt.stats.hourly")
    await publish(connection, results(1, 0, 2))
    await publish(connection, results(1, 1, 2))
    for subscription in (live, durable):
        assert [json.loads((await subscription.next_msg(timeout=WITHIN_S)).data)["n"] for _ in range(3)] == [
            0,
            1,
            2,
        ]
        assert subscription.pending_msgs == 0


@pytest.fixture
def reader(nats_server: Server, tmp_path: Path) -> LogReader:
    credentials = tmp_path / "credentials.json"
    credentials.write_text('{"user": "anyone", "password": "any"}')
    return LogReader(Access(nats_server.url, str(credentials)))


async def fill(connection: Client, count: int) -> None:
    for n in range(count):
        await connection.publish(intake_subject("site.departures"), json.dumps({"n": n}).encode())
    await connection.flush()
    jetstream = connection.jetstream()

    async def are_stored() -> bool:
        return (await jetstream.stream_info("IN")).state.last_seq >= count

    await eventually(are_stored)


def read(reader: LogReader, after: int, through: int) -> list[int]:
    batches = reader.read("IN", after, through)
    return [message.stream_sequence for messages in batches for message in messages]


@promise("serial numbers")
async def test_read_when_range_is_kept_then_exactly_its_serials_come(
    streams: SiteStreams, connection: Client, reader: LogReader
) -> None:
    await streams.ensure_in()
    await fill(connection, 25_000)
    assert (await asyncio.to_thread(reader.view, "IN")).last == 25_000
    assert await asyncio.to_thread(read, reader, 10, 15_010) == list(range(11, 15_011))
    assert await asyncio.to_thread(read, reader, 15_010, 25_000) == list(range(15_011, 25_001))
    assert await asyncio.to_thread(read, reader, 3, 5) == [4, 5]


async def test_read_when_serials_are_gone_then_it_says_which(
    streams: SiteStreams, connection: Client, reader: LogReader
) -> None:
    await streams.ensure_in()
    await fill(connection, 100)
    await connection.jetstream().purge_stream("IN", seq=41)
    with pytest.raises(EventsLost, match=r"EventsLost: serials 11\.\.40 of IN"):
        await asyncio.to_thread(read, reader, 10, 60)


async def test_read_when_a_mirror_has_a_gap_and_the_job_goes_on_then_the_gap_is_named_and_the_rest_comes(
    streams: SiteStreams, connection: Client, reader: LogReader
) -> None:
    await streams.ensure_in()
    await fill(connection, 100)
    for serial in range(41, 51):
        await connection.jetstream().delete_msg("IN", serial)
    options = Reading(None, from_device=True).options()
    where = {"url": reader.access.url, "credentials_file": reader.access.credentials_file, "stream": "IN"}
    source = StreamReader({**where, **options, "on_loss": "report"})

    batches = await asyncio.to_thread(lambda: list(source.read(SerialRange(10, 100))))

    rows = [row for batch in batches for row in batch.to_pylist()]
    assert [row[SERIAL] for row in rows] == [*range(11, 41), *range(50, 101)]
    assert [row[REASON] for row in rows if row[REASON]] == [
        "events 41 to 50 of IN were gone before they were read"
    ]


async def test_read_when_server_restarts_in_between_then_it_goes_on(
    streams: SiteStreams, connection: Client, reader: LogReader, nats_server: Server
) -> None:
    await streams.ensure_in()
    await fill(connection, 2_000)
    assert await asyncio.to_thread(read, reader, 0, 1_000) == list(range(1, 1_001))
    await nats_server.kill()
    await nats_server.start()
    assert await asyncio.to_thread(read, reader, 1_000, 2_000) == list(range(1_001, 2_001))
