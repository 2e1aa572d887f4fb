"""Bytes over links: an average of each of three sites, beside shipping every event to where it is asked."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack

from benchmark import Benchmark, Say, Scale
from figures import Case, Measured, Target, rounded
from load_process import load
from measured_mesh import ATTEMPT_S, COMMAND_S, MeasuredMesh, mesh_of, temporary_home, until
from reports import TOPIC

from towpath.contracts.commands import DeployJob, RemoveJob
from towpath.contracts.data_plane import output_stream
from towpath.contracts.job import Input, JobSpec, Output
from towpath.contracts.operators import Forward
from towpath.contracts.pipeline_commands import ApplyPipeline, DeletePipeline
from towpath.contracts.site import SiteSpec
from towpath.lab.demonstration.fog.links import passed
from towpath.queries.compilation import Asked, compiled

EDGES, CLOUD = ("ewr", "jfk", "lga"), "cloud"
TEXT = f'''r = STREAM FROM topic(topic="{TOPIC}", sites="ewr,jfk,lga",
  time="at", delay="2 SECONDS", value="value");
by_site = COMPUTE AVG(r, 60 SECONDS) EVERY 10 SECONDS BY site;
'''
RATE, SENSORS = 500.0, 20
SETTLED_S, READY_S = 15.0, 240.0
PER_EVENT, OF_RAW = "bytes per event", "of shipping all"


async def measure(_: MeasuredMesh | None, scale: Scale, say: Say, measured: Measured) -> None:
    """Count what crosses the links of three sites, heartbeats included."""
    seconds = 20.0 if scale is Scale.QUICK else 120.0
    with temporary_home() as home:
        sites = [SiteSpec(name=name) for name in (*EDGES, CLOUD)]
        async with mesh_of(home, sites, say, emulate_links=True) as mesh:
            say("an average of each of three sites")
            asked = compiled(Asked("by-site", CLOUD, TEXT, {}, [*EDGES, CLOUD])).pipeline
            await mesh.bus.request(ApplyPipeline(spec=asked), deadline_s=COMMAND_S, attempt_s=ATTEMPT_S)
            averages = await _bytes_per_event(mesh, asked.name, seconds)
            delete = DeletePipeline(pipeline=asked.name, now=True, purge=True)
            await mesh.bus.request(delete, deadline_s=COMMAND_S, attempt_s=ATTEMPT_S)
            say("shipping every event")
            shipped = JobSpec(
                name="shipped",
                site=CLOUD,
                inputs=[Input(site=site, topic=TOPIC, start="latest") for site in EDGES],
                output=Output(site=CLOUD, topic="shipped"),
                operator=Forward(),
            )
            await mesh.bus.request(DeployJob(spec=shipped), deadline_s=COMMAND_S, attempt_s=ATTEMPT_S)
            raw = await _bytes_per_event(mesh, shipped.name, seconds)
            await mesh.bus.request(RemoveJob(job=shipped.name, purge=True), deadline_s=COMMAND_S)
    measured.cases += [
        Case(f"every event of three sites, {RATE:g}/s each", {PER_EVENT: rounded(raw)}),
        Case(
            "an average of each of them",
            {PER_EVENT: rounded(averages), OF_RAW: rounded(averages / raw)},
            {OF_RAW: Target(at_most=1 / 50)},
        ),
    ]


async def _bytes_per_event(mesh: MeasuredMesh, job: str, seconds: float) -> float:
    """Return the bytes over the three links for each event, while a job has results."""
    async with AsyncExitStack() as loads:
        sending = [
            await loads.enter_async_context(load(mesh.load_spec(site, rate=RATE, sensors=SENSORS)))
            for site in EDGES
        ]

        async def has_results() -> bool:
            return (await mesh.stored(CLOUD, output_stream(job)))[0] > 0

        await until(has_results, READY_S, f"results of {job}")
        await asyncio.sleep(SETTLED_S)
        before, events, begun = await passed(mesh.bus), await _events(mesh), time.monotonic()
        await asyncio.sleep(max(0.0, begun + seconds - time.monotonic()))
        after, more = await passed(mesh.bus), await _events(mesh)
        for each in sending:
            await each.stop()
    return sum(after[site] - before[site] for site in EDGES) / (more - events)


async def _events(mesh: MeasuredMesh) -> int:
    return sum([await mesh.last_serial(site) for site in EDGES])


BENCHMARK = Benchmark(
    name="query-links",
    title="Queries: what an average of each of three sites sends over their links",
    sites=(),
    measure=measure,
    on_request=True,
)
