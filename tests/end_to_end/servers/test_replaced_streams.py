"""Streams that began again, or lost their end, and their mirrors at other sites, on real servers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client
from pyspark.sql.streaming.datasource import ReadAllAvailable

from running.mesh import Mesh
from running.promises import promise
from running.waiting import eventually
from towpath.contracts.data_plane import IN_STREAM, Offset
from towpath.contracts.errors import TowpathError
from towpath.contracts.job import ResolvedInput
from towpath.contracts.site import Retention
from towpath.mesh.service_table import SITE_SERVER
from towpath.streams import source
from towpath.streams.failures import EventsRenumbered
from towpath.streams.log_reader import reader_for
from towpath.streams.reading import Reading
from towpath.streams.source import StreamReader
from towpath.streams.streams import SiteStreams

INPUT = ResolvedInput(name="jfk/site/a", site="jfk", stream=IN_STREAM, subject="site.a", from_device=True)
SERVER = f"jfk-{SITE_SERVER}"


class Sites:
    """The streams of two sites: jfk, where events come in, and lga, which mirrors them."""

    def __init__(self, mesh: Mesh, jfk: Client, lga: Client) -> None:
        self.mesh = mesh
        self.jfk = SiteStreams(jfk, "jfk", Retention())
        self.lga = SiteStreams(lga, "lga", Retention())

    async def put(self, count: int, site: str = "jfk") -> None:
        """Store events at a site."""
        async with self.mesh.device(site) as device:
            for _ in range(count):
                await device.publish("site/a", b"{}", qos=1)

    async def last(self) -> int:
        """Return the newest serial number of the mirror."""
        return (await self.lga.view("lga", "MIRROR_jfk_IN")).last

    async def mirrored(self, serial: int) -> None:
        """Wait until the mirror ends at a serial number."""

        async def is_there() -> bool:
            return await self.last() == serial

        await eventually(is_there)

    async def renew(self) -> bool:
        """Let the agent of lga look at its mirror, again while a site does not answer in time.

        Return true if the mirror was made again.
        """

        async def looked() -> list[bool]:
            with contextlib.suppress(TowpathError):
                return [await self.lga.mirrors.renew(INPUT, 0)]
            return []

        [is_made_again] = await eventually(looked)
        return is_made_again

    def reader(self, site: str) -> StreamReader:
        """Return what a job at a site reads the events with, after it has started."""
        access = self.mesh.state.sites[site]
        login = access.login("engine")
        file = self.mesh.home.root / f"{site}-engine.json"
        file.write_text(json.dumps({"user": login.user, "password": login.password}))
        stream = IN_STREAM if site == "jfk" else "MIRROR_jfk_IN"
        where = {"url": access.nats_url, "credentials_file": str(file), "stream": stream}
        return StreamReader({**where, **Reading(None, from_device=True).options()})

    async def plan(self, site: str, start: dict[str, Any]) -> dict[str, Any]:
        """Return the offset that such a job plans next."""
        return await asyncio.to_thread(self.reader(site).latestOffset, start, ReadAllAvailable())


@pytest.fixture
async def sites(own_servers: Mesh) -> AsyncIterator[Sites]:
    async with own_servers.agent("jfk") as jfk, own_servers.agent("lga") as lga, own_servers.gate("jfk"):
        both = Sites(own_servers, jfk, lga)
        await both.jfk.ensure_in()
        await both.lga.ensure_in()
        await both.lga.mirrors.ensure(INPUT, None)
        yield both


@asynccontextmanager
async def without_power(sites: Sites, kept: Path) -> AsyncIterator[None]:
    """Stop the server of jfk, and start it with the files that it had when `kept` was copied."""
    await sites.mesh.stop(SERVER)
    yield
    shutil.rmtree(sites.mesh.home.nats("jfk"))
    shutil.copytree(kept, sites.mesh.home.nats("jfk"))
    await sites.mesh.start(SERVER)

    async def answers() -> bool:
        with contextlib.suppress(TowpathError):
            return (await sites.jfk.view("jfk", IN_STREAM)).last > 0
        return False

    await eventually(answers)


async def test_events_of_a_site_when_it_mirrors_another_one_then_have_their_own_times(sites: Sites) -> None:
    await sites.put(5, "lga")
    await sites.put(10)
    await sites.mirrored(10)
    own, mirror = reader_for(sites.reader("lga").access), "MIRROR_jfk_IN"
    times = [await asyncio.to_thread(own.storing_times, IN_STREAM, 5) for _ in range(50)]
    assert {time for found in times for time in found} == {own.view(IN_STREAM).last_stored_at}, (
        "no mirror answers for it"
    )
    assert await asyncio.to_thread(own.storing_times, mirror, 10) == [own.view(mirror).last_stored_at]


@promise("renumbered")
async def test_job_elsewhere_when_a_stream_began_again_and_is_longer_then_stops(sites: Sites) -> None:
    await sites.put(10)
    await sites.mirrored(10)
    processed = await sites.plan("lga", Offset(0).document())
    assert processed["serial"] == 10
    assert not await sites.renew(), "the mirror is as it must be"
    await sites.jfk.delete(IN_STREAM)
    await sites.jfk.ensure_in()
    await sites.put(14)
    await eventually(sites.renew)
    await sites.mirrored(14)
    with pytest.raises(EventsRenumbered, match=r"up to serial 10 .*serials 1\.\.14, and 10 is another event"):
        await sites.plan("lga", processed)
    assert not await sites.renew(), "once is enough"


async def test_jobs_when_a_power_cut_took_the_end_of_a_stream_then_stop_only_if_they_had_read_it(
    sites: Sites, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "BEHIND_S", 1.0)
    await sites.put(10)
    await sites.mirrored(10)
    at_ten = {site: await sites.plan(site, Offset(0).document()) for site in ("jfk", "lga")}
    assert at_ten["jfk"] == at_ten["lga"], "a mirror has the times of its origin"
    async with without_power(sites, tmp_path / "kept"):
        shutil.copytree(sites.mesh.home.nats("jfk"), tmp_path / "kept")
    await sites.put(5)
    await sites.mirrored(15)
    at_fifteen = await sites.plan("lga", at_ten["lga"])
    async with without_power(sites, tmp_path / "kept"):
        pass
    await sites.put(2)
    await eventually(sites.renew)
    await sites.mirrored(12)
    reader = sites.reader("lga")

    async def stops() -> bool:
        try:
            assert await asyncio.to_thread(reader.latestOffset, at_fifteen, ReadAllAvailable()) == at_fifteen
        except EventsRenumbered:
            return True
        return False

    await eventually(stops)
    for site, start in at_ten.items():
        assert (await sites.plan(site, start))["serial"] == 12, f"nothing that {site} had read is gone"
    await sites.put(10)
    await sites.mirrored(22)
    for site in ("jfk", "lga"):
        with pytest.raises(EventsRenumbered, match="15 is another event"):
            await sites.plan(site, at_fifteen)
