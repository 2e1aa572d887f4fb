"""Shadow streams on a real server: no result of two owners is lost, doubled or out of order at the cut."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any

import nats
import pytest
from nats.aio.client import Client

from running.promises import promise
from running.publishing import always, forget_ids
from running.servers import Server
from running.waiting import WITHIN_S
from towpath.agent.outputs import Outputs
from towpath.contracts.data_plane import (
    output_stream,
    rejected_stream,
    rejected_subject,
    shadow_stream,
    sink_subject,
)
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import ResolvedOutput
from towpath.contracts.migration import AmendedResult, OpenShadow, SetEpoch, Settlement
from towpath.contracts.site import Retention
from towpath.streams import pages, publisher
from towpath.streams import shadows as shadows_module
from towpath.streams.failures import Fenced
from towpath.streams.pages import last_serial, read_after
from towpath.streams.publisher import Outgoing, Publisher, stream_life
from towpath.streams.shadows import Shadows
from towpath.streams.stored_ids import StoredIds
from towpath.streams.streams import SiteStreams

OUTPUT = ResolvedOutput(
    site="jfk", stream=output_stream("hourly"), topic="stats/hourly", rejected_topic="stats/hourly/rejected"
)
HANDOVER = OpenShadow(site="jfk", operation="m1", job="hourly", epochs=[3], owners={3: "lga"}, output=OUTPUT)
NEXT = HANDOVER.model_copy(update={"operation": "m2", "epochs": [5], "owners": {5: "jfk"}})
DIVERT = HANDOVER.model_copy(update={"epochs": [1, 3], "owners": {1: "jfk", 3: "lga"}, "interim": 2})

OWNERS = {1: "jfk", 2: "hub", 3: "lga", 5: "jfk"}
"""Epoch → who publishes under it in these tests."""


@pytest.fixture
async def streams(connection: Client) -> SiteStreams:
    """Return the streams of a site with a job at epoch 1."""
    made = SiteStreams(connection, "jfk", Retention(max_bytes=100_000_000, max_age_s=3600))
    await made.outputs.set_epoch("hourly", 1, OUTPUT, owner="jfk")
    return made


async def publish(
    connection: Client,
    epoch: int,
    numbers: range,
    *,
    rejected: bool = False,
    patience_s: float = WITHIN_S,
    batch: str | None = None,
) -> int:
    """Publish results as the owner of an epoch."""
    stream = rejected_stream(OUTPUT.stream) if rejected else OUTPUT.stream
    subject = (rejected_subject if rejected else sink_subject)("jfk", OWNERS[epoch], "hourly", epoch)
    life = await stream_life(connection, "jfk", stream)
    messages = [Outgoing(subject, f"{life}/{n}", json.dumps({"n": n}).encode()) for n in numbers]
    writer = Publisher(always(connection), patience_s=patience_s)
    return await writer.publish(messages, site="jfk", stream=stream, batch=batch or f"1.{epoch}")


async def held(connection: Client, stream: str = OUTPUT.stream) -> list[int]:
    """Return the serials in a stream, in order."""
    return [json.loads(m.body)["n"] for m in await read_after(connection, "jfk", stream, 0)]


def settle(*, position: int = 0, amended: list[AmendedResult] | None = None) -> SetEpoch:
    return SetEpoch(
        site="jfk",
        operation="m1",
        job="hourly",
        epoch=3,
        owners={3: "lga"},
        output=OUTPUT,
        settlement=Settlement(epoch=3, after_position=position, amended=amended or [], interim=2),
    )


async def do_settle(shadows: Shadows, command: SetEpoch) -> None:
    assert command.settlement is not None
    await shadows.settle(command, command.settlement)


async def test_publish_when_the_epoch_is_still_to_come_then_results_wait_in_the_shadow(
    streams: SiteStreams, connection: Client
) -> None:
    await publish(connection, 1, range(5))
    assert await Shadows(streams).open(HANDOVER) == 5
    assert await publish(connection, 3, range(3, 9)) == 6
    assert await held(connection) == [0, 1, 2, 3, 4]
    assert await held(connection, shadow_stream("hourly")) == [3, 4, 5, 6, 7, 8]


@promise("fencing")
async def test_settle_when_both_have_published_then_the_output_has_each_once_and_in_order(
    streams: SiteStreams, connection: Client
) -> None:
    shadows = Shadows(streams)
    await shadows.open(HANDOVER)
    await publish(connection, 1, range(5))
    await publish(connection, 3, range(9))
    await do_settle(shadows, settle())
    assert await publish(connection, 3, range(9, 12)) == 3
    assert await held(connection) == list(range(12))
    assert await streams.outputs.accepted_epoch(OUTPUT.stream) == 3
    assert await last_serial(connection, "jfk", shadow_stream("hourly")) == 0
    with pytest.raises(Fenced):
        await publish(connection, 1, range(20, 21))


async def test_settle_when_the_new_owner_publishes_all_the_while_then_nothing_overtakes(
    streams: SiteStreams, connection: Client, nats_server: Server
) -> None:
    shadows = Shadows(streams)
    await shadows.open(HANDOVER)
    other = await nats.connect(nats_server.url)
    life = await stream_life(other, "jfk", OUTPUT.stream)
    writer = Publisher(always(other))
    subject = sink_subject("jfk", "lga", "hourly", 3)
    going_on, batches = asyncio.Event(), 0

    async def new_owner() -> None:
        nonlocal batches
        while batches < 60:
            numbers = range(batches * 200, (batches + 1) * 200)
            messages = [Outgoing(subject, f"{life}/{n}", json.dumps({"n": n}).encode()) for n in numbers]
            await writer.publish(messages, site="jfk", stream=OUTPUT.stream, batch=f"1.{batches}")
            batches += 1
            if batches == 10:
                going_on.set()

    task = asyncio.create_task(new_owner())
    await asyncio.wait_for(going_on.wait(), WITHIN_S)
    await do_settle(shadows, settle())
    await asyncio.wait_for(task, WITHIN_S)
    await other.close()
    assert await held(connection) == list(range(12_000))


def break_at(moment: str, shadows: Shadows, patch: pytest.MonkeyPatch) -> None:
    """Make the agent die just before a step of `settle`."""
    accept = shadows.streams.outputs.accept

    async def die(*_: object, **__: object) -> None:
        raise ConnectionError("killed")

    async def accept_or_die(job: str, owners: dict[int, str], output: ResolvedOutput, **marks: Any) -> None:
        if max(owners) == (2 if moment == "accept interim" else 3):
            await die()
        await accept(job, owners, output, **marks)

    if moment.startswith("accept"):
        patch.setattr(shadows.streams.outputs, "accept", accept_or_die)
    else:
        patch.setattr(shadows, "_take_over" if moment == "take over" else "drop", die)


@pytest.mark.parametrize("moment", ["accept interim", "take over", "accept", "drop"])
async def test_settle_when_it_dies_at_any_moment_and_is_repeated_then_the_result_is_the_same(
    streams: SiteStreams, connection: Client, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    shadows = Shadows(streams)
    await shadows.open(HANDOVER)
    await publish(connection, 1, range(5))
    await publish(connection, 3, range(9))

    with monkeypatch.context() as patch:
        break_at(moment, shadows, patch)
        with pytest.raises(ConnectionError):
            await do_settle(shadows, settle())
    await do_settle(shadows, settle())
    assert await held(connection) == list(range(9))
    assert await streams.outputs.accepted_epoch(OUTPUT.stream) == 3


async def test_divert_when_the_source_publishes_on_then_it_is_not_fenced_and_goes_aside(
    streams: SiteStreams, connection: Client
) -> None:
    await publish(connection, 1, range(3))
    await Shadows(streams).open(DIVERT)
    assert await publish(connection, 1, range(3, 6)) == 3
    assert await publish(connection, 2, range(100, 101)) == 1, "the monitor publishes meanwhile"
    assert await held(connection) == [0, 1, 2, 100]
    assert await held(connection, shadow_stream("hourly")) == [3, 4, 5]


async def test_settle_when_results_were_amended_then_these_come_first_and_earlier_ones_are_left_out(
    streams: SiteStreams, connection: Client
) -> None:
    shadows = Shadows(streams)
    await shadows.open(DIVERT)
    await publish(connection, 1, range(3))
    await publish(connection, 3, range(10, 13))
    await publish(connection, 3, range(7, 9), rejected=True)
    amended = [AmendedResult(identity="amended", body='{"n": 99}')]
    await do_settle(shadows, settle(position=4, amended=amended))
    assert await held(connection) == [99, 11, 12]
    assert await held(connection, rejected_stream(OUTPUT.stream)) == [7, 8], (
        "rejected events are taken over all"
    )


async def test_settle_when_both_had_the_same_window_then_what_the_new_owner_said_of_it_is_there(
    streams: SiteStreams, connection: Client
) -> None:
    shadows = Shadows(streams)
    await shadows.open(DIVERT)
    assert await publish(connection, 1, range(3)) == 3
    assert await publish(connection, 3, range(2, 5)) == 3, "two owners' results are two messages"
    assert await publish(connection, 3, range(2, 5)) == 0, "one owner's are one"
    await do_settle(shadows, settle(position=3))
    assert await held(connection) == [2, 3, 4]


async def test_undivert_when_rolled_back_then_what_the_source_published_meanwhile_is_in_the_output(
    streams: SiteStreams, connection: Client
) -> None:
    shadows = Shadows(streams)
    await publish(connection, 1, range(3))
    await shadows.open(DIVERT)
    await publish(connection, 1, range(3, 6))
    await publish(connection, 2, range(3, 4))  # The monitor has forwarded one of them.
    await publish(connection, 3, range(50, 52))
    undo = settle().model_copy(
        update={"epoch": 5, "owners": {5: "jfk"}, "settlement": Settlement(epoch=1, interim=4)}
    )
    await do_settle(shadows, undo)
    assert await held(connection) == list(range(6))
    with pytest.raises(Fenced):
        await publish(connection, 3, range(60, 61))


async def test_open_when_its_operation_has_ended_then_it_is_refused(
    streams: SiteStreams, connection: Client
) -> None:
    shadows = Shadows(streams)
    await streams.outputs.set_epoch("hourly", 3, OUTPUT, owner="lga")
    with pytest.raises(TowpathError) as refused:
        await shadows.open(HANDOVER)
    assert refused.value.detail.code is ErrorCode.FENCED


async def test_open_when_an_ended_operation_left_a_shadow_then_it_is_made_again(
    streams: SiteStreams, connection: Client
) -> None:
    shadows = Shadows(streams)
    await shadows.open(HANDOVER)
    await publish(connection, 3, range(3))
    await shadows.open(NEXT)
    assert await held(connection, shadow_stream("hourly")) == []


async def test_open_when_a_later_migration_has_a_shadow_then_a_late_command_is_refused(
    streams: SiteStreams, connection: Client
) -> None:
    shadows = Shadows(streams)
    await shadows.open(NEXT)
    await publish(connection, 5, range(3))
    with pytest.raises(TowpathError) as refused:
        await shadows.open(HANDOVER)
    assert refused.value.detail.code is ErrorCode.FENCED
    assert await held(connection, shadow_stream("hourly")) == [0, 1, 2]


async def test_open_when_repeated_in_the_midst_of_a_settlement_then_nothing_is_lost(
    streams: SiteStreams, connection: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    shadows = Shadows(streams)
    await shadows.open(HANDOVER)
    await publish(connection, 3, range(4))
    with monkeypatch.context() as patch:
        break_at("accept interim", shadows, patch)
        with pytest.raises(ConnectionError):
            await do_settle(shadows, settle())
    await shadows.open(HANDOVER)
    await do_settle(shadows, settle())
    assert await held(connection) == [0, 1, 2, 3]


async def test_drop_when_the_shadow_is_of_another_migration_then_it_stays(
    streams: SiteStreams, connection: Client
) -> None:
    shadows = Shadows(streams)
    await shadows.open(NEXT)
    await publish(connection, 5, range(3))
    await shadows.drop("hourly", operation="m1")
    assert await held(connection, shadow_stream("hourly")) == [0, 1, 2]
    await shadows.drop("hourly", operation="m2")
    assert await last_serial(connection, "jfk", shadow_stream("hourly")) == 0


async def test_settle_when_it_comes_late_then_the_next_migrations_shadow_stays(
    streams: SiteStreams, connection: Client
) -> None:
    shadows = Shadows(streams)
    await streams.outputs.set_epoch("hourly", 3, OUTPUT, owner="lga")
    await shadows.open(NEXT)
    await publish(connection, 5, range(3))
    await do_settle(shadows, settle())
    assert await held(connection, shadow_stream("hourly")) == [0, 1, 2]


async def test_set_epoch_when_an_owners_results_were_diverted_and_never_settled_then_they_are_taken_over(
    streams: SiteStreams, connection: Client
) -> None:
    outputs = Outputs(streams)
    await outputs.open_shadow(DIVERT)
    await publish(connection, 1, range(4))
    plain = SetEpoch(site="jfk", operation="fix-1", job="hourly", epoch=5, owners={5: "jfk"}, output=OUTPUT)
    await outputs.set_epoch(plain)
    assert await held(connection) == [0, 1, 2, 3]
    assert await streams.outputs.accepted_epoch(OUTPUT.stream) == 5


async def test_open_when_diverted_results_wait_then_another_migration_is_refused(
    streams: SiteStreams, connection: Client
) -> None:
    shadows = Shadows(streams)
    await shadows.open(DIVERT)
    await publish(connection, 1, range(4))
    with pytest.raises(TowpathError, match="wait beside the output"):
        await shadows.open(NEXT)
    assert await held(connection, shadow_stream("hourly")) == [0, 1, 2, 3]


async def test_publish_when_the_output_forgot_its_ids_then_what_the_owner_before_stored_is_left_out(
    streams: SiteStreams, connection: Client
) -> None:
    shadows = Shadows(streams)
    await shadows.open(HANDOVER)
    late = Publisher(always(connection))
    life = await stream_life(connection, "jfk", OUTPUT.stream)

    async def late_owner(numbers: range) -> None:
        subject = sink_subject("jfk", "lga", "hourly", 3)
        messages = [Outgoing(subject, f"{life}/{n}", json.dumps({"n": n}).encode()) for n in numbers]
        await late.publish(messages, site="jfk", stream=OUTPUT.stream, batch="1.7")

    await late_owner(range(2))
    await publish(connection, 1, range(6))
    await do_settle(shadows, settle())
    config = (await streams.jetstream.stream_info(OUTPUT.stream)).config
    await streams.jetstream.update_stream(config, duplicate_window=0.1)
    await streams.jetstream.publish(
        sink_subject("jfk", "lga", "hourly", 3), b'{"n": 99}', headers={"Nats-Msg-Id": "new"}
    )
    await asyncio.sleep(0.3)  # Longer than the stream remembers ids now.
    await late_owner(range(2, 4))
    await late_owner(range(4, 8))
    assert await held(connection) == [*range(6), 99, 6, 7]


@pytest.mark.parametrize("page_of", [2, 2000])
async def test_settle_when_the_output_forgot_its_ids_then_still_takes_over_nothing_twice(
    streams: SiteStreams, connection: Client, monkeypatch: pytest.MonkeyPatch, page_of: int
) -> None:
    monkeypatch.setattr(shadows_module, "REMEMBERED", timedelta(0))
    monkeypatch.setattr(pages, "PAGE", page_of)
    shadows = Shadows(streams)
    for rejected in (False, True):
        await publish(connection, 1, range(2), batch="1.6", rejected=rejected)
        # It was published, but not committed when the checkpoint was copied: the target repeats it.
        await publish(connection, 1, range(2, 5), batch="1.7", rejected=rejected)
    await shadows.open(HANDOVER)
    for rejected in (False, True):
        await publish(connection, 1, range(5, 8), batch="1.8", rejected=rejected)
        await publish(connection, 3, range(2, 12), batch="1.7", rejected=rejected)
    await forget_ids(streams.connection, OUTPUT)
    await do_settle(shadows, settle())
    for stream in (OUTPUT.stream, rejected_stream(OUTPUT.stream)):
        assert [n for n in await held(connection, stream) if n != 99] == list(range(12))


async def test_settle_when_the_job_stood_still_for_long_then_what_it_published_last_is_not_repeated(
    streams: SiteStreams, connection: Client
) -> None:
    """A site comes back, and its job is handed over at once."""
    for rejected in (False, True):
        await publish(connection, 1, range(2), batch="1.6", rejected=rejected)
        await publish(connection, 1, range(2, 5), batch="1.7", rejected=rejected)
    await forget_ids(streams.connection, OUTPUT)
    shadows = Shadows(streams)
    await shadows.open(HANDOVER)
    for rejected in (False, True):
        await publish(connection, 3, range(2, 8), batch="1.7", rejected=rejected)
    await do_settle(shadows, settle())
    for stream in (OUTPUT.stream, rejected_stream(OUTPUT.stream)):
        assert [n for n in await held(connection, stream) if n != 99] == list(range(8))


async def test_settle_when_the_owner_was_not_past_what_another_run_stored_then_that_is_not_repeated(
    streams: SiteStreams, connection: Client
) -> None:
    """The other run's micro-batches were different, so their labels say nothing."""
    await publish(connection, 1, range(2), batch="1.60")
    await streams.outputs.set_epoch("hourly", 2, OUTPUT, owner="hub")
    await publish(connection, 2, range(2, 5), batch="1.51")
    await forget_ids(streams.connection, OUTPUT)
    await streams.outputs.set_epoch("hourly", 3, OUTPUT, owner="lga", resumes=1)
    shadows = Shadows(streams)
    await shadows.open(NEXT)
    await publish(connection, 5, range(2, 7), batch="1.61")
    command = settle().model_copy(
        update={"epoch": 5, "owners": {5: "jfk"}, "settlement": Settlement(epoch=5, interim=4)}
    )
    await do_settle(shadows, command)
    assert [n for n in await held(connection) if n != 99] == list(range(7))


async def test_settle_when_it_dies_and_is_repeated_after_long_then_amended_results_are_there_once(
    streams: SiteStreams, connection: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    shadows = Shadows(streams)
    await shadows.open(DIVERT)
    await publish(connection, 3, range(10, 12))
    command = settle(amended=[AmendedResult(identity="amended", body='{"n": 98}')])
    with monkeypatch.context() as patch:
        break_at("accept", shadows, patch)
        with pytest.raises(ConnectionError):
            await do_settle(shadows, command)
    await forget_ids(streams.connection, OUTPUT)
    monkeypatch.setattr(shadows_module, "REMEMBERED", timedelta(0))
    await do_settle(shadows, command)
    assert [n for n in await held(connection) if n != 99] == [98, 10, 11]


async def test_settle_when_much_is_to_be_read_then_the_source_publishes_meanwhile(
    streams: SiteStreams, connection: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shadows_module, "REMEMBERED", timedelta(0))
    shadows = Shadows(streams)
    await shadows.open(HANDOVER)
    read, numbers = StoredIds.read, iter(range(2))

    async def read_under_load(stored: StoredIds) -> None:
        await read(stored)
        if next(numbers) == 0:
            assert await publish(connection, 1, range(3)) == 3
            assert await publish(connection, 3, range(5)) == 5

    monkeypatch.setattr(StoredIds, "read", read_under_load)
    await do_settle(shadows, settle())
    assert await held(connection) == list(range(5))
    assert next(numbers, None) is None, "read before the source was shut out, and once more after it"


async def test_publish_when_no_one_accepts_the_epoch_for_long_then_the_writer_says_so(
    streams: SiteStreams, connection: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher, "UNHEARD_S", 0.3)
    with pytest.raises(Fenced, match="accepted nowhere"):
        await publish(connection, 3, range(2))
