"""A pipeline changes while data flows, on Spark: no loss, no duplicate, and unchanged jobs stay untouched."""

from __future__ import annotations

import json
from typing import Any

import aiomqtt
import pytest

from running.command_line import MESH_TIMEOUT_S
from running.flow import KEYS, PER_SECOND, WINDOW, flowing, job, numbers, stored, windows
from running.promises import promise
from running.waiting import eventually
from running.whole_mesh import WholeMesh
from towpath.bus import Bus
from towpath.cli.connection import open_bus
from towpath.contracts.commands import JobView, ListJobs
from towpath.contracts.pipeline import Action, ApplyState, PipelineSpec
from towpath.contracts.pipeline_commands import ApplyPipeline, DeletePipeline
from towpath.mesh.home import Home
from towpath.mesh.state import MeshState
from towpath.streams.pages import last_serial

pytestmark = pytest.mark.timeout(MESH_TIMEOUT_S)

APPLY_S = 180.0


@pytest.fixture
def mesh(shared_mesh: WholeMesh) -> Home:
    return shared_mesh.at


async def views(bus: Bus) -> dict[str, JobView]:
    answer = await bus.request(ListJobs(), deadline_s=30)
    return {view.spec.name: view for view in answer.jobs}


async def apply(bus: Bus, *jobs: dict[str, Any], **options: Any) -> dict[str, list[Action]]:
    spec = PipelineSpec.model_validate({"name": "delays", "jobs": list(jobs)})
    view = await bus.request(ApplyPipeline(spec=spec, **options), deadline_s=APPLY_S, attempt_s=30)
    assert view.state is ApplyState.COMPLETED, view
    return {c.change.job: c.change.actions for c in view.changes}


@promise("pipelines")
async def test_pipeline_when_changed_under_load_then_every_event_counts_exactly_once(mesh: Home) -> None:
    state = MeshState.load(mesh)
    a, b = job("a", "site/raw", "t/a"), job("b", "t/a", "t/b")
    c, d = job("c", "t/a", "t/c"), job("d", "t/c", "t/d", WINDOW)
    async with open_bus(mesh) as bus:
        async with flowing(state) as load:
            await apply(bus, a, b, c, d)

            async def results_of_d() -> bool:
                return await last_serial(bus.connection, "jfk", "OUT_d") > 3 * KEYS

            await eventually(results_of_d)
            before = await views(bus)
            changed = [
                a,
                job("c", "t/a", "t/c-raw"),
                job("c2", "t/c-raw", "t/c2"),
                {**job("d", "t/c2", "t/d", WINDOW), "site": "cloud", "strategy": "general"},
            ]
            done = await apply(bus, *changed)
            assert done == {
                "a": [Action.KEEP],
                "b": [Action.REMOVE],
                "c": [Action.REDIRECT],
                "c2": [Action.ADD],
                "d": [Action.REDIRECT, Action.MOVE],
            }
            moment = load.sent

            async def flows_on() -> bool:
                return load.sent > moment + 3 * PER_SECOND

            await eventually(flows_on)
        sent = load.sent

        async def all_through_c2() -> bool:
            return await last_serial(bus.connection, "jfk", "OUT_c2") >= sent - len(
                await numbers(bus, "OUT_c")
            )

        await eventually(all_through_c2)
        after = await views(bus)
        assert after["a"].epoch == before["a"].epoch, "a job that stays is not touched"
        assert after["a"].status is not None
        assert after["a"].status.restarts == 0
        assert after["d"].site == "cloud"
        old, new = await numbers(bus, "OUT_c"), await numbers(bus, "OUT_c_1")
        assert old + new == list(range(sent)), "all before the change in the old stream, all after in the new"
        assert await numbers(bus, "OUT_c2") == new

        closed = (sent - 6 * PER_SECOND - PER_SECOND) // PER_SECOND

        async def windows_of_d() -> bool:
            return len(await stored(bus, "OUT_d")) >= closed * KEYS

        await eventually(windows_of_d)
        results = await stored(bus, "OUT_d")
        assert set(windows(results).values()) == {1}
        assert {r["values"]["events"] for r in results} == {PER_SECOND // KEYS}
        await bus.request(DeletePipeline(pipeline="delays", now=True), deadline_s=APPLY_S, attempt_s=30)


@promise("draining")
async def test_pipeline_when_deleted_then_its_jobs_first_finish_what_their_inputs_hold(mesh: Home) -> None:
    state = MeshState.load(mesh)
    async with open_bus(mesh) as bus:
        slow = {"trigger_s": 3.0}
        first = {**job("x", "site/raw", "t/x", **slow)}
        first["inputs"][0]["start"] = "latest"
        await apply(bus, first, job("y", "t/x", "t/y", **slow))
        async with flowing(state) as load:

            async def some() -> bool:
                return load.sent >= 1000

            await eventually(some)
        view = await bus.request(DeletePipeline(pipeline="delays"), deadline_s=APPLY_S, attempt_s=30)
        assert view.state is ApplyState.COMPLETED, view
        assert {"x", "y"}.isdisjoint(await views(bus))
        assert await numbers(bus, "OUT_x") == list(range(load.sent))
        assert await numbers(bus, "OUT_y") == list(range(load.sent))


async def test_job_when_its_state_goes_on_with_another_input_then_no_window_is_cut(mesh: Home) -> None:
    """A second job writes the topic: the reader gains an input, and its open windows stay."""
    state = MeshState.load(mesh)
    one = job("one", "site/raw", "t/both")
    one["inputs"][0]["start"] = "latest"
    counting = job("counting", "t/both", "t/counted", {**WINDOW, "watermark_s": 3600})
    copying = job("two", "t/other", "t/both")
    other = job("other", "site/other", "t/other")
    async with open_bus(mesh) as bus:
        async with flowing(state):
            await apply(bus, one, counting)

            async def counted() -> bool:
                view = (await views(bus))["counting"]
                return view.status is not None and view.status.events > 300

            await eventually(counted)
            done = await apply(bus, one, counting, copying, other)
            assert done["counting"] == [Action.REDIRECT]
            assert done["one"] == [Action.KEEP]
            view = (await views(bus))["counting"]
            assert [i.stream for i in view.inputs] == ["OUT_one", "OUT_two"]
        site = state.site("jfk")
        async with aiomqtt.Client(
            site.mqtt_host, site.mqtt_port, username=site.device.user, password=site.device.password
        ) as client:
            # Two hours later: all windows close.
            late = json.dumps({"n": 1, "key": "late", "at": "2026-01-01T02:00:00Z"}).encode()
            await client.publish("site/raw", late, qos=1)
            await client.publish("site/other", late, qos=1)

        async def closed() -> bool:
            found = await stored(bus, "OUT_counting")
            return sum(r["values"]["events"] for r in found) >= len(await numbers(bus, "OUT_one")) - 1

        await eventually(closed)
        results = await stored(bus, "OUT_counting")
        assert set(windows(results).values()) == {1}
        assert sum(r["values"]["events"] for r in results) == len(await numbers(bus, "OUT_one")) - 1
        await bus.request(DeletePipeline(pipeline="delays", now=True), deadline_s=APPLY_S, attempt_s=30)
