"""Time to start and to stop a mesh of four sites."""

from __future__ import annotations

import asyncio
import time

from benchmark import Benchmark, Say, Scale
from figures import Case, Measured, Target, rounded
from load_process import load
from measured_mesh import MeasuredMesh, mesh_of, temporary_home, until
from windowed import counting

from towpath.contracts.site import SiteSpec
from towpath.mesh import lifecycle

UP, DOWN, FIRST = "up, s", "down, s", "first job of a site, s"
TARGETS = {
    UP: Target(at_most=15.0, was="67–70"),
    DOWN: Target(at_most=10.0),
    FIRST: Target(at_most=12.0, was="3"),
}
SITES = ("jfk", "lga", "ewr", "cloud")
FIRST_S = 120.0


async def measure(mesh: MeasuredMesh | None, scale: Scale, say: Say, measured: Measured) -> None:
    """Measure a new mesh: up, down, up again with its stored data, and down."""
    measured.notes.append(
        "up: until the coordinator lists every site as up; first job: from its deployment to its first "
        "micro-batch with events, with the start of the engine, which was there before; "
        "down: until no process is left"
    )
    sites = [SiteSpec(name=name) for name in SITES]
    with temporary_home() as home:
        for name in ("new mesh",) if scale is Scale.QUICK else ("new mesh", "the same again"):
            begun = time.monotonic()
            async with mesh_of(home, sites, say) as running:
                up_s = time.monotonic() - begun
                first_s = await _first_job(running)
            begun = time.monotonic()
            await asyncio.to_thread(lifecycle.down, home)
            down_s = time.monotonic() - begun
            figures = {UP: rounded(up_s, 1), FIRST: rounded(first_s, 1), DOWN: rounded(down_s, 1)}
            left = [process.name for process in lifecycle.processes(home) if process.running]
            measured.cases.append(Case(f"{name}, {len(sites)} sites", figures, TARGETS, faults=len(left)))


async def _first_job(mesh: MeasuredMesh) -> float:
    """Return the seconds until a job at a site without an engine has processed events."""
    site = SITES[0]
    start = await mesh.last_serial(site)
    async with load(mesh.load_spec(site, rate=20.0)) as sending:
        begun = time.monotonic()
        job = await mesh.job("first", site, counting(1.0), after=start, trigger_s=1.0)

        async def processed() -> bool:
            return await mesh.processed(job) > start

        await until(processed, FIRST_S, f"the first events of {job.name}")
        took_s = time.monotonic() - begun
        await sending.stop()
    await mesh.remove(job)
    return took_s


BENCHMARK = Benchmark("updown", "a mesh of four sites", (), measure)
