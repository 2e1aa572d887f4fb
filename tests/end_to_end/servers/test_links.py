"""Emulated links between sites and hub, on real servers: cut, worse, restored, and remembered."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import TimeoutError as NatsTimeoutError
from nats.js.api import StreamConfig
from typer.testing import CliRunner

from running.links import mesh_with_links
from running.mesh import Mesh, answers_request, last_is
from running.waiting import WITHIN_S, eventually
from towpath.bus import Bus
from towpath.cli.__main__ import app
from towpath.contracts.data_plane import IN_STREAM
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import ResolvedInput
from towpath.contracts.links import (
    LinkChanged,
    LinkConditions,
    LinkList,
    LinkView,
    ListLinks,
    RestoreLink,
    ShapeLink,
)
from towpath.contracts.message import Command
from towpath.contracts.site import Retention
from towpath.streams.mirrors import fed_by
from towpath.streams.streams import SiteStreams

QUESTION = "towpath.v1.command.{site}.start-job"

CUT_OFF_S = 10.0
"""A request without an answer by then gets none at all."""


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
    with mesh_with_links(tmp_path_factory.mktemp("mesh")) as running:
        yield running


@asynccontextmanager
async def commanding(mesh: Mesh) -> AsyncIterator[Bus]:
    """Open a connection as operator. All links are perfect at first."""
    user = mesh.state.operator
    async with await Bus.connect(mesh.state.hub_url, user.user, user.password, name="operator") as bus:
        for site in mesh.state.sites:
            await ask(bus, RestoreLink(site=site))
        yield bus


async def ask(bus: Bus, command: Command[Any]) -> Any:
    return await bus.request(command, deadline_s=WITHIN_S, attempt_s=5)


@asynccontextmanager
async def answering(mesh: Mesh, site: str) -> AsyncIterator[Client]:
    """Run an agent that answers every command to its site."""

    async def answer(message: Msg) -> None:
        await message.respond(site.encode())

    async with mesh.agent(site) as agent, mesh.coordinator() as coordinator:
        await agent.subscribe(f"towpath.v1.command.{site}.>", cb=answer)
        await agent.flush()
        await eventually(lambda: answers_request(coordinator, QUESTION.format(site=site)))
        yield coordinator


async def answer_of(client: Client, site: str) -> bytes:
    return (await client.request(QUESTION.format(site=site), b"", timeout=CUT_OFF_S)).data


async def view_of(bus: Bus, site: str) -> LinkView:
    found: LinkList = await ask(bus, ListLinks())
    return next(view for view in found.links if view.site == site)


async def test_all_traffic_of_sites_leads_through_their_links_when_links_are_emulated(mesh: Mesh) -> None:
    async with commanding(mesh) as bus, answering(mesh, "jfk") as client:
        before = await view_of(bus, "jfk")
        assert await answer_of(client, "jfk") == b"jfk"
        after = await view_of(bus, "jfk")
        assert after.connections == 1
        assert after.bytes_to_site > before.bytes_to_site > 0
        assert after.bytes_to_hub > before.bytes_to_hub > 0


async def test_request_misses_its_deadline_when_the_link_is_cut_and_works_when_it_is_restored(
    mesh: Mesh,
) -> None:
    async with commanding(mesh) as bus, answering(mesh, "jfk") as jfk, answering(mesh, "lga") as lga:
        # Twice: the second time shows whether a site came back around the link.
        for _ in range(2):
            await ask(bus, ShapeLink(site="jfk", conditions=LinkConditions(cut=True)))
            with pytest.raises(NatsTimeoutError):
                await answer_of(jfk, "jfk")
            assert await answer_of(lga, "lga") == b"lga"
            await ask(bus, RestoreLink(site="jfk"))
            await eventually(lambda: answers_request(jfk, QUESTION.format(site="jfk")))
            assert await answer_of(jfk, "jfk") == b"jfk"


async def test_mirror_catches_up_when_a_cut_link_is_restored(mesh: Mesh) -> None:
    async with (
        commanding(mesh) as bus,
        mesh.agent("lga") as owner,
        mesh.gate("lga"),
        mesh.engine("lga") as origin,
        mesh.agent("jfk") as reader,
    ):
        await owner.jetstream().add_stream(name="OUT_source", subjects=["sink.lga.lga.source.1"])
        await origin.jetstream().publish("sink.lga.lga.source.1", b"1")
        mirror = StreamConfig(name="MIRROR_lga_OUT_source", mirror=fed_by("lga", "OUT_source", "jfk"))
        await reader.jetstream().add_stream(mirror)
        await eventually(lambda: last_is(reader, "MIRROR_lga_OUT_source", 1))

        await ask(bus, ShapeLink(site="lga", conditions=LinkConditions(cut=True)))
        for number in range(2, 101):
            await origin.jetstream().publish("sink.lga.lga.source.1", str(number).encode())
        with pytest.raises(AssertionError):
            await eventually(lambda: last_is(reader, "MIRROR_lga_OUT_source", 100), within_s=1)
        assert await last_is(reader, "MIRROR_lga_OUT_source", 1)

        await ask(bus, RestoreLink(site="lga"))
        await eventually(lambda: last_is(reader, "MIRROR_lga_OUT_source", 100))


async def test_mirror_when_its_first_question_was_lost_with_the_link_then_is_made_again(mesh: Mesh) -> None:
    async with (
        commanding(mesh) as bus,
        mesh.agent("lga") as owner,
        mesh.gate("lga"),
        mesh.agent("jfk") as reader,
    ):
        origin, mirroring = (
            SiteStreams(owner, "lga", Retention()),
            SiteStreams(reader, "jfk", Retention()),
        )
        await origin.ensure_in()
        async with mesh.device("lga") as device:
            await device.publish("site/a", b"{}", qos=1)
        read = ResolvedInput(
            name="lga/site/a", site="lga", stream=IN_STREAM, subject="site.a", from_device=True
        )
        await ask(bus, ShapeLink(site="lga", conditions=LinkConditions(cut=True)))
        await mirroring.mirrors.ensure(read, None)
        with pytest.raises(TowpathError):
            await mirroring.mirrors.renew(read, 0)
        await ask(bus, RestoreLink(site="lga"))

        async def made_again() -> bool:
            with contextlib.suppress(TowpathError):
                return await mirroring.mirrors.renew(read, 0)
            return False

        await eventually(made_again)
        await eventually(lambda: last_is(reader, "MIRROR_lga_IN", 1))
        assert not await mirroring.mirrors.renew(read, 0), "once is enough"


async def test_request_takes_at_least_the_delay_both_ways_when_the_link_has_one(mesh: Mesh) -> None:
    async with commanding(mesh) as bus, answering(mesh, "jfk") as client:
        conditions = LinkConditions(delay_ms=150, jitter_ms=10)
        view: LinkView = await ask(bus, ShapeLink(site="jfk", conditions=conditions))
        assert (view.conditions, view.until) == (conditions, None)
        began = asyncio.get_running_loop().time()
        assert await answer_of(client, "jfk") == b"jfk"
        assert asyncio.get_running_loop().time() - began >= 0.28


async def test_link_restores_itself_and_says_so_when_its_time_is_over(mesh: Mesh) -> None:
    changes: asyncio.Queue[LinkChanged] = asyncio.Queue()
    async with commanding(mesh) as bus:
        await bus.subscribe(LinkChanged, changes.put, site="jfk")
        await bus.connection.flush()
        worse = LinkConditions(bandwidth_bytes_per_s=50_000, for_s=1.0)
        view: LinkView = await ask(bus, ShapeLink(site="jfk", conditions=worse))
        assert view.until is not None
        async with asyncio.timeout(WITHIN_S):
            begun, ended = await changes.get(), await changes.get()
        assert (begun.conditions, ended.conditions) == (worse, LinkConditions())
        assert (ended.at - begun.at).total_seconds() >= 0.9
        assert (await view_of(bus, "jfk")).conditions == LinkConditions()


async def test_link_stays_cut_when_its_process_is_killed(mesh: Mesh) -> None:
    async with commanding(mesh) as bus, answering(mesh, "jfk") as client:
        await ask(bus, ShapeLink(site="jfk", conditions=LinkConditions(cut=True, for_s=600)))
        await mesh.kill("links")
        await mesh.start("links")
        view = await view_of(bus, "jfk")
        assert view.conditions.cut
        assert view.until is not None
        assert (await view_of(bus, "lga")).conditions == LinkConditions()
        with pytest.raises(AssertionError):
            await eventually(lambda: answers_request(client, QUESTION.format(site="jfk")), within_s=3)
        await ask(bus, RestoreLink(site="jfk"))
        await eventually(lambda: answers_request(client, QUESTION.format(site="jfk")))


async def test_command_is_refused_with_the_sites_when_there_is_no_such_link(mesh: Mesh) -> None:
    async with commanding(mesh) as bus:
        with pytest.raises(TowpathError) as refused:
            await ask(bus, ShapeLink(site="mars", conditions=LinkConditions(cut=True)))
        detail = refused.value.detail
        assert (detail.code, detail.value, detail.allowed) == (ErrorCode.UNKNOWN_SITE, "mars", ["jfk", "lga"])


async def test_site_cannot_command_links_when_it_tries(mesh: Mesh) -> None:
    command = ShapeLink(site="lga", conditions=LinkConditions(cut=True)).to_subject()
    event = "towpath.v1.event.site.jfk.not-kept"
    async with mesh.agent("jfk") as agent, mesh.operator() as operator:
        assert await passed(agent, operator, [command, event]) == {event}


async def test_links_can_only_speak_of_links_when_they_try_more(mesh: Mesh) -> None:
    event = "towpath.v1.event.link.jfk.changed"
    forged = ["towpath.v1.event.site.jfk.changed", QUESTION.format(site="jfk")]
    links = mesh.state.login("links")
    async with mesh.client(mesh.state.hub_url, links) as sender, mesh.operator() as operator:
        assert await passed(sender, operator, [*forged, event]) == {event}


async def passed(sender: Client, receiver: Client, subjects: list[str]) -> set[str]:
    """Return the messages of `sender` that reach `receiver`. The last must; it comes after the others."""
    arrived: list[str] = []

    async def on_message(message: Msg) -> None:
        arrived.append(message.subject)

    await receiver.subscribe("towpath.v1.>", cb=on_message)

    async def published() -> bool:
        for subject in subjects:
            await sender.publish(subject, b"{}")
        # Interest crosses to a site by and by: the second time, all of it has arrived.
        return arrived.count(subjects[-1]) > 1

    await eventually(published)
    return set(arrived) & set(subjects)


async def test_command_line_shapes_shows_and_restores_when_asked(mesh: Mesh) -> None:
    async with commanding(mesh):
        [shaped] = [await run(mesh.home.root, "link", "jfk", "--delay-ms", "5", "--bandwidth", "1000000")]
        assert shaped["conditions"] == {
            **LinkConditions().model_dump(),
            "delay_ms": 5.0,
            "bandwidth_bytes_per_s": 1_000_000,
        }
        assert [view["site"] for view in await run(mesh.home.root, "links")] == ["jfk", "lga"]
        restored = await run(mesh.home.root, "link", "jfk", "--restore")
        assert restored["conditions"] == LinkConditions().model_dump()


async def run(home: Path, *arguments: str) -> Any:
    """Run a command with `--json`. Return its answer."""
    command = ["--home", str(home), *arguments, "--json"]
    result = await asyncio.to_thread(CliRunner().invoke, app, command)
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)
