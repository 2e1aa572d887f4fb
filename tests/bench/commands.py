"""Processor time until commands answer and processes are ready: most of it is what they import."""

from __future__ import annotations

import asyncio
import resource
import statistics
import subprocess
import sys
import time

import psutil
from benchmark import CLOUD, EDGE, Benchmark, Say, Scale
from figures import Case, Measured, Target, rounded
from measured_mesh import MeasuredMesh, mesh_of, temporary_home

from towpath.mesh.home import Home
from towpath.processes import PidRecord, listed

CPU, AT_REST = "CPU s", "at rest, % of a core"
HELP, JOBS = Target(at_most=0.3), Target(at_most=0.6)
SERVICE, AGENT = Target(at_most=1.0), Target(at_most=2.0)
SERVERS = ("hub", "redis")
"""Processes that are not Towpath's. A site's server is one, too."""

TIMES = 10
COMMAND_S = 60.0

REST_S = 20.0
"""Long enough to measure a waiting process: some work every few seconds."""


async def measure(mesh: MeasuredMesh | None, scale: Scale, say: Say, measured: Measured) -> None:
    """`--help`, `jobs` on a mesh that runs, and the start of each process of that mesh."""
    times = 3 if scale is Scale.QUICK else TIMES
    measured.notes.append(f"commands: user and system time, median of {times}")
    measured.notes.append(
        f"processes: what each has used when the mesh is up, less what it uses in {REST_S:.0f} s at rest"
    )
    say("--help")
    await _command(measured, ["--help"], HELP, times)
    with temporary_home() as home:
        async with mesh_of(home, [EDGE, CLOUD], say):
            say("processes")
            await _processes(measured, home)
            say("jobs")
            await _command(measured, ["--home", str(home.root), "jobs"], JOBS, times)


async def _command(measured: Measured, arguments: list[str], target: Target, times: int) -> None:
    spent = [await asyncio.to_thread(_spent_s, arguments) for _ in range(times)]
    case = Case(f"towpath {arguments[-1]}", {CPU: rounded(statistics.median(spent), 2)}, {CPU: target})
    measured.cases.append(case)


def _spent_s(arguments: list[str]) -> float:
    """Return the processor time of one call. No other child of this process may end meanwhile."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "towpath.cli", *arguments]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, timeout=COMMAND_S)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


async def _processes(measured: Measured, home: Home) -> None:
    records = [record for record in listed(home.run) if _is_ours(record)]
    before = {record.name: _used_s(record) for record in records}
    await asyncio.sleep(REST_S)
    for record in records:
        name = record.name
        at_rest = (_used_s(record) - before[name]) / REST_S
        start_s = before[name] - at_rest * (time.time() - REST_S - record.create_time)
        figures = {CPU: rounded(start_s, 2), AT_REST: rounded(100 * at_rest, 1)}
        target = AGENT if name.endswith(("-agent", "-engine")) else SERVICE
        measured.cases.append(Case(name, figures, {CPU: target}))


def _is_ours(record: PidRecord) -> bool:
    return record.process is not None and record.name not in SERVERS and not record.name.endswith("-nats")


def _used_s(record: PidRecord) -> float:
    """Processor time of a process, its children not counted."""
    times = psutil.Process(record.pid).cpu_times()
    return times.user + times.system


BENCHMARK = Benchmark("commands", "Processor time of commands, and of processes that start", (), measure)
