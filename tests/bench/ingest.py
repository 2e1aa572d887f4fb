"""MQTT QoS 1 → stored: events per second that a site's own broker takes from devices."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from benchmark import EDGE, POWER_SAFE, Benchmark, Say, Scale
from figures import Case, Measured, Target
from load_process import send
from measured_mesh import MeasuredMesh, within

TARGET = Target(at_least=50_000)
END_S = 90.0
STORED_S = 10.0
"""Time limit for IN to hold everything that was acknowledged."""

RATE = "stored/s"


async def measure(mesh: MeasuredMesh | None, scale: Scale, say: Say, measured: Measured) -> None:
    """Measure one process, two processes, and one against a broker that flushes before it acknowledges."""
    assert mesh is not None
    seconds = 3.0 if scale is Scale.QUICK else 10.0
    measured.notes.append(
        "150-byte reports, 1,000 in flight per connection; acknowledged = counted by the generator, "
        "stored = counted in IN afterwards; generator and broker share the machine"
    )
    await run(mesh, EDGE.name, 1, 0.5, 1)  # Warm up: the first thousands of events are slower.
    say("one generator")
    one = await run(mesh, EDGE.name, 1, seconds, 1)
    measured.cases.append(_case("fast, 1 process × 1 connection", one, None, TARGET))
    for processes, connections in ((1, 4), (2, 2)):
        say(f"{processes} × {connections} connections")
        found = await run(mesh, EDGE.name, processes, seconds, connections)
        plural = "es" if processes > 1 else ""
        name = f"fast, {processes} process{plural} × {connections} connections"
        measured.cases.append(_case(name, found, one, None))
    say("power-safe")
    safe = await run(mesh, POWER_SAFE.name, 1, seconds, 1)
    measured.cases.append(_case("power-safe, 1 process × 1 connection", safe, one, None))


@dataclass(frozen=True)
class Run:
    """Events of one load."""

    acknowledged: int
    stored_at_once: int
    """Events in IN when the last acknowledgement had arrived."""
    stored: int
    """Events in IN in the end."""
    seconds: float
    cpu_s: float
    """CPU seconds of the generators."""

    @property
    def rate(self) -> float:
        return self.stored / self.seconds


async def run(mesh: MeasuredMesh, site: str, processes: int, seconds: float, connections: int) -> Run:
    """Send for some seconds. Return what was acknowledged and stored."""
    before = await mesh.last_serial(site)
    begun = time.time()
    specs = [mesh.load_spec(site, seconds=seconds, connections=connections) for _ in range(processes)]
    sent = await asyncio.gather(*(send(spec, seconds + END_S) for spec in specs))
    ended = max(report.began_at + report.seconds for report in sent)
    began = max(begun, min(report.began_at for report in sent))
    acknowledged = sum(report.acknowledged for report in sent)
    at_once = await mesh.last_serial(site) - before

    async def all_stored() -> bool:
        return await mesh.last_serial(site) - before >= acknowledged

    await within(all_stored, STORED_S)
    stored = await mesh.last_serial(site) - before
    return Run(acknowledged, at_once, stored, ended - began, sum(report.cpu_s for report in sent))


def _case(name: str, run: Run, reference: Run | None, target: Target | None) -> Case:
    return Case(
        name,
        {
            RATE: round(run.rate),
            "× first line": None if reference is None else round(run.rate / reference.rate, 2),
            "acknowledged": run.acknowledged,
            "stored at the last acknowledgement": run.stored_at_once,
            "stored": run.stored,
            "generator, share of a core": round(run.cpu_s / run.seconds, 2),
        },
        {RATE: target} if target else {},
        faults=abs(run.stored - run.acknowledged),
    )


BENCHMARK = Benchmark("ingest", "MQTT QoS 1 → stored in a site's IN stream", (EDGE, POWER_SAFE), measure)
