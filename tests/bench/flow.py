"""MQTT → Spark → result events at a steady rate: lost and repeated events, and the latency of results."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from benchmark import BUSY, EDGE, Benchmark, Say, Scale
from figures import Case, Measured, Target, Value, rounded
from load_process import send
from measured_mesh import MeasuredMesh, until
from subscription import subscription
from verdicts import Passed, judge_windows, passed, window_results, window_truth
from windowed import counting

from towpath.contracts.job import JobSpec
from towpath.contracts.operators import Forward

MEDIAN = "median, s"
LOST = "lost"
AFTERWARDS = "done after its end, s"

FORWARD_TARGETS = {
    5_000: {MEDIAN: Target(at_most=0.12, was="0.18–0.37")},
    20_000: {MEDIAN: Target(at_most=0.5, was="7.2, and falling behind"), LOST: Target(at_most=0)},
}
COUNTED_TARGETS = {
    20_000: {LOST: Target(at_most=0), AFTERWARDS: Target(at_most=3.0)},
    40_000: {LOST: Target(at_most=0), AFTERWARDS: Target(at_most=3.0, was="falling behind")},
}
"""A job that is done so soon after the load has kept up with it."""

SUSTAINED_S = 60.0
SUBSCRIBED_UP_TO = 5_000
"""Events per second. Above, a subscriber in Python would take the cores that it measures."""

CONNECTION_RATE = 5_000
"""Events per second per connection: 1,000 in flight then bridge 0.2 s."""

DRAIN_S = 240.0


async def measure(mesh: MeasuredMesh | None, scale: Scale, say: Say, measured: Measured) -> None:
    """Measure `forward` at rising rates, then a windowed count."""
    assert mesh is not None
    measured.notes.append(
        "latency: stored in OUT less stored in IN, both by the server's clock; at "
        f"{SUBSCRIBED_UP_TO:,}/s and less a QoS 1 subscriber counts as well, and its median is beside it"
    )
    rates = (5_000, 20_000) if scale is Scale.QUICK else (1_000, 5_000, 10_000, 20_000)
    for rate in rates:
        say(f"forward at {rate:,}/s")
        await _forward(mesh, rate, _seconds(scale, rate), measured)
    for rate in COUNTED_TARGETS:
        say(f"windowed count at {rate:,}/s")
        await _counted(mesh, rate, _seconds(scale, rate), measured)


def _seconds(scale: Scale, rate: int) -> float:
    if scale is Scale.QUICK:
        return 8.0
    return SUSTAINED_S if rate >= min(COUNTED_TARGETS) else 20.0


async def _forward(mesh: MeasuredMesh, rate: int, seconds: float, measured: Measured) -> None:
    site = EDGE.name
    start = await mesh.last_serial(site)
    job = await mesh.job("flow", site, Forward(), after=start, trigger_s=0.0)
    await warm(mesh, job)
    after = await mesh.last_serial(site)
    async with AsyncExitStack() as stack:
        subscriber = None
        if rate <= SUBSCRIBED_UP_TO:
            subscriber = await stack.enter_async_context(subscription(mesh, site, job.output.topic))
        behind_s, drain_s = await load_and_drain(mesh, job, rate, seconds)
        through = await mesh.last_serial(site)
        await mesh.counted(job, through - start, DRAIN_S)  # What has not arrived by then is lost.
        received = await subscriber.report(through - after, DRAIN_S) if subscriber else None
    verdict = await passed(mesh, job, start, through, measured_after=after)
    await mesh.remove(job)
    name = f"forward {rate:,}/s, {seconds:.0f} s"
    missed = through - after - received["different"] if received else 0
    figures: dict[str, Value] = {
        **latencies(verdict),
        LOST: verdict.lost,
        "repeated": verdict.duplicated,
        "events": verdict.expected,
        "subscriber's median, s": rounded(received["latencies_s"][0]) if received else None,
        "subscriber missed": missed if received else None,
        "load behind, s": rounded(behind_s, 2),
        AFTERWARDS: rounded(drain_s, 1),
    }
    faults = verdict.lost + verdict.duplicated + missed
    measured.cases.append(Case(name, figures, FORWARD_TARGETS.get(rate, {}), faults))


def latencies(verdict: Passed) -> dict[str, Value]:
    """Return the median and two other percentiles, seconds."""
    return {
        MEDIAN: rounded(verdict.percentile(50)),
        "p90, s": rounded(verdict.percentile(90)),
        "p99, s": rounded(verdict.percentile(99)),
    }


async def warm(mesh: MeasuredMesh, job: JobSpec) -> None:
    """Let a query warm up: its first results take seconds. They are counted, but not measured."""
    await send(mesh.load_spec(job.site, events=500, rate=500), DRAIN_S)
    last = await mesh.last_serial(job.site)

    async def processed() -> bool:
        return await mesh.processed(job) >= last

    await until(processed, DRAIN_S, f"the first results of {job.name}")


async def load_and_drain(
    mesh: MeasuredMesh, job: JobSpec, rate: int, seconds: float, **options: object
) -> tuple[float, float]:
    """Run a load. Return its largest delay behind schedule, and the job's time after its end."""
    connections = max(1, rate // CONNECTION_RATE)
    spec = mesh.load_spec(job.site, rate=float(rate), seconds=seconds, connections=connections, **options)
    sent = await send(spec, seconds + DRAIN_S)
    last = await mesh.last_serial(job.site)
    clock = asyncio.get_running_loop()
    ended = clock.time()

    async def drained() -> bool:
        return await mesh.processed(job) >= last

    await until(drained, DRAIN_S, f"{job.name} at {last}")
    return max(sent.behind_s, sent.seconds - seconds), clock.time() - ended


async def _counted(mesh: MeasuredMesh, rate: int, seconds: float, measured: Measured) -> None:
    site, size_s = BUSY.name, 1.0
    after = await mesh.last_serial(site)
    job = await mesh.job("counted", site, counting(size_s), after=after, trigger_s=0.0)
    await warm(mesh, job)
    behind_s, drain_s = await load_and_drain(mesh, job, rate, seconds)
    await asyncio.sleep(1.1 * size_s)  # Then one more event closes the last window.
    await send(mesh.load_spec(site, events=1), DRAIN_S)
    through = await mesh.last_serial(site)
    truth = await window_truth(mesh, site, after, through, size_s, by_own_time=False)
    await mesh.counted(job, len(truth), DRAIN_S)  # What has not arrived by then is lost.
    verdict = judge_windows(truth, await window_results(mesh, job))
    await mesh.remove(job)
    figures: dict[str, Value] = {
        LOST: max(0, verdict.events - verdict.counted),
        "repeated": verdict.duplicated,
        "events": verdict.events,
        "load behind, s": rounded(behind_s, 2),
        AFTERWARDS: rounded(drain_s, 1),
    }
    name = f"windowed {rate:,}/s, {seconds:.0f} s, compilation thorough"
    measured.cases.append(Case(name, figures, COUNTED_TARGETS[rate], verdict.faults))


BENCHMARK = Benchmark("flow", "MQTT → Spark → result events, trigger 0", (EDGE, BUSY), measure)
