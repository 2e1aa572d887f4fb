"""The same mesh in clear and encrypted: events taken in, requests across the link, state that moves."""

from __future__ import annotations

import time

import state
from benchmark import CLOUD, EDGE, Benchmark, Say, Scale
from figures import Case, Measured
from ingest import run
from measured_mesh import MeasuredMesh, mesh_of, temporary_home

from towpath.contracts.data_plane import api_prefix

REQUESTS = 1_000


async def measure(mesh: MeasuredMesh | None, scale: Scale, say: Say, measured: Measured) -> None:
    """Measure a mesh in clear, and then one that encrypts everything between machines."""
    measured.notes.append(
        "all on one machine: hub, two sites, load; requests go from a client of the hub to a site's JetStream"
    )
    for is_encrypted in (False, True):
        with temporary_home() as home:
            async with mesh_of(home, [EDGE, CLOUD], say, is_encrypted=is_encrypted) as made:
                await _measure(made, scale, say, measured, "encrypted" if is_encrypted else "in clear")


async def _measure(mesh: MeasuredMesh, scale: Scale, say: Say, measured: Measured, name: str) -> None:
    await run(mesh, EDGE.name, 1, 0.5, 1)  # Warm up.
    say(f"{name}: ingest")
    taken = await run(mesh, EDGE.name, 1, 3.0 if scale is Scale.QUICK else 10.0, 4)
    say(f"{name}: requests")
    median_ms, late_ms = await _requests(mesh)
    moved = Measured("state", "")
    await state.measure(mesh, scale, lambda text: say(f"{name}: {text}"), moved)
    figures = moved.cases[0].figures
    measured.cases.append(
        Case(
            name,
            {
                "stored/s": round(taken.rate),
                "request, median, ms": median_ms,
                "request, p99, ms": late_ms,
                **figures,
            },
            faults=abs(taken.stored - taken.acknowledged),
        )
    )


async def _requests(mesh: MeasuredMesh) -> tuple[float, float]:
    """Return median and 99th percentile of a request to a site and its answer, in milliseconds."""
    subject, took = f"{api_prefix(CLOUD.name)}.INFO", list[float]()
    for _ in range(REQUESTS):
        begun = time.perf_counter()
        await mesh.bus.connection.request(subject, b"", timeout=5)
        took.append((time.perf_counter() - begun) * 1000)
    took.sort()
    return round(took[REQUESTS // 2], 2), round(took[REQUESTS * 99 // 100], 2)


BENCHMARK = Benchmark("encryption", "a mesh in clear and one that encrypts", (), measure, on_request=True)
