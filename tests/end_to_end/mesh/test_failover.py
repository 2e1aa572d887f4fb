"""A job goes on at its standby when its site is lost, and the site comes back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from running.command_line import MESH_TIMEOUT_S, STEP_S
from running.flow import KEYS, PER_SECOND, WINDOW, Load, flowing, job, move, stored, windows
from running.promises import promise
from running.waiting import eventually
from running.whole_mesh import WholeMesh
from towpath.bus import Bus
from towpath.cli.connection import open_bus
from towpath.contracts.commands import DeployJob, ListJobs, ListSites, RemoveJob, StrategyName
from towpath.contracts.job import JobSpec
from towpath.contracts.site import SiteState
from towpath.contracts.standby import FailOverJob, ForecastFailover, ListStandbys, StandbyView
from towpath.streams.pages import last_serial

pytestmark = pytest.mark.timeout(MESH_TIMEOUT_S)

BACK_S = 180.0
"""Time limit for a site to be missed, or to be an ordinary one again, while other tests run."""


async def state_of(bus: Bus, site: str) -> SiteState:
    found = (await bus.request(ListSites(), deadline_s=STEP_S)).sites
    return next(each.state for each in found if each.site == site)


async def standby(bus: Bus, name: str) -> StandbyView:
    found = (await bus.request(ListStandbys(), deadline_s=STEP_S)).standbys
    return next(each for each in found if each.job == name)


async def owner(bus: Bus, name: str) -> str:
    found = (await bus.request(ListJobs(), deadline_s=STEP_S)).jobs
    return next(each.site for each in found if each.spec.name == name)


@asynccontextmanager
async def missed(mesh: WholeMesh, bus: Bus) -> AsyncIterator[None]:
    """Cut jfk off within the block, and begin the block when the coordinator misses it."""

    async def is_missed() -> bool:
        return await state_of(bus, "jfk") is SiteState.DOWN

    await asyncio.to_thread(mesh.succeed, "link", "jfk", "--cut")
    try:
        await eventually(is_missed, BACK_S)
        yield
    finally:
        await asyncio.to_thread(mesh.succeed, "link", "jfk", "--restore")


async def until_it_goes_on(bus: Bus, load: Load, sent: int, results: Callable[[], Awaitable[int]]) -> None:
    """Wait until jfk is back, more events have come in, and there are more results."""
    before = await results()

    async def goes_on() -> bool:
        up = await state_of(bus, "jfk") is SiteState.UP
        return up and load.sent > sent + 8 * PER_SECOND and await results() > before

    await eventually(goes_on, BACK_S)


def saved(name: str) -> JobSpec:
    """Return a job at jfk whose standby and results are at cloud."""
    changes = {
        "output": {"topic": f"{name}/windows", "site": "cloud"},
        "standby": {"site": "cloud", "every_s": 1},
    }
    return JobSpec.model_validate(job(name, f"site/{name}", f"{name}/windows", WINDOW, **changes))


@promise("failover")
async def test_windows_when_their_site_is_cut_off_and_the_standby_takes_over_then_each_comes_once(
    shared_mesh: WholeMesh,
) -> None:
    spec = saved("saved")
    async with open_bus(shared_mesh.at) as bus:
        await bus.request(DeployJob(spec=spec), deadline_s=STEP_S)

        async def results() -> int:
            return await last_serial(bus.connection, "cloud", "OUT_saved")

        async def has_a_copy() -> bool:
            return (await standby(bus, "saved")).behind_s is not None and await results() > KEYS

        async with flowing(shared_mesh.state, "site/saved") as load:
            await eventually(has_a_copy, BACK_S)
            async with missed(shared_mesh, bus):
                forecast = await bus.request(ForecastFailover(job="saved"), deadline_s=STEP_S)
                sent = load.sent
                await bus.request(FailOverJob(job="saved"), deadline_s=BACK_S)
            await until_it_goes_on(bus, load, sent, results)
        closed = load.sent // PER_SECOND - 6

        async def all_closed() -> bool:
            return await results() >= closed * KEYS

        await eventually(all_closed, BACK_S)
        found, at = await stored(bus, "OUT_saved", "cloud"), await owner(bus, "saved")
        await bus.request(RemoveJob(job="saved", purge=True), deadline_s=STEP_S)
    assert (at, forecast.standby) == ("cloud", "cloud")
    assert {result["site"] for result in found} == {"jfk", "cloud"}
    assert set(windows(found).values()) == {1}
    assert {result["values"]["events"] for result in found} == {PER_SECOND // KEYS}


async def test_windows_when_they_move_to_their_standby_and_back_then_each_comes_once_and_copies_go_on(
    shared_mesh: WholeMesh,
) -> None:
    async with open_bus(shared_mesh.at) as bus:
        await bus.request(DeployJob(spec=saved("moved")), deadline_s=STEP_S)

        async def has_a_copy() -> bool:
            return (await standby(bus, "moved")).behind_s is not None

        async with flowing(shared_mesh.state, "site/moved"):
            await eventually(has_a_copy, BACK_S)
            for to, strategy in (("cloud", StrategyName.HANDOVER), ("jfk", StrategyName.GENERAL)):
                await move(bus, "moved", to, strategy)
                assert await owner(bus, "moved") == to
            begun = await last_serial(bus.connection, "cloud", "OUT_moved")

            async def goes_on() -> bool:
                copied = await has_a_copy() and (await standby(bus, "moved")).note == ""
                return copied and await last_serial(bus.connection, "cloud", "OUT_moved") > begun + KEYS

            await eventually(goes_on, BACK_S)
        found = await stored(bus, "OUT_moved", "cloud")
        await bus.request(RemoveJob(job="moved", purge=True), deadline_s=STEP_S)
    assert set(windows(found).values()) == {1}
    assert {result["values"]["events"] for result in found} == {PER_SECOND // KEYS}


@promise("failover")
async def test_pipeline_when_a_site_is_lost_with_an_output_then_its_reader_goes_on_and_each_event_counts_once(
    shared_mesh: WholeMesh,
) -> None:
    # A large micro-batch has several tasks, whose results mix by more than the second job's watermark allows.
    changes = {"standby": {"site": "cloud", "every_s": 1}, "max_events_per_batch": 2 * PER_SECOND}
    first = JobSpec.model_validate(job("first", "site/first", "first/copied", **changes))
    second = JobSpec.model_validate(
        job(
            "second",
            "first/copied",
            "second/windows",
            WINDOW,
            site="cloud",
            output={"topic": "second/windows", "site": "cloud"},
        )
    )
    async with open_bus(shared_mesh.at) as bus:
        for spec in (first, second):
            await bus.request(DeployJob(spec=spec), deadline_s=STEP_S)

        async def results() -> int:
            return await last_serial(bus.connection, "cloud", "OUT_second")

        async def has_a_copy() -> bool:
            return (await standby(bus, "first")).behind_s is not None and await results() > KEYS

        async with flowing(shared_mesh.state, "site/first") as load:
            await eventually(has_a_copy, BACK_S)
            async with missed(shared_mesh, bus):
                await bus.request(FailOverJob(job="first"), deadline_s=BACK_S)

                async def reads_there() -> bool:
                    views = (await bus.request(ListJobs(), deadline_s=STEP_S)).jobs
                    (read,) = next(view.inputs for view in views if view.spec.name == "second")
                    return read.current_site == "cloud"

                await eventually(reads_there, BACK_S)
                sent = load.sent
            await until_it_goes_on(bus, load, sent, results)
        closed = load.sent // PER_SECOND - 6

        async def all_closed() -> bool:
            return await results() >= closed * KEYS

        await eventually(all_closed, BACK_S)
        copied = [result["values"]["n"] for result in await stored(bus, "OUT_first", "cloud")]
        found = await stored(bus, "OUT_second", "cloud")
        for name in ("second", "first"):
            await bus.request(RemoveJob(job=name, purge=True), deadline_s=STEP_S)
    assert sorted(copied) == list(range(len(copied)))
    assert set(windows(found).values()) == {1}
    assert {result["values"]["events"] for result in found} == {PER_SECOND // KEYS}
