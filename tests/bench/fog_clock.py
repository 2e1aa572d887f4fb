"""Work of a node at half its clock, and delay and bandwidth of a link between containers.

A job on a backlog measures the node's work, so that it waits for the processor alone, and a program that only
loops does so, too. Full and half clock are measured by turns, so that changes of the machine's speed affect
both.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import TypeVar

from benchmark import Benchmark, Say, Scale
from figures import Case, Measured, Target, Value, rounded
from measured_mesh import MeasuredMesh, NotInTime

from towpath.bus import Bus
from towpath.containers.daemon import daemon
from towpath.contracts.commands import DeployJob, RemoveJob
from towpath.contracts.data_plane import output_stream
from towpath.contracts.job import Input
from towpath.contracts.scenario_load import StandardJob
from towpath.contracts.topology import NodeLink
from towpath.lab.emulation.bringing_up import Plan, bring_up, take_down
from towpath.lab.emulation.project import Project
from towpath.lab.harness.events import BEGIN, NumberedEvent
from towpath.lab.harness.load import DueEvent
from towpath.lab.harness.stage import Stage
from towpath.lab.harness.workload import spec_of
from towpath.lab.scenarios.playing import standing_emulation
from towpath.lab.topology.reading import read
from towpath.lab.workload.replay import Replay
from towpath.mesh.home import Home
from towpath.mesh.link_probe import probe
from towpath.mesh.site_broker import site_broker
from towpath.streams.pages import last_serial
from towpath.tasks import to_the_end

T = TypeVar("T")

EDGE = "edge"
CORES = 0.8
"""Cores of the measured node: the machine has two, and runs everything else, too."""

TOPOLOGY = {
    "name": "clock",
    "nodes": [
        {
            "name": EDGE,
            "cores": CORES,
            "memory_mb": 1792,
            "engine": {"spark_master": "local[1]", "memory": "640m"},
        },
        {"name": "cloud", "cores": 1.0, "memory_mb": 1792},
    ],
}

BACKLOG = 400_000
BATCH = 2000
MEASURED_S = 10.0
FULL_HALF_HALF_FULL = (1.0, 0.5, 0.5, 1.0)
"""Parts of the clock, in the order in which they are measured."""

ENOUGH = 0.88
"""Part of its share that a node must have had: on a busy machine, its work says nothing about its clock."""

LOOP = "import time; e = time.time() + 4\nwhile time.time() < e: pass\nprint(time.process_time())"
"""A busy program that prints the processor time it got, in seconds.

The number of its loops would depend on the machine's other guests: a core does a third less in one minute
than in the next.
"""

DELAY_S, RATE = 0.05, 1_250_000
"""Settings of the link: seconds each way, and bytes per second, which are 10 Mbit/s."""

COMMAND_S = 90.0
RATIO, OFF, TOLD, FOUND = "half to full", "off, %", "told", "measured"
HALF, NEAR = Target(at_most=15.0), Target(at_most=10.0)


async def measure(mesh: MeasuredMesh | None, scale: Scale, say: Say, measured: Measured) -> None:
    """Measure the edge's clock, and the edge's link, in a topology of an edge and a cloud."""
    measured.notes.append(
        "what a loop and a job do with half the clock, against all of it; a link at what it is told"
    )
    rounds = 1 if scale is Scale.QUICK else 2
    with tempfile.TemporaryDirectory(prefix="towpath-bench-fog-") as directory:
        home, topology = Home(Path(directory) / "fog"), Path(directory) / "clock.yaml"
        topology.write_text(json.dumps(TOPOLOGY))
        try:
            await bring_up(home, Plan.of(read(str(topology))), say)
            async with standing_emulation(home, str(topology)) as stage:
                await _link(stage, measured)
                say("the clock")
                await _clock(home, stage, rounds, measured)
        finally:
            await to_the_end(take_down(home))


async def _link(stage: Stage, measured: Measured) -> None:
    access = stage.mesh.site(EDGE)
    user = access.login("agent")
    connecting = Bus.connect(access.nats_url, user.user, user.password, name="bench", within_s=COMMAND_S)
    async with await connecting as bus:
        perfect = await _probed(bus)
        await stage.emulation.link(EDGE, NodeLink(delay_ms=DELAY_S * 1000, bandwidth_mbit_s=RATE * 8 / 1e6))
        given = await _probed(bus)
    await stage.emulation.link(EDGE, None)
    # Servers and processes add their own time, with and without the link.
    added_s = min(given["link.round_trip"]) - min(perfect["link.round_trip"])
    for name, told, found in (
        ("link: round trip added, s", 2 * DELAY_S, added_s),
        ("link: bandwidth, bytes/s", RATE, median(given["link.bandwidth"])),
    ):
        off = rounded(100 * abs(found - told) / told, 1)
        measured.cases.append(Case(name, {TOLD: told, FOUND: rounded(found, 3), OFF: off}, {OFF: NEAR}))


async def _probed(bus: Bus) -> dict[str, list[float]]:
    """Return metric → nine values of the mesh's own probe of the link to the hub."""
    await probe(bus, "hub")
    found: dict[str, list[float]] = {}
    for _ in range(9):
        for sample in await probe(bus, "hub"):
            found.setdefault(sample.metric, []).append(sample.value)
    return found


async def _clock(home: Home, stage: Stage, rounds: int, measured: Measured) -> None:
    container = (await asyncio.to_thread(Project(home).containers))[EDGE]
    # While the node has no other work: a removed job keeps its engine busy for a while.
    _, upkeep = await _with_cores(stage, partial(asyncio.sleep, MEASURED_S))
    loop = partial(asyncio.to_thread, _looped_s, container)
    _report(measured, "a loop", await _at_both_clocks(stage, loop, rounds, upkeep))
    async with _job_on_backlog(stage):
        await _until_emitted(stage, BACKLOG // 20)  # Until the JVM has compiled what it runs.
        _report(measured, "a job", await _at_both_clocks(stage, partial(_rate, stage), 2 * rounds, upkeep))
    await stage.emulation.settle()


def _report(measured: Measured, name: str, found: dict[float, list[float]]) -> None:
    ratio = sum(found[0.5]) / sum(found[1.0])
    figures: dict[str, Value] = {
        TOLD: 0.5,
        FOUND: rounded(ratio, 3),
        OFF: rounded(100 * abs(ratio - 0.5) / 0.5, 1),
    }
    measured.cases.append(Case(f"{name}: half to full clock", figures, {OFF: HALF}))
    measured.raw[name] = {str(part): values for part, values in found.items()}


@asynccontextmanager
async def _job_on_backlog(stage: Stage) -> AsyncIterator[None]:
    """A job at the edge that has more to do than it can; each event makes a result of its own."""
    edge = stage.mesh.site(EDGE)
    device = Replay(site_broker(edge, edge.device), "site/backlog", "backlog")
    async with stage.emulation.at_full_speed():
        await device.run(DueEvent(NumberedEvent(n, "k", BEGIN, 1.0).payload, 0.0) for n in range(BACKLOG))
        spec = spec_of(StandardJob(name="backlog", workload="cleaned", site=EDGE, topic="site/backlog"))
        inputs = [Input(site=EDGE, topic="site/backlog", start=0)]
        changes = {"inputs": inputs, "trigger_s": 0.0, "max_events_per_batch": BATCH}
        deploy = DeployJob(spec=spec.model_copy(update=changes))
        await stage.bus.request(deploy, deadline_s=COMMAND_S, attempt_s=30)
        await _until_emitted(stage, 1)
    try:
        yield
    finally:
        await stage.bus.request(RemoveJob(job="backlog", purge=True), deadline_s=COMMAND_S, attempt_s=30)


async def _emitted(stage: Stage) -> int:
    return await last_serial(stage.bus.connection, EDGE, output_stream("backlog"))


async def _until_emitted(stage: Stage, count: int) -> None:
    async with asyncio.timeout(2 * COMMAND_S):
        while await _emitted(stage) < count:
            await asyncio.sleep(0.2)


async def _rate(stage: Stage) -> float:
    """Results per second, from the end of one batch to the end of another."""
    begun, first = await _end_of_batch(stage, 0.0)
    ended, last = await _end_of_batch(stage, MEASURED_S)
    if last >= BACKLOG - BATCH:
        raise NotInTime("the job had nothing left to do")
    return (last - first) / (ended - begun)


async def _end_of_batch(stage: Stage, behind_s: float) -> tuple[float, int]:
    """The next moment at which results begin to come again, and how many had come."""
    await asyncio.sleep(behind_s)
    before = await _emitted(stage)
    async with asyncio.timeout(COMMAND_S):
        while (now := await _emitted(stage)) == before:
            await asyncio.sleep(0.02)
    return time.monotonic(), now


async def _at_both_clocks(
    stage: Stage, measure: Callable[[], Awaitable[float]], rounds: int, upkeep: float
) -> dict[float, list[float]]:
    """Return part of the host's clock → work per second of the node, in the order measured."""
    found: dict[float, list[float]] = {}
    for part in FULL_HALF_HALF_FULL * rounds:
        await stage.emulation.resize(EDGE, clock_ghz=stage.emulation.host.clock_ghz * part)
        found.setdefault(part, []).append(await _at_its_share(stage, measure, upkeep))
    return found


async def _at_its_share(stage: Stage, measure: Callable[[], Awaitable[float]], upkeep: float) -> float:
    """Measure the node while it gets its promised share. Its own upkeep counts as work of the same kind.

    Agent, broker and engine need `upkeep` cores whatever the clock.
    """
    share = stage.emulation.share(EDGE).cpus
    taken = 0.0
    for _ in range(10):
        measured, taken = await _with_cores(stage, measure)
        if taken > ENOUGH * share:
            return measured * taken / (taken - upkeep)
    raise NotInTime(f"this machine is too busy: the node got {taken:.2f} of the {share:g} cores of its share")


async def _with_cores(stage: Stage, measure: Callable[[], Awaitable[T]]) -> tuple[T, float]:
    """Return the measurement, and the cores that the node took meanwhile."""
    before, begun = await stage.emulation.nodes.cpu_s(EDGE) or 0.0, time.monotonic()
    measured = await measure()
    after = await stage.emulation.nodes.cpu_s(EDGE) or 0.0
    return measured, (after - before) / (time.monotonic() - begun)


def _looped_s(container: str) -> float:
    with daemon(answer_s=COMMAND_S) as docker:
        ran = docker.containers.get(container).exec_run(["python", "-c", LOOP])
    if ran.exit_code != 0:
        raise RuntimeError(f"the loop ended with exit code {ran.exit_code}")
    return json.loads(ran.output)


BENCHMARK = Benchmark("fog-clock", "nodes and links at what they are told", (), measure)
