"""A site whose tasks run on a Spark standalone cluster: runs, moves and recovers jobs like any other."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from running.servers import free_port
from running.waiting import eventually
from towpath.bus import Bus
from towpath.contracts.commands import MigrateJob, OperationState, StrategyName
from towpath.contracts.errors import TowpathError
from towpath.contracts.job import JobState
from towpath.contracts.scenario_load import StandardJob
from towpath.contracts.site import EngineSpec, MeshSpec, SiteSpec, SiteState
from towpath.lab.drill.cell_scenario import LOAD
from towpath.lab.harness import judge
from towpath.lab.harness.load import Device
from towpath.lab.harness.observer import ObservedJob, observed_job
from towpath.lab.harness.stage import Stage
from towpath.lab.harness.workload import spec_of
from towpath.lab.workload.spark_cluster import MASTER, SparkCluster, spark_cluster
from towpath.mesh import lifecycle
from towpath.mesh.home import Home
from towpath.processes import child

CLUSTER, LOCAL = "a", "b"
"""The sites. Events come in at the first, and results are kept there."""

JOB = "windows"
UP_S = 400.0
"""Time limit for everything to start on a machine with two busy cores."""

STEP_S = 200.0
RECOVERY_S = 300.0
"""The longest recovery is a new engine after the old one has waited for executors."""

pytestmark = pytest.mark.timeout(1500)


@asynccontextmanager
async def mesh(home: Home, cluster: SparkCluster) -> AsyncIterator[Stage]:
    """Run a mesh with one site on the cluster, and one with an engine of its own."""
    engines = {
        CLUSTER: EngineSpec(spark_master=cluster.url, memory="640m", executor_memory="512m"),
        LOCAL: EngineSpec(spark_master="local[2]", memory="640m"),
    }
    sites = [SiteSpec(name=name, engine=engine) for name, engine in engines.items()]
    try:
        state = await asyncio.to_thread(lifecycle.up, home, MeshSpec(sites=sites))
        credential = state.operator
        bus = await Bus.connect(
            state.hub_url, credential.user, credential.password, name="test", within_s=UP_S
        )
        async with bus:
            yield Stage(home, state, bus, bus)
    finally:
        await asyncio.to_thread(lifecycle.down, home)


async def until_up(stage: Stage) -> None:
    async def are_up() -> bool:
        return await states(stage) == [SiteState.UP] * 2

    await eventually(are_up, within_s=UP_S)


async def states(stage: Stage) -> list[SiteState]:
    """Return the states of all sites; none while the coordinator knows no site yet."""
    try:
        return [site.state for site in await stage.ask_sites()]
    except TowpathError:
        return []


def kill(cluster: SparkCluster, name: str) -> None:
    """Kill a process with all that it started, as if its machine was lost."""
    process = cluster.processes.pop(name)
    with contextlib.suppress(psutil.NoSuchProcess):
        leader = psutil.Process(process.pid)
        # The leader last: without it, nothing says any more what it started.
        child.kill_all([*leader.children(recursive=True), leader])
    process.wait()


async def replace(cluster: SparkCluster, *workers: str) -> None:
    """Lose everything, and start a cluster at the same address that remembers nothing."""
    for name in list(cluster.processes):
        await asyncio.to_thread(kill, cluster, name)
    await asyncio.to_thread(shutil.rmtree, cluster.directory / "recovery")
    await cluster.start_master()
    await asyncio.gather(*(cluster.start_worker(name) for name in workers))


def executors(cluster: SparkCluster, name: str) -> int:
    """Count the executors that a worker runs."""
    count = 0
    for each in psutil.Process(cluster.processes[name].pid).children(recursive=True):
        # One that ends just now has no command line.
        with contextlib.suppress(psutil.NoSuchProcess):
            count += "CoarseGrainedExecutorBackend" in " ".join(each.cmdline())
    return count


@asynccontextmanager
async def deployed(stage: Stage) -> AsyncIterator[ObservedJob]:
    """Deploy a job of event-time windows at the cluster's site, with a subscriber to its results."""
    spec = spec_of(StandardJob(name=JOB, workload="windows", site=CLUSTER, topic=LOAD.topic))
    async with observed_job(stage, spec) as job:
        yield job


async def until_recovered(job: ObservedJob, what: str) -> None:
    """Wait until results have come of events that were stored after this moment."""
    seconds = await job.recovered_after(time.time(), RECOVERY_S)
    assert seconds is not None, f"no results within {RECOVERY_S:g} s after {what}"


async def migrate(job: ObservedJob, to: str, strategy: StrategyName) -> None:
    command = MigrateJob(job=JOB, to=to, strategy=strategy)
    answer = await job.stage.bus.request(command, deadline_s=STEP_S)
    assert answer.state is OperationState.COMPLETED, answer.note
    await until_recovered(job, f"{strategy} to {to}")
    (view,) = await job.stage.ask_jobs()
    assert (view.site, view.status and view.status.state) == (to, JobState.RUNNING)


async def test_job_when_its_site_is_a_cluster_then_runs_moves_and_survives_machines_and_stays_exact(
    tmp_path: Path,
) -> None:
    async with (
        spark_cluster(tmp_path / "spark", "one", "two", port=free_port()) as cluster,
        mesh(Home(tmp_path / "mesh"), cluster) as stage,
    ):
        await until_up(stage)
        async with deployed(stage) as job:
            assert executors(cluster, "one") + executors(cluster, "two") == 2
            await judged(job, cluster)


async def judged(job: ObservedJob, cluster: SparkCluster) -> None:
    """Move the job under load, lose machines meanwhile, and judge all its results."""
    load = Device(LOAD, job.stage.mesh.site(CLUSTER), JOB)
    load.start()
    try:
        await until_recovered(job, "the start")
        await migrate(job, LOCAL, StrategyName.GENERAL)
        await migrate(job, CLUSTER, StrategyName.HANDOVER)
        kill(cluster, "two")
        await until_recovered(job, "the loss of a worker")
        kill(cluster, MASTER)
        await until_recovered(job, "the loss of the master")
        await cluster.start_master()
        await cluster.start_worker("two")
        await migrate(job, LOCAL, StrategyName.HANDOVER)
        await migrate(job, CLUSTER, StrategyName.GENERAL)
        await replace(cluster, "one", "two")
        await until_recovered(job, "a cluster that knows of nothing")
        await load.stop(STEP_S)
    finally:
        await load.cancel()
    assert await job.drained(STEP_S), "not all results came"
    verdict = await job.verdict()
    assert verdict.clean, verdict.examples
    assert judge.disorder_s(job.spec, job.inputs) == 0
