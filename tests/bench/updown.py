"""Time to start and to stop a mesh of four sites."""

from __future__ import annotations

import asyncio
import time

from benchmark import Benchmark, Say, Scale
from figures import Case, Measured, Target, rounded
from measured_mesh import MeasuredMesh, mesh_of, temporary_home

from towpath.contracts.site import SiteSpec
from towpath.mesh import lifecycle

UP, DOWN = "up, s", "down, s"
TARGETS = {UP: Target(at_most=45.0), DOWN: Target(at_most=10.0)}
SITES = ("jfk", "lga", "ewr", "cloud")


async def measure(mesh: MeasuredMesh | None, scale: Scale, say: Say, measured: Measured) -> None:
    """Measure a new mesh: up, down, up again with its stored data, and down."""
    measured.notes.append("up: until the coordinator lists every site as up; down: until no process is left")
    sites = [SiteSpec(name=name) for name in SITES]
    with temporary_home() as home:
        for name in ("new mesh",) if scale is Scale.QUICK else ("new mesh", "the same again"):
            begun = time.monotonic()
            async with mesh_of(home, sites, say):
                up_s = time.monotonic() - begun
            begun = time.monotonic()
            await asyncio.to_thread(lifecycle.down, home)
            figures = {UP: rounded(up_s, 1), DOWN: rounded(time.monotonic() - begun, 1)}
            left = [process.name for process in lifecycle.processes(home) if process.running]
            measured.cases.append(Case(f"{name}, {len(sites)} sites", figures, TARGETS, faults=len(left)))


BENCHMARK = Benchmark("updown", "a mesh of four sites", (), measure)
