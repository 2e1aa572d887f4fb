"""`make bench-fog`: numbers of emulated nodes with a job each, and events/s, that this machine can hold.

Needs a Docker daemon and the images of `infra/docker/images.sh`. `tests/bench/README.md` says what each
figure means.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import fog_clock
import run
from benchmark import Benchmark, Say, Scale
from figures import Case, Measured, Value, rounded
from load_process import load
from measured_mesh import MeasuredMesh
from windowed import counting

from towpath.containers.running import memory_bytes
from towpath.contracts.job import JobSpec
from towpath.contracts.site import EngineSpec
from towpath.contracts.topology import Node, Topology
from towpath.lab.containers.limits import cpu_seconds
from towpath.lab.emulation.bringing_up import Plan, bring_up, emulation, take_down
from towpath.lab.emulation.project import Project
from towpath.mesh.home import Home
from towpath.mesh.state import MeshState
from towpath.tasks import to_the_end

NODES = {Scale.QUICK: (2,), Scale.DEFAULT: (2, 5, 10), Scale.FULL: (2, 4, 6, 8, 10, 12, 14)}
RATES = {Scale.QUICK: (50, 200), Scale.DEFAULT: (25, 50, 100, 200, 400, 800, 1600), Scale.FULL: ()}
"""Events per second and node, one after the other until a job does not keep up. The full scale has the rates
of the default one."""

NODE_MEMORY_MB = 1152
ENGINE = EngineSpec(spark_master="local[1]", memory="480m", state_memory_mb=32)
TRIGGER_S = 2.0

IDLE_S = 8.0
"""Interval over which the usage of the idle topology is measured."""

SETTLE_S, HELD_S = 8.0, 16.0
"""Duration of a load before the measurement, and during it."""

KEPT_UP = 0.9
"""Smallest processed share of the events that arrived during the measurement. The rest may be the batch under
way."""

UP, MEMORY, SERVICES, NODE = "up, s", "memory, MB", "of it services, MB", "a node, MB"
IDLE, JOBS, EVENTS, BUSY = "idle, cores", "jobs", "events/s", "busy, cores"


async def measure(mesh: MeasuredMesh | None, scale: Scale, say: Say, measured: Measured) -> None:
    """Bring up topologies of more and more small nodes, raise the load until it fails, take it down."""
    measured.notes.append(
        f"nodes of one core and {NODE_MEMORY_MB} MB, engines of one thread and a heap of {ENGINE.memory}, a "
        f"windowed count per sensor on each, batches every {TRIGGER_S:g} s; events/s: of all nodes together, "
        "the most at which every job kept up; memory and cores: of all containers, without the load's"
    )
    for count in NODES[scale]:
        with tempfile.TemporaryDirectory(prefix="towpath-bench-fog-") as directory:
            home = Home(Path(directory) / "fog")
            try:
                figures = await _figures(home, count, RATES[scale] or RATES[Scale.DEFAULT], say)
            finally:
                await to_the_end(take_down(home))
        measured.cases.append(Case(f"{count} nodes", figures))


async def _figures(home: Home, count: int, rates: tuple[int, ...], say: Say) -> dict[str, Value]:
    nodes = [
        Node(name=f"node-{number}", cores=1, memory_mb=NODE_MEMORY_MB, engine=ENGINE)
        for number in range(1, count + 1)
    ]
    begun = time.monotonic()
    await bring_up(home, Plan.of(Topology(name=f"bench-{count}", nodes=nodes)), say)
    up_s = time.monotonic() - begun
    usage = Usage(Project(home).containers())
    await asyncio.sleep(IDLE_S)
    idle = await asyncio.to_thread(usage.cores)
    async with deployed(home, [node.name for node in nodes]) as (mesh, jobs):
        events, busy = await _most(mesh, jobs, usage, rates, say)
        memory = await asyncio.to_thread(usage.memory)
    of_nodes = sum(memory[node.name] for node in nodes)
    return {
        UP: rounded(up_s, 0),
        IDLE: rounded(idle, 2),
        JOBS: len(jobs),
        EVENTS: events,
        BUSY: None if busy is None else rounded(busy, 2),
        MEMORY: round(sum(memory.values())),
        SERVICES: round(sum(memory.values()) - of_nodes),
        NODE: round(of_nodes / count),
    }


class Usage:
    """Processor time and memory of a topology's containers. All methods block."""

    def __init__(self, containers: dict[str, str]) -> None:
        self._containers = containers
        self._last = time.monotonic(), self._taken()

    def cores(self) -> float:
        """Return the processor time per second since the last call."""
        before, self._last = self._last, (time.monotonic(), self._taken())
        return (self._last[1] - before[1]) / (self._last[0] - before[0])

    def memory(self) -> dict[str, float]:
        """Return the memory of each container, MB."""
        return {service: memory_bytes(name) / 1e6 for service, name in self._containers.items()}

    def _taken(self) -> float:
        return sum(cpu_seconds(name) or 0.0 for name in self._containers.values())


@asynccontextmanager
async def deployed(home: Home, nodes: list[str]) -> AsyncIterator[tuple[MeasuredMesh, dict[str, JobSpec]]]:
    """Deploy a job on each node."""
    state = await asyncio.to_thread(MeshState.load, home)
    async with emulation(home) as running:
        mesh = MeasuredMesh(home, state, running.bus)
        async with running.at_full_speed():
            jobs = {
                node: await mesh.job("count", node, counting(1.0), after=0, trigger_s=TRIGGER_S)
                for node in nodes
            }
        yield mesh, jobs


async def _most(
    mesh: MeasuredMesh, jobs: dict[str, JobSpec], usage: Usage, rates: tuple[int, ...], say: Say
) -> tuple[int | None, float | None]:
    """Return the highest total of events per second with which all jobs keep up, and the cores in use."""
    found: tuple[int | None, float | None] = None, None
    for rate in rates:
        kept_up, cores = await _held(mesh, jobs, usage, rate)
        say(f"{len(jobs)} nodes × {rate} events/s: {'kept up' if kept_up else 'too much'}, {cores:.2f} cores")
        if not kept_up:
            break
        found = rate * len(jobs), cores
    return found


async def _held(mesh: MeasuredMesh, jobs: dict[str, JobSpec], usage: Usage, rate: int) -> tuple[bool, float]:
    """Load every job with `rate` events per second. Return whether all keep up, and the cores in use."""
    async with AsyncExitStack() as stack:
        for node in jobs:
            await stack.enter_async_context(load(mesh.load_spec(node, rate=float(rate))))
        await asyncio.sleep(SETTLE_S)
        await asyncio.to_thread(usage.cores)
        before = await _serials(mesh, jobs)
        await asyncio.sleep(HELD_S)
        cores = await asyncio.to_thread(usage.cores)
        after = await _serials(mesh, jobs)
    came = {node: after[node][0] - before[node][0] for node in jobs}
    done = {node: after[node][1] - before[node][1] for node in jobs}
    # A load that could not be sent has not been held either.
    sent = all(count >= KEPT_UP * rate * HELD_S for count in came.values())
    return sent and all(done[node] >= KEPT_UP * came[node] for node in jobs), cores


async def _serials(mesh: MeasuredMesh, jobs: dict[str, JobSpec]) -> dict[str, tuple[int, int]]:
    """Return for each node the newest event, and the newest that its job has processed."""
    return {node: (await mesh.last_serial(node), await mesh.processed(job)) for node, job in jobs.items()}


BENCHMARK = Benchmark("fog", "emulated nodes on one machine", (), measure)

if __name__ == "__main__":
    sys.exit(
        run.main(
            every={each.name: each for each in (BENCHMARK, fog_clock.BENCHMARK)},
            program="fog.py",
            prefix="fog-",
        )
    )
