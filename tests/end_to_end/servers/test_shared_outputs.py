"""Two runs publish into one output on a real server: it stores each result once, however far one lags."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pytest
from nats.aio.client import Client

from running.publishing import always, forget_ids
from towpath.contracts.data_plane import OVERLAP, output_stream, sink_subject
from towpath.contracts.job import ResolvedOutput
from towpath.contracts.migration import OpenShadow, SetEpoch, Settlement
from towpath.contracts.site import Retention
from towpath.streams import shared_output
from towpath.streams.failures import Fenced
from towpath.streams.pages import read_after
from towpath.streams.publisher import Outgoing, Publisher, stream_life
from towpath.streams.shadows import Shadows
from towpath.streams.stream_view import stream_view
from towpath.streams.streams import SiteStreams

OUTPUT = ResolvedOutput(
    site="jfk", stream=output_stream("hourly"), topic="stats/hourly", rejected_topic="stats/hourly/rejected"
)
SOURCE, TARGET = 1, 3
OWNERS = {SOURCE: "jfk", TARGET: "lga"}
PROBE = 99
"""Number in the messages of `forget_ids`."""


@dataclass
class Run:
    """One of two runs of a job, with the clock of its machine."""

    connection: Client
    epoch: int
    now_s: float = 1000.0
    publisher: Publisher = field(init=False)

    def __post_init__(self) -> None:
        self.publisher = Publisher(always(self.connection), patience_s=5.0, clock=lambda: self.now_s)

    async def publish(self, *numbers: int) -> int:
        """Publish results. Return the number of those that were not stored before."""
        life = await stream_life(self.connection, "jfk", OUTPUT.stream)
        subject = sink_subject("jfk", OWNERS[self.epoch], "hourly", self.epoch)
        messages = [Outgoing(subject, f"{life}/{n}", json.dumps({"n": n}).encode()) for n in numbers]
        return await self.publisher.publish(messages, site="jfk", stream=OUTPUT.stream, batch="1.1")


@pytest.fixture
async def shadows(connection: Client) -> Shadows:
    """Return the shadows of a site where the source owns a job, and the target's results wait."""
    streams = SiteStreams(connection, "jfk", Retention(max_bytes=100_000_000, max_age_s=3600))
    await streams.outputs.set_epoch("hourly", SOURCE, OUTPUT, owner="jfk")
    shadows = Shadows(streams)
    opening = OpenShadow(
        site="jfk", operation="m1", job="hourly", epochs=[TARGET], owners={TARGET: "lga"}, output=OUTPUT
    )
    await shadows.open(opening)
    return shadows


async def share(shadows: Shadows) -> None:
    settlement = Settlement(epoch=TARGET, interim=2)
    command = SetEpoch(
        site="jfk",
        operation="m1",
        job="hourly",
        epoch=TARGET,
        owners=OWNERS,
        output=OUTPUT,
        beside=SOURCE,
        settlement=settlement,
    )
    await shadows.settle(command, settlement)


async def shared_by_runs(shadows: Shadows, connection: Client) -> tuple[Run, Run]:
    """Share the output after the source's first result. Return both runs."""
    source, target = Run(connection, SOURCE), Run(connection, TARGET)
    await source.publish(1)
    await share(shadows)
    return source, target


async def held(connection: Client) -> list[int]:
    """Return the results that are stored, without probes."""
    found = [json.loads(m.body)["n"] for m in await read_after(connection, "jfk", OUTPUT.stream, 0)]
    return [number for number in found if number != PROBE]


async def test_output_when_it_is_shared_then_takes_the_first_of_two_equal_results(
    shadows: Shadows, connection: Client
) -> None:
    source, target = Run(connection, SOURCE), Run(connection, TARGET)
    await source.publish(1, 2)
    await target.publish(1, 2, 3)

    await share(shadows)
    new = [await target.publish(4), await source.publish(3, 4, 5), await target.publish(5, 6)]

    assert new == [1, 1, 1]
    assert await held(connection) == [1, 2, 3, 4, 5, 6]


async def test_run_when_it_is_far_behind_the_other_then_leaves_out_what_the_server_forgot(
    shadows: Shadows, connection: Client
) -> None:
    source, target = await shared_by_runs(shadows, connection)
    await target.publish(2, 3, 4)

    await forget_ids(connection, OUTPUT)
    source.now_s += shared_output.LOOK_S
    new = await source.publish(2, 3, 4, 5)

    assert new == 1
    assert await held(connection) == [1, 2, 3, 4, 5]


async def test_run_when_its_machine_slept_after_a_look_then_looks_again_before_it_sends(
    shadows: Shadows, connection: Client
) -> None:
    source, target = await shared_by_runs(shadows, connection)
    await target.publish(2, 3)
    await forget_ids(connection, OUTPUT)

    source.now_s += shared_output.STALE_S + 1
    await source.publish(2, 3)

    assert await held(connection) == [1, 2, 3]


async def test_target_when_it_goes_on_alone_then_leaves_out_what_the_source_has_stored(
    shadows: Shadows, connection: Client
) -> None:
    source, target = await shared_by_runs(shadows, connection)
    await target.publish(1)
    await source.publish(2, 3)

    await shadows.streams.outputs.set_epoch("hourly", TARGET, OUTPUT, owner="lga")
    await forget_ids(connection, OUTPUT)
    with pytest.raises(Fenced):
        await source.publish(4)
    await target.publish(2, 3, 4)

    assert await held(connection) == [1, 2, 3, 4]
    view = await stream_view(connection, "jfk", OUTPUT.stream)
    assert view is not None
    assert view.epochs == [TARGET]
    assert not view.metadata[OVERLAP].endswith("-"), "no one adds to the mark any more"


async def test_source_when_it_goes_on_alone_then_the_mark_spans_what_both_have_stored(
    shadows: Shadows, connection: Client
) -> None:
    source, target = await shared_by_runs(shadows, connection)
    await target.publish(2, 3)
    await source.publish(2)
    await target.publish(4)

    await shadows.streams.outputs.set_epoch("hourly", 5, OUTPUT, owner="jfk", resumes=SOURCE)

    assert await shadows.streams.outputs.overlap_of(OUTPUT.stream) == "0-4"
    with pytest.raises(Fenced):
        await target.publish(5)
