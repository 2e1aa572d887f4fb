"""One migration of a job with much state."""

from __future__ import annotations

from benchmark import CLOUD, EDGE, Benchmark, Say, Scale
from figures import Case, Measured, Target, rounded
from general import migration_figures
from load_process import load, send
from measured_mesh import MeasuredMesh, until

from towpath.contracts.job import JobSpec
from towpath.contracts.operators import Aggregate, AggregateFunction, FieldType, Window

STATE = "state, MB"
TARGET = Target(at_least=100)

SENSORS = 1_000
SIZE = 250
"""Bytes of a report: 160 of them are a random token, which the state keeps."""

WINDOW_S = 7 * 24 * 3600.0
"""Longer than the benchmark, so that no window closes."""

TRICKLE = 50.0
"""Events per second during the migration, to see its downtime; each touches a whole key's state."""

LOAD_S = 180.0
WORK_S = 420.0


def distinct_tokens() -> Window:
    """Return an operator that counts different tokens per sensor, and so must keep them all."""
    return Window(
        fields={"sensor": FieldType.STRING, "token": FieldType.STRING},
        size_s=WINDOW_S,
        key=["sensor"],
        aggregates={"tokens": Aggregate(function=AggregateFunction.DISTINCT, field="token")},
    )


async def measure(mesh: MeasuredMesh | None, scale: Scale, say: Say, measured: Measured) -> None:
    """Fill the state from a backlog, then move the job while a few events come."""
    assert mesh is not None
    site = EDGE.name
    events = 100_000 if scale is Scale.QUICK else 1_000_000
    measured.notes.append(
        f"distinct random tokens of {events:,} events in one window, over {SENSORS:,} keys; "
        f"{TRICKLE:.0f} events/s meanwhile"
    )
    after = await mesh.last_serial(site)
    say(f"storing {events:,} events")
    spec = mesh.load_spec(site, events=events, connections=4, sensors=SENSORS, size=SIZE, random=True)
    await send(spec, LOAD_S)
    say("filling the state")
    job = await mesh.job("state", site, distinct_tokens(), after=after, trigger_s=1.0)
    await _processed(mesh, job, await mesh.last_serial(site))
    trickle = mesh.load_spec(site, rate=TRICKLE, sensors=10, size=SIZE, random=True, first=events)
    async with load(trickle) as running:
        await _processed(mesh, job, await mesh.last_serial(site) + int(TRICKLE))
        say("moving it")
        move = await mesh.migrate(job, CLOUD.name)
        await _processed(mesh, job, await mesh.last_serial(site) + int(TRICKLE))
        await running.stop()
    await mesh.remove(job)
    figures = migration_figures(move)
    megabytes, total_s = int(figures.pop("state, bytes") or 0) / 1e6, float(figures["total, s"] or 0)
    figures = {STATE: rounded(megabytes, 1), **figures, "MB/s": rounded(megabytes / total_s, 1)}
    measured.cases.append(Case("jfk → cloud", figures, {} if scale is Scale.QUICK else {STATE: TARGET}))


async def _processed(mesh: MeasuredMesh, job: JobSpec, serial: int) -> None:
    async def done() -> bool:
        return await mesh.processed(job) >= serial

    await until(done, WORK_S, f"{job.name} at {serial}")


BENCHMARK = Benchmark("state", "one migration of much state", (EDGE, CLOUD), measure)
