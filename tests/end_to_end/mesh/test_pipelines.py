"""A pipeline changed while data flows, on Spark: nothing lost, nothing twice, what stays is not touched."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiomqtt
import pytest

from running.command_line import MESH_TIMEOUT_S
from running.promises import promise
from running.whole_mesh import WholeMesh
from towpath.bus import Bus
from towpath.cli.connection import open_bus
from towpath.contracts.commands import JobView, ListJobs
from towpath.contracts.pipeline import Action, ApplyPipeline, ApplyState, DeletePipeline, PipelineSpec
from towpath.mesh.home import Home
from towpath.mesh.state import MeshState
from towpath.streams.pages import last_serial, read_after

pytestmark = pytest.mark.timeout(MESH_TIMEOUT_S)

KEYS, PER_SECOND = 5, 200
"""Events of one second of event time: each key has `PER_SECOND / KEYS` in each window of a second."""

EPOCH_S = 1_767_225_600
APPLY_S = 180.0
FLOW_S = 60.0
FORWARD: dict[str, Any] = {"kind": "forward"}
WINDOW: dict[str, Any] = {
    "kind": "window",
    "fields": {"key": "string", "at": "timestamp"},
    "event_time": "at",
    "watermark_s": 5,
    "size_s": 1,
    "key": ["key"],
    "aggregates": {"events": {"function": "count"}},
}


@pytest.fixture
def mesh(shared_mesh: WholeMesh) -> Home:
    return shared_mesh.at


def job(name: str, reads: str, writes: str, operator: Any = None, **changes: Any) -> dict[str, Any]:
    body = {
        "name": name,
        "site": "jfk",
        "inputs": [{"site": "jfk", "topic": reads}],
        "output": {"topic": writes, "site": "jfk"},
        "operator": operator or FORWARD,
        "trigger_s": 0.5,
    }
    return {**body, **changes}


def event(number: int) -> bytes:
    at = EPOCH_S + number / PER_SECOND
    stamp = f"{at:.3f}"
    body = {"n": number, "key": f"k{number % KEYS}", "at": _iso(float(stamp))}
    return json.dumps(body).encode()


def _iso(seconds: float) -> str:
    whole, thousandths = divmod(round((seconds - EPOCH_S) * 1000), 1000)
    return f"2026-01-01T{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}.{thousandths:03d}Z"


class Load:
    """Devices that publish numbered events until they are told to stop."""

    def __init__(self) -> None:
        self.sent = 0
        self._stop = asyncio.Event()

    async def run(self, state: MeshState) -> None:
        site = state.site("jfk")
        async with aiomqtt.Client(
            site.mqtt_host, site.mqtt_port, username=site.device.user, password=site.device.password
        ) as client:
            for number in itertools.count():
                if self._stop.is_set():
                    return
                await client.publish("site/raw", event(number), qos=1)
                self.sent = number + 1
                await asyncio.sleep(0.004)

    def stop(self) -> None:
        self._stop.set()


@asynccontextmanager
async def flowing(state: MeshState) -> AsyncIterator[Load]:
    load = Load()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(load.run(state))
        try:
            yield load
        finally:
            load.stop()
            await task


async def until(condition: Callable[[], Any], within_s: float = FLOW_S) -> None:
    async with asyncio.timeout(within_s):
        while not await condition():
            await asyncio.sleep(0.2)


async def stored(bus: Bus, stream: str, site: str = "jfk") -> list[dict[str, Any]]:
    return [json.loads(m.body) for m in await read_after(bus.connection, site, stream, 0)]


async def numbers(bus: Bus, stream: str) -> list[int]:
    return [result["values"]["n"] for result in await stored(bus, stream)]


async def views(bus: Bus) -> dict[str, JobView]:
    answer = await bus.request(ListJobs(), deadline_s=30)
    return {view.spec.name: view for view in answer.jobs}


async def apply(bus: Bus, *jobs: dict[str, Any], **options: Any) -> dict[str, list[Action]]:
    spec = PipelineSpec.model_validate({"name": "delays", "jobs": list(jobs)})
    view = await bus.request(ApplyPipeline(spec=spec, **options), deadline_s=APPLY_S, attempt_s=30)
    assert view.state is ApplyState.COMPLETED, view
    return {c.change.job: c.change.actions for c in view.changes}


def windows(results: list[dict[str, Any]]) -> Counter[tuple[str, str]]:
    return Counter((r["window"]["start"], r["key"]["key"]) for r in results)


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

            await until(results_of_d)
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
                return load.sent > moment + 10 * PER_SECOND

            await until(flows_on)
        sent = load.sent

        async def all_through_c2() -> bool:
            return await last_serial(bus.connection, "jfk", "OUT_c2") >= sent - len(
                await numbers(bus, "OUT_c")
            )

        await until(all_through_c2)
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

        await until(windows_of_d)
        results = await stored(bus, "OUT_d")
        assert set(windows(results).values()) == {1}
        assert {r["values"]["events"] for r in results} == {PER_SECOND // KEYS}


@promise("draining")
async def test_pipeline_when_deleted_then_its_jobs_first_finish_what_their_inputs_hold(mesh: Home) -> None:
    state = MeshState.load(mesh)
    async with open_bus(mesh) as bus:
        await bus.request(DeletePipeline(pipeline="delays", now=True), deadline_s=APPLY_S, attempt_s=30)
        slow = {"trigger_s": 3.0}
        first = {**job("x", "site/raw", "t/x", **slow)}
        first["inputs"][0]["start"] = "latest"
        await apply(bus, first, job("y", "t/x", "t/y", **slow))
        async with flowing(state) as load:

            async def some() -> bool:
                return load.sent >= 1000

            await until(some)
        view = await bus.request(DeletePipeline(pipeline="delays"), deadline_s=APPLY_S, attempt_s=30)
        assert view.state is ApplyState.COMPLETED, view
        assert await views(bus) == {}
        assert await numbers(bus, "OUT_x") == list(range(load.sent))
        assert await numbers(bus, "OUT_y") == list(range(load.sent))


async def test_job_when_its_state_goes_on_with_another_input_then_no_window_is_cut(mesh: Home) -> None:
    """Two writers of one topic: the reader gains an input, and its open windows go on."""
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

            await until(counted)
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

        await until(closed)
        results = await stored(bus, "OUT_counting")
        assert set(windows(results).values()) == {1}
        assert sum(r["values"]["events"] for r in results) == len(await numbers(bus, "OUT_one")) - 1
        await bus.request(DeletePipeline(pipeline="delays", now=True), deadline_s=APPLY_S, attempt_s=30)
