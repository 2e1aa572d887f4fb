"""SpecK's two listings, applied one after the other on three sites while data flows."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
from nats.aio.msg import Msg

from running.command_line import MESH_TIMEOUT_S, START_S, UP_S
from running.places import ROOT
from towpath.bus import Bus
from towpath.cli.connection import open_bus
from towpath.contracts.commands import ListJobs
from towpath.contracts.links import ListLinks
from towpath.contracts.pipeline import Action, ApplyState, ChangeState, PipelineSpec
from towpath.contracts.pipeline_commands import ApplyPipeline, JobApplied
from towpath.lab.workload.departures import departures
from towpath.mesh import lifecycle
from towpath.mesh.home import Home
from towpath.streams.pages import last_serial, read_after

pytestmark = pytest.mark.timeout(MESH_TIMEOUT_S)

LISTINGS = ROOT / "examples" / "speck"
EVENTS, RATE = 6_000, 75
"""Events flow for 80 s: longer than a change takes on a slow machine."""

LATE_MINUTES = 15.0
STEP_S = 200.0


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    home = Home(tmp_path_factory.mktemp("mesh"))
    options = [
        "--sites",
        "jfk,lga,cloud",
        "--emulate-links",
        "--artefact-root",
        str(ROOT),
        "--within",
        str(UP_S),
    ]
    try:
        started = towpath(home, "up", *options)
        assert started.returncode == 0, started.stderr
        yield home
    finally:
        lifecycle.down(home)


def command(home: Home, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "towpath.cli", "--home", str(home.root), *arguments]


def towpath(home: Home, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(home, *arguments), capture_output=True, text=True, timeout=START_S)


async def in_background(home: Home, *arguments: str) -> str:
    """Run a command that must succeed. Return what it prints."""
    process = await asyncio.create_subprocess_exec(
        *command(home, *arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    out, err = await asyncio.wait_for(process.communicate(), STEP_S)
    assert process.returncode == 0, err.decode()
    return out.decode()


async def applied(home: Home, listing: str) -> dict[str, list[str]]:
    """Apply a listing. Return its actions by job."""
    text = await in_background(
        home, "pipeline", "apply", str(LISTINGS / listing), "--name", "speck", "--json"
    )
    view = json.loads(text)
    assert view["state"] == "completed", view
    return {change["change"]["job"]: change["change"]["actions"] for change in view["changes"]}


async def results(bus: Bus, site: str, stream: str) -> list[dict[str, Any]]:
    stored = await read_after(bus.connection, site, stream, 0)
    return [json.loads(message.body)["values"] for message in stored]


async def until_there(bus: Bus, site: str, stream: str, count: int) -> list[dict[str, Any]]:
    async with asyncio.timeout(STEP_S):
        while len(found := await results(bus, site, stream)) < count:
            await asyncio.sleep(0.5)
    return found


async def test_listings_when_applied_while_data_flows_then_every_departure_is_judged_once(mesh: Home) -> None:
    sent = [json.loads(event.payload) for event in departures("JFK", EVENTS)]
    left = {e["id"]: e["delay"] for e in sent if e.get("departed_at") and e.get("delay") is not None}
    assert await applied(mesh, "listing-1.yaml") == {job: ["add"] for job in "abcd"}
    replay = asyncio.create_task(
        in_background(
            mesh, "replay", "--site", "jfk", "--airport", "JFK", "--rate", str(RATE), "--limit", str(EVENTS)
        )
    )
    async with open_bus(mesh) as bus:
        await until_there(bus, "cloud", "OUT_d", 500)
        assert await applied(mesh, "listing-2.yaml") == {
            "a": ["keep"],
            "b": ["remove"],
            "c": ["redirect"],
            "c2": ["add"],
            "d": ["redirect", "move"],
        }
        await replay
        judged = await until_there(bus, "cloud", "OUT_d", len(left))
        assert sorted(one["id"] for one in judged) == sorted(left)
        assert {one["id"]: one["late"] for one in judged} == {
            name: delay > LATE_MINUTES for name, delay in left.items()
        }
        old = await results(bus, "lga", "OUT_c")
        new = await results(bus, "lga", "OUT_c_1")
        assert [one["id"] for one in (*old, *new)] == list(left), "at one serial number, in order"
        assert old
        assert new


def forward(name: str, reads: str, writes: str | None = None, **changes: Any) -> dict[str, Any]:
    body = {
        "name": name,
        "site": "jfk",
        "inputs": [{"site": "jfk", "topic": reads}],
        "output": {"topic": writes or f"local/{name}"},
        "operator": {"kind": "forward"},
    }
    return {**body, **changes}


def pipeline(*jobs: dict[str, Any]) -> PipelineSpec:
    return PipelineSpec.model_validate({"name": "local", "jobs": list(jobs)})


async def delete(home: Home, name: str) -> None:
    text = await in_background(home, "pipeline", "delete", name, "--now", "--json")
    assert json.loads(text)["state"] == "completed"


async def bytes_passed(bus: Bus) -> int:
    answer = await bus.request(ListLinks(), deadline_s=30)
    return sum(link.bytes_to_hub + link.bytes_to_site for link in answer.links)


async def until_processed(bus: Bus, job: str, events: int) -> None:
    """Wait until a job's site reports this many processed events."""
    async with asyncio.timeout(STEP_S):
        while True:
            views = (await bus.request(ListJobs(), deadline_s=30)).jobs
            status = next(view.status for view in views if view.spec.name == job)
            if status is not None and status.events >= events:
                return
            await asyncio.sleep(0.5)


async def test_jobs_when_they_pass_events_on_at_one_site_then_their_traffic_never_leaves_it(
    mesh: Home,
) -> None:
    first, second = forward("first", "site/departures"), forward("second", "local/first")
    first["inputs"][0]["start"] = "latest"
    async with open_bus(mesh) as bus:
        await delete(mesh, "speck")
        view = await bus.request(ApplyPipeline(spec=pipeline(first, second)), deadline_s=STEP_S, attempt_s=30)
        assert view.state is ApplyState.COMPLETED
        before = await bytes_passed(bus)
        await in_background(
            mesh, "replay", "--site", "jfk", "--airport", "JFK", "--rate", "2000", "--limit", str(EVENTS)
        )
        await until_processed(bus, "second", EVENTS)
        crossed = await bytes_passed(bus) - before
        stored = await read_after(bus.connection, "jfk", "OUT_second", 0)
        assert len(stored) == EVENTS
        passed_on = sum(len(message.body) for message in stored)
        assert crossed < passed_on / 4, "only heartbeats and progress cross the links"
        await delete(mesh, "local")


def coordinator_of(home: Home) -> int:
    """Return the coordinator's process id."""
    marks = {"towpath.coordinator", str(home.root)}
    return next(p.pid for p in psutil.process_iter(["cmdline"]) if marks <= set(p.info["cmdline"] or []))


async def test_coordinator_when_killed_during_an_apply_of_twenty_changes_then_it_converges_and_is_clean(
    mesh: Home,
) -> None:
    old = [forward(f"old-{n}", "site/departures") for n in range(10)]
    for job in old:
        job["inputs"][0]["start"] = "latest"
    new = [forward(f"new-{n}", f"local/old-{5 + n % 5}") for n in range(10)]
    changed = [{**job, "trigger_s": 1.5} for job in old[5:]]
    async with open_bus(mesh) as bus:
        view = await bus.request(
            ApplyPipeline(spec=pipeline(*old), at_once=4), deadline_s=STEP_S, attempt_s=30
        )
        assert view.state is ApplyState.COMPLETED
        replay = asyncio.create_task(
            in_background(
                mesh, "replay", "--site", "jfk", "--airport", "JFK", "--rate", "100", "--limit", "4000"
            )
        )
        command = ApplyPipeline(spec=pipeline(*changed, *new), at_once=4)
        done = 0

        async def on_change(message: Msg) -> None:
            nonlocal done
            if JobApplied.from_bytes(message.data).state is ChangeState.COMPLETED:
                done += 1
                if done == 6:
                    os.kill(coordinator_of(mesh), signal.SIGKILL)

        watch = await bus.connection.subscribe(JobApplied.wildcard(), cb=on_change)
        view = await bus.request(command, deadline_s=STEP_S, attempt_s=5)
        await watch.unsubscribe()
        assert done > 6
        assert view.state is ApplyState.COMPLETED, view.note
        changes = [change for change in view.changes if change.change.actions != [Action.KEEP]]
        assert len(changes) == 20
        await replay
        for name in [*(job["name"] for job in changed), *(job["name"] for job in new)]:
            await until_stored(bus, f"OUT_{name}", 4000)
            stored = await read_after(bus.connection, "jfk", f"OUT_{name}", 0)
            ids = [json.loads(message.body)["values"].get("id") for message in stored]
            assert len(ids) == len(set(ids)) == 4000


async def until_stored(bus: Bus, stream: str, count: int) -> None:
    async with asyncio.timeout(STEP_S):
        while await last_serial(bus.connection, "jfk", stream) < count:
            await asyncio.sleep(0.5)
