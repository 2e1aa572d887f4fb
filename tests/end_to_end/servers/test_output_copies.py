"""An output outlives its site: its copy at a standby is promoted, on real servers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from nats.aio.client import Client
from nats.js.api import StreamSource
from pyspark.sql.streaming.datasource import ReadAllAvailable

from running.mesh import REFUSED_S, Mesh
from running.promises import promise
from running.publishing import always
from running.waiting import eventually
from towpath.agent.assignments import AssignmentStore
from towpath.agent.handlers import AgentHandlers
from towpath.agent.jobs import Jobs
from towpath.agent.reception import Reception
from towpath.agent.roles import Roles
from towpath.contracts.data_plane import (
    LIFE,
    Offset,
    batch_label,
    live_stream,
    mirror_stream,
    output_stream,
    rejected_stream,
    rejected_subject,
    sink_subject,
    stored_id,
)
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import Assignment, ResolvedInput, ResolvedOutput
from towpath.contracts.migration import EXAMPLE_ASSIGNMENT, RECONCILIATION, ResetRole
from towpath.contracts.site import Retention
from towpath.contracts.site_commands import StopJob
from towpath.engines.spark.checkpoint_format import SPARK_CHECKPOINTS
from towpath.mesh.service_table import SITE_SERVER
from towpath.streams import mirrors
from towpath.streams.mirrors import MirrorSpec
from towpath.streams.output_copies import OutputCopies
from towpath.streams.pages import read_after
from towpath.streams.published import published_since
from towpath.streams.publisher import Outgoing, Publisher, stream_life
from towpath.streams.reading import Reading
from towpath.streams.source import StreamReader
from towpath.streams.streams import SiteStreams

JOB = "counts"
OUTPUT = ResolvedOutput(
    site="jfk", stream=output_stream(JOB), topic="counts", rejected_topic="counts/rejected"
)
REJECTED = rejected_stream(OUTPUT.stream)
PROMOTED = OUTPUT.at("lga")
KEPT = Assignment.model_validate(
    {
        **EXAMPLE_ASSIGNMENT,
        "spec": {**EXAMPLE_ASSIGNMENT["spec"], "name": JOB},
        "epoch": 1,
        "output": OUTPUT.model_dump(),
        "desired": "standby",
    }
)
"""The job as its standby has it."""

READ = ResolvedInput(name="jfk/counts", site="jfk", stream=OUTPUT.stream, subject=None, from_device=False)
MIRROR = mirror_stream("jfk", OUTPUT.stream)


class Sites:
    """The site jfk, where a job publishes, and lga: its standby, where another job reads the results."""

    def __init__(self, mesh: Mesh, jfk: Client, lga: Client) -> None:
        self.mesh = mesh
        self.jfk = SiteStreams(jfk, "jfk", Retention())
        self.lga = SiteStreams(lga, "lga", Retention())
        self.copies = OutputCopies(self.lga)

    async def publish(
        self, first: int, count: int, *, at: str = "jfk", epoch: int = 1, batch: int = 0
    ) -> int:
        """Publish results and one rejected event, as a job at a site does. Return the number of new ones."""
        connection = (self.jfk if at == "jfk" else self.lga).connection
        publisher, label, new = Publisher(always(connection), patience_s=10.0), batch_label(1, batch), 0
        for stream, subject, numbers in (
            (REJECTED, rejected_subject, range(first, first + 1)),
            (OUTPUT.stream, sink_subject, range(first, first + count)),
        ):
            life = await stream_life(connection, at, stream)
            known = await published_since(
                connection, site=at, stream=stream, job=JOB, epoch=epoch, generation=1, batch=batch
            )
            ids = {stored_id(life, f"{JOB}/{n}"): n for n in numbers}
            messages = [
                Outgoing(subject(at, at, JOB, epoch), identity, json.dumps({"n": n}).encode())
                for identity, n in ids.items()
                if identity not in known
            ]
            new += await publisher.publish(messages, site=at, stream=stream, batch=label)
        return new

    async def reaches(self, stream: str, serial: int) -> None:
        """Wait until a stream at lga has so many messages."""

        async def there() -> bool:
            return (await self.lga.view("lga", stream)).last >= serial

        await eventually(there)

    async def stored(self, stream: str = OUTPUT.stream) -> list[tuple[int, int]]:
        """Return serial number and content of what a stream at lga holds."""
        found = await read_after(self.lga.connection, "lga", stream, 0)
        return [(message.serial, json.loads(message.body)["n"]) for message in found]

    async def copy_that_ends(self, serial: int) -> None:
        """Let the copy end at a serial number, where jfk goes on: it is behind when the site is lost."""
        for stream in (REJECTED, OUTPUT.stream):
            held, life = f"HELD_{stream}", await stream_life(self.lga.connection, "jfk", stream)
            await self.lga.mirrors.make(MirrorSpec(held, "jfk", stream), 1)
            await self.reaches(held, serial if stream == OUTPUT.stream else 1)
            config = (await self.lga.jetstream.stream_info(held)).config
            await self.lga.jetstream.update_stream(replace(config, mirror=None, subjects=[f"held.{stream}"]))
            await self.lga.jetstream.add_stream(
                replace(self.lga.kept(stream), mirror=StreamSource(name=held), metadata={LIFE: life})
            )
            await self.reaches(stream, serial if stream == OUTPUT.stream else 1)

    def reader(self, stream: str) -> StreamReader:
        """Return what the job at lga reads a stream there with, after it has started."""
        access = self.mesh.state.sites["lga"]
        login = access.login("engine")
        file = self.mesh.home.root / "lga-engine.json"
        file.write_text(json.dumps({"user": login.user, "password": login.password}))
        where = {"url": access.nats_url, "credentials_file": str(file), "stream": stream}
        return StreamReader({**where, **Reading(None, from_device=False).options()})


@pytest.fixture
async def sites(own_servers: Mesh) -> AsyncIterator[Sites]:
    async with own_servers.agent("jfk") as jfk, own_servers.agent("lga") as lga, own_servers.gate("jfk"):
        both = Sites(own_servers, jfk, lga)
        await both.jfk.ensure_in()
        await both.lga.ensure_in()
        await both.jfk.outputs.set_epoch(JOB, 1, OUTPUT, owner="jfk")
        yield both


@promise("failover")
async def test_output_when_its_site_is_lost_and_the_standby_lags_behind_a_reader_then_each_result_comes_once(
    sites: Sites,
) -> None:
    await sites.publish(0, 10)
    await sites.copy_that_ends(10)
    await sites.lga.mirrors.ensure(READ, None)
    await sites.publish(10, 5, batch=1)
    await sites.reaches(MIRROR, 15)
    reader, begin = sites.reader(MIRROR), Offset(12).document()
    read = await asyncio.to_thread(reader.latestOffset, begin, ReadAllAvailable())
    assert read["serial"] == 15
    await sites.mesh.stop(f"jfk-{SITE_SERVER}")

    for _ in range(2):  # Its answer may be lost.
        await sites.copies.promote(JOB, 1, PROMOTED, ["lga", "jfk"])
    await sites.lga.outputs.set_epoch(JOB, 2, PROMOTED, owner="lga")

    # The checkpoint was copied after micro-batch 0: micro-batch 1 runs again, and has more events by now. New
    # are three results, and the rejected event that only jfk had.
    assert await sites.publish(10, 8, at="lga", epoch=2, batch=1) == 4
    assert await sites.stored() == [(n + 1, n) for n in range(18)]
    assert await sites.stored(REJECTED) == [(1, 0), (2, 10)]
    with pytest.raises(TowpathError) as late:
        await sites.copies.promote(JOB, 1, PROMOTED, ["lga"])
    assert late.value.detail.code is ErrorCode.FENCED

    assert READ.model_copy(update={"current_site": "lga"}).local_stream("lga") == OUTPUT.stream
    reader = sites.reader(OUTPUT.stream)
    went_on = await asyncio.to_thread(reader.latestOffset, read, ReadAllAvailable())
    assert went_on["serial"] == 18, "the reader goes on where it stood"


async def test_output_when_the_broker_of_its_lost_site_lives_then_readers_get_only_what_goes_on(
    sites: Sites,
) -> None:
    await sites.publish(0, 10)
    await sites.copies.keep(OUTPUT, 1)
    await sites.lga.mirrors.ensure(READ, None)
    await sites.reaches(OUTPUT.stream, 10)
    await sites.reaches(MIRROR, 10)

    await sites.lga.mirrors.hold(MIRROR)
    await sites.copies.promote(JOB, 1, PROMOTED, ["lga"])
    await sites.publish(10, 5, batch=1)  # A zombie: no one has told the job at jfk.
    assert not await sites.lga.mirrors.renew(READ, 10)
    await sites.lga.outputs.set_epoch(JOB, 2, PROMOTED, owner="lga")
    await sites.publish(100, 2, at="lga", epoch=2, batch=1)

    assert [n for _, n in await sites.stored()] == [*range(10), 100, 101]
    assert len(await sites.stored(MIRROR)) == 10


async def test_mirror_when_it_is_held_and_the_agent_restarts_then_takes_nothing_until_the_time_is_over(
    sites: Sites, monkeypatch: pytest.MonkeyPatch
) -> None:
    await sites.publish(0, 10)
    await sites.lga.mirrors.ensure(READ, None)
    await sites.reaches(MIRROR, 10)
    await sites.lga.mirrors.hold(MIRROR)
    await sites.publish(10, 5, batch=1)

    restarted = SiteStreams(sites.lga.connection, "lga", Retention())
    await restarted.mirrors.ensure(READ, 10)
    assert not await restarted.mirrors.renew(READ, 10)
    assert len(await sites.stored(MIRROR)) == 10

    later_s = mirrors.seconds_since_boot() + mirrors.HELD_S
    monkeypatch.setattr(mirrors, "seconds_since_boot", lambda: later_s)
    await restarted.mirrors.hold(MIRROR)
    assert not await restarted.mirrors.renew(READ, 10)

    monkeypatch.setattr(mirrors, "seconds_since_boot", lambda: later_s + mirrors.HELD_S)
    assert await restarted.mirrors.renew(READ, 10)
    await sites.reaches(MIRROR, 15)


async def test_output_when_it_goes_on_then_subscribers_there_get_what_is_new(sites: Sites) -> None:
    await sites.publish(0, 10)
    await sites.copies.keep(OUTPUT, 1)
    await sites.reaches(OUTPUT.stream, 10)
    await sites.mesh.stop(f"jfk-{SITE_SERVER}")
    async with sites.mesh.device("lga") as device:
        await device.subscribe("counts", qos=1)

        await sites.copies.promote(JOB, 1, PROMOTED, [])
        await sites.lga.outputs.set_epoch(JOB, 2, PROMOTED, owner="lga")
        await sites.publish(10, 2, at="lga", epoch=2, batch=1)

        async with asyncio.timeout(20):
            got = [json.loads((await anext(device.messages)).payload)["n"] for _ in range(2)]
    assert got == [10, 11]
    await sites.reaches(live_stream(OUTPUT.stream), 2)
    await asyncio.sleep(REFUSED_S)
    published = (await sites.lga.view("lga", live_stream(OUTPUT.stream))).last
    assert published == 2, "the older results were published at jfk"


async def test_copy_when_the_output_began_again_then_is_made_again(sites: Sites) -> None:
    await sites.publish(0, 10)
    await sites.copies.keep(OUTPUT, 1)
    await sites.reaches(OUTPUT.stream, 10)
    before = (await sites.lga.view("lga", OUTPUT.stream)).life
    await sites.jfk.outputs.drop(OUTPUT.stream)
    await sites.jfk.outputs.set_epoch(JOB, 1, OUTPUT, owner="jfk")
    await sites.publish(0, 4)

    await sites.copies.keep(OUTPUT, 1)

    await sites.reaches(OUTPUT.stream, 4)
    view = await sites.lga.view("lga", OUTPUT.stream)
    assert (view.last, view.life == before) == (4, False)
    await sites.copies.drop(KEPT)
    with pytest.raises(TowpathError, match="no such stream"):
        await sites.lga.view("lga", OUTPUT.stream)


async def test_copy_when_the_output_was_here_before_it_went_on_elsewhere_then_takes_its_place(
    sites: Sites,
) -> None:
    """The lost site came back, and becomes the standby."""
    await sites.publish(0, 3)
    await sites.lga.outputs.set_epoch(JOB, 1, PROMOTED, owner="lga")

    await sites.copies.keep(OUTPUT, 1)

    await sites.reaches(OUTPUT.stream, 3)
    assert (await sites.lga.view("lga", OUTPUT.stream)).fed_by is not None

    async def has_caught_up() -> bool:
        await sites.copies.keep(OUTPUT, 1)
        return await sites.copies.has_caught_up(OUTPUT)

    await eventually(has_caught_up)


async def test_copy_when_the_output_is_here_under_a_later_epoch_then_a_late_command_deletes_nothing(
    sites: Sites,
) -> None:
    await sites.lga.outputs.set_epoch(JOB, 2, PROMOTED, owner="lga")
    await sites.publish(0, 3, at="lga", epoch=2)

    with pytest.raises(TowpathError) as late:
        await sites.copies.keep(OUTPUT, 1)

    assert late.value.detail.code is ErrorCode.FENCED
    assert len(await sites.stored()) == 3


async def test_output_when_a_copy_was_left_at_its_site_then_begins_without_what_that_holds(
    sites: Sites,
) -> None:
    await sites.publish(0, 3)
    await sites.copies.keep(OUTPUT, 1)
    await sites.reaches(OUTPUT.stream, 3)

    await sites.lga.outputs.set_epoch(JOB, 5, PROMOTED, owner="lga")

    assert await sites.stored() == []


async def test_output_when_there_is_no_copy_then_does_not_begin_again_under_its_serial_numbers(
    sites: Sites,
) -> None:
    with pytest.raises(TowpathError, match="no copy"):
        await sites.copies.promote(JOB, 1, PROMOTED, [])


class Engines:
    """An engine that runs nothing."""

    def is_starting(self, _: Assignment) -> bool:
        return True

    async def drop(self, _: str) -> None:
        pass


class Standby:
    """The agent of lga, which was the standby of the job when its copy was promoted."""

    def __init__(self, sites: Sites, directory: Path) -> None:
        store, nothing = AssignmentStore(directory, SPARK_CHECKPOINTS), cast("Any", None)
        store.save(KEPT)
        self._jobs = Jobs(store, cast("Any", Engines()), sites.lga)
        self._reception = Reception("lga", nothing, store, "secret")
        self._nothing = nothing

    async def leave(self, epoch: int) -> None:
        """Be told that it is no standby of the job any more."""
        roles = Roles("lga", self._jobs, self._reception, self._nothing)
        operation = f"{RECONCILIATION}1"
        await roles.reset(ResetRole(site="lga", operation=operation, job=JOB, keep_job=False, epoch=epoch))

    async def forget(self, epoch: int) -> None:
        """Be told that the job is removed."""
        handlers = AgentHandlers(self._jobs, self._reception, self._nothing)
        await handlers.stop_job(StopJob(site="lga", operation="r1", job=JOB, epoch=epoch, forget=True))


@pytest.mark.parametrize("told", [Standby.leave, Standby.forget])
@pytest.mark.parametrize(
    ("accepts", "used", "stays"),
    [(1, 2, False), (1, 1, True), (2, 3, True)],
    ids=["the failover was rolled back", "it may be under way", "it went through"],
)
async def test_promoted_copy_when_its_site_is_no_standby_any_more_then_goes_unless_it_may_be_the_output(
    sites: Sites,
    tmp_path: Path,
    told: Callable[[Standby, int], Awaitable[None]],
    accepts: int,
    used: int,
    stays: bool,
) -> None:
    await sites.publish(0, 3)
    await sites.copies.keep(OUTPUT, 1)
    await sites.reaches(OUTPUT.stream, 3)
    await sites.copies.promote(JOB, 1, PROMOTED, [])
    if accepts > 1:
        await sites.lga.outputs.set_epoch(JOB, accepts, PROMOTED, owner="lga")

    for _ in range(2):  # Its answer may be lost.
        await told(Standby(sites, tmp_path), used)

    names = [name for one in (OUTPUT.stream, REJECTED) for name in (one, live_stream(one))]
    found = [await sites.lga.own_view(name) is not None for name in names]
    assert found == [stays] * len(names)


async def test_copy_when_the_agent_dies_before_it_is_dropped_then_the_site_still_has_the_job(
    sites: Sites, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else no one would tell it again, and the copy would stay."""
    await sites.copies.keep(OUTPUT, 1)

    async def die(_: str) -> None:
        raise ConnectionError

    monkeypatch.setattr(sites.lga, "delete", die)
    with pytest.raises(ConnectionError):
        await Standby(sites, tmp_path).leave(1)

    assert AssignmentStore(tmp_path, SPARK_CHECKPOINTS).load_all() == {JOB: KEPT}
