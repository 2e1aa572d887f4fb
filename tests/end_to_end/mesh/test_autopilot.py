"""The autopilot of a whole mesh: a job leaves before its site loses its link, also if it is killed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from running.command_line import STEP_S, UP_S
from running.flow import KEYS, PER_SECOND, WINDOW, flowing, job, stored, windows
from running.promises import promise
from running.stillness import still
from running.waiting import eventually, until
from running.whole_mesh import WholeMesh
from towpath.bus import Bus
from towpath.cli.connection import open_bus
from towpath.cli.starting import wait_until_up
from towpath.contracts.autopilot import (
    AnnounceWindow,
    AutopilotMode,
    AutopilotSpec,
    Decision,
    DecisionState,
    ShowAutopilot,
)
from towpath.contracts.commands import DeployJob, ListJobs, RemoveJob
from towpath.contracts.job import JobSpec
from towpath.contracts.links import LinkConditions, ShapeLink
from towpath.contracts.message import now
from towpath.contracts.site import MeshSpec, SiteSpec
from towpath.mesh.home import Home
from towpath.mesh.lifecycle import down, up
from towpath.mesh.state import MeshState

SITES = ("jfk", "cloud")
TUNNEL_IN_S, TUNNEL_S = 30.0, 600.0
"""The job is to leave soon: a move is expected to take 8 s, and three times as long is kept for it."""

AUTOPILOT = AutopilotSpec(mode=AutopilotMode.ACT, horizon_s=60, interval_s=1, settled_s=1, rest_s=1)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    yield Home(tmp_path / "mesh")
    down(Home(tmp_path / "mesh"))


@contextlib.asynccontextmanager
async def running(home: Home, autopilot: AutopilotSpec = AUTOPILOT) -> AsyncIterator[tuple[MeshState, Bus]]:
    spec = MeshSpec(sites=[SiteSpec(name=name) for name in SITES], emulate_links=True, autopilot=autopilot)
    state = await asyncio.to_thread(up, home, spec)
    await wait_until_up(home, SITES, UP_S, lambda _: None)
    async with open_bus(home) as bus:
        yield state, bus


async def decided(bus: Bus) -> Decision | None:
    """Return the newest decision."""
    decisions = (await bus.request(ShowAutopilot(limit=1), deadline_s=STEP_S, attempt_s=2)).decisions
    return decisions[0] if decisions else None


async def site_of(bus: Bus, name: str) -> str:
    return (await bus.request(ListJobs(), deadline_s=STEP_S)).named(name).site


@pytest.fixture
def piloted(shared_mesh: WholeMesh) -> Iterator[WholeMesh]:
    """The shared mesh, with an autopilot for a while."""
    chosen = "\n".join(f"{name} = {json.dumps(value)}" for name, value in AUTOPILOT.model_dump().items())
    shared_mesh.up(settings=f"[autopilot]\n{chosen}")
    yield shared_mesh
    shared_mesh.up(settings='[autopilot]\nmode = "off"')
    until(lambda: "autopilot" not in shared_mesh.pids())


@promise("autopilot")
async def test_job_when_its_site_will_lose_its_link_then_leaves_before_and_no_result_is_lost(
    piloted: WholeMesh,
) -> None:
    state = piloted.state
    async with open_bus(piloted.at) as bus:
        spec = JobSpec.model_validate(job("rides", "site/rides", "rides/counted", WINDOW, site="cloud"))
        await bus.request(DeployJob(spec=spec), deadline_s=STEP_S)
        async with flowing(state, "site/rides") as load:
            await eventually(lambda: stored(bus, "OUT_rides"))
            begins = now() + timedelta(seconds=TUNNEL_IN_S)
            tunnel = AnnounceWindow(site="cloud", begins=begins, ends=begins + timedelta(seconds=TUNNEL_S))
            await bus.request(tunnel, deadline_s=STEP_S)

            async def is_moving() -> bool:
                found = await decided(bus)
                return found is not None and found.state in (DecisionState.MOVING, DecisionState.DONE)

            await eventually(is_moving)
            os.kill((await asyncio.to_thread(piloted.pids))["autopilot"], signal.SIGKILL)

            async def is_done() -> bool:
                found = await decided(bus)
                return found is not None and found.state is DecisionState.DONE

            await eventually(is_done)
            assert await site_of(bus, "rides") == "jfk"
            await bus.request(ShapeLink(site="cloud", conditions=LinkConditions(cut=True)), deadline_s=STEP_S)
            moment = load.sent + 10 * PER_SECOND
            await eventually(lambda: load.sent > moment)
        closed = (load.sent - 6 * PER_SECOND) // PER_SECOND

        async def has_all() -> bool:
            return len(await stored(bus, "OUT_rides")) >= closed * KEYS

        await eventually(has_all)
        results = await stored(bus, "OUT_rides")
        decision = await decided(bus)
        await bus.request(ShapeLink(site="cloud", conditions=LinkConditions()), deadline_s=STEP_S)
        await bus.request(RemoveJob(job="rides", purge=True), deadline_s=STEP_S)

    assert set(windows(results).values()) == {1}
    assert {result["values"]["events"] for result in results} == {PER_SECOND // KEYS}
    assert {result["site"] for result in results} == {"jfk", "cloud"}
    assert decision is not None
    assert [(move.job, move.origin, move.target) for move in decision.moves] == [("rides", "cloud", "jfk")]
    assert "cloud will have no link" in decision.reason


async def test_job_when_its_engine_stands_still_then_has_a_twin_until_it_is_well_again(home: Home) -> None:
    async def is_in(state: DecisionState) -> Decision | None:
        found = await decided(bus)
        return found if found is not None and found.state is state else None

    async def flows_at_jfk() -> bool:
        return [result["site"] for result in await stored(bus, "OUT_rides")][-KEYS:] == ["jfk"] * KEYS

    async with running(home, AUTOPILOT.model_copy(update={"rest_s": 40})) as (state, bus):
        qos = {"latency_p99_s": 12.0, "replicas": "auto"}
        described = job("rides", "site/rides", "rides/counted", WINDOW, site="cloud", qos=qos)
        await bus.request(DeployJob(spec=JobSpec.model_validate(described)), deadline_s=STEP_S)
        async with flowing(state, "site/rides") as load:
            await eventually(lambda: stored(bus, "OUT_rides"))
            with still(home.run, "cloud-engine"):
                twin = await eventually(partial(is_in, DecisionState.TWIN))
                await eventually(flows_at_jfk)
            done = await eventually(partial(is_in, DecisionState.DONE))
            moment = load.sent + 10 * PER_SECOND
            await eventually(lambda: load.sent > moment)
        results = await stored(bus, "OUT_rides")
        assert await site_of(bus, "rides") == "cloud"

    assert done.outcome is not None
    assert (done.decision, done.outcome.stays) == (twin.decision, "cloud")
    assert "they may take 12.0 s" in twin.reason
    assert set(windows(results).values()) == {1}
    assert {result["values"]["events"] for result in results} == {PER_SECOND // KEYS}
