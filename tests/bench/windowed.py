"""Source → windowed count: the speed at which a site's engine works off a backlog."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from benchmark import BUSY, EDGE, Benchmark, Say, Scale
from figures import Case, Measured, Target, rounded
from load_process import send
from measured_mesh import MeasuredMesh, until
from verdicts import judge_windows, window_results, window_truth

from towpath.contracts.job import JobSpec, JobStatus
from towpath.contracts.operators import Aggregate, AggregateFunction, FieldType, Window

TARGET = Target(at_least=80_000, was="34,000–50,000")
RATE = "events/s"
SIZE_S = 1.0

LOAD_S = 120.0
WORK_S = 240.0
CLOSE_S = 60.0


def counting(size_s: float, *, own_time: bool = False, watermark_s: float = 0.0) -> Window:
    """A tumbling count per sensor, by when events were stored or by the time they carry."""
    fields = {"sensor": FieldType.STRING, **({"at": FieldType.TIMESTAMP} if own_time else {})}
    return Window(
        fields=fields,
        size_s=size_s,
        event_time="at" if own_time else None,
        watermark_s=watermark_s,
        key=["sensor"],
        aggregates={"events": Aggregate(function=AggregateFunction.COUNT)},
    )


async def measure(mesh: MeasuredMesh | None, scale: Scale, say: Say, measured: Measured) -> None:
    """Store a backlog, deploy the job, watch its serial numbers: at an ordinary site, and at a busy one."""
    assert mesh is not None
    measured.notes.append(
        "tumbling 1 s, 100 keys, by the time of storing; from the first committed micro-batch to the last "
        "one, so the start of the query is not in it; every window's count is compared with IN"
    )
    for site, targets in ((EDGE.name, {}), (BUSY.name, {RATE: TARGET})):
        measured.cases.append(await _backlog(mesh, site, scale, say, targets))


async def _backlog(
    mesh: MeasuredMesh, site: str, scale: Scale, say: Say, targets: Mapping[str, Target]
) -> Case:
    events = 300_000 if scale is Scale.QUICK else 1_000_000
    after = await mesh.last_serial(site)
    say(f"{site}: storing {events:,} events")
    sent = await send(mesh.load_spec(site, events=events, connections=4), LOAD_S)
    # Windows close when a later event comes: this one closes all of the backlog.
    await asyncio.sleep(1.1 * SIZE_S)
    await send(mesh.load_spec(site, events=1), LOAD_S)
    through = await mesh.last_serial(site)
    say("counting")
    job = await mesh.job("windowed", site, counting(SIZE_S), after=after, trigger_s=0.0)
    statuses = await _watch(mesh, job, through)
    rate = _rate(statuses)
    truth = await window_truth(mesh, site, after, through, SIZE_S, by_own_time=False)
    await mesh.counted(job, len(truth), CLOSE_S)  # What has not come by then is lost.
    verdict = judge_windows(truth, await window_results(mesh, job))
    await mesh.remove(job)
    figures = {
        RATE: rounded(rate, 0),
        "÷ ingest rate": rounded(rate / sent.rate) if rate else None,
        "micro-batches seen": len(statuses),
        "events": events,
        "windows × keys": verdict.expected,
        "lost": verdict.lost,
        "repeated": verdict.duplicated,
        "wrong": verdict.wrong,
    }
    name = f"backlog, compilation {'thorough' if site == BUSY.name else 'quick'}"
    return Case(name, figures, targets, verdict.faults)


async def _watch(mesh: MeasuredMesh, job: JobSpec, through: int) -> list[JobStatus]:
    """Return a status for each micro-batch with events that a heartbeat showed, until the backlog is gone."""
    seen: list[JobStatus] = []

    async def done() -> bool:
        status = await mesh.status(job)
        if status is None or status.committed_at is None:
            return False
        if not seen or status.committed_at > (seen[-1].committed_at or status.committed_at):
            seen.append(status)
        return max(status.serials.values(), default=0) >= through

    def where() -> str:
        return f"{job.name} at {through}; it is at {seen[-1].serials if seen else 'its start'}"

    await until(done, WORK_S, where)
    return seen


def _rate(seen: list[JobStatus]) -> float | None:
    if len(seen) < 2:
        return None
    first, last = seen[0], seen[-1]
    assert first.committed_at is not None
    assert last.committed_at is not None
    events = sum(last.serials.values()) - sum(first.serials.values())
    return events / (last.committed_at - first.committed_at).total_seconds()


BENCHMARK = Benchmark("windowed", "source → windowed count per key, from a backlog", (EDGE, BUSY), measure)
