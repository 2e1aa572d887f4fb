"""`make demo`, as anyone runs it: latency of results, duration of moves, longest time without a result."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from benchmark import Benchmark, Say, Scale
from figures import Case, Measured, Target, Value
from measured_mesh import MeasuredMesh

from towpath.lab.demonstration.report import DemonstrationReport

RUN_S = 600.0
INTERRUPTED_S = 60.0
"""Time for an interrupted demonstration to bring its mesh down."""

MEDIAN, LONGEST, SILENCE = "median latency, s", "longest move, s", "longest silence ÷ usual"
TARGETS = {
    MEDIAN: Target(at_most=2.0, was="5.7–20"),
    LONGEST: Target(at_most=6.0, was="6.6–48"),
    SILENCE: Target(at_most=2.0),
}


async def measure(mesh: MeasuredMesh | None, scale: Scale, say: Say, measured: Measured) -> None:
    """Run the demonstration three times, on a new mesh of four sites each."""
    for number in range(1, 2 if scale is Scale.QUICK else 4):
        say(f"run {number}")
        with tempfile.TemporaryDirectory(prefix="towpath-demo-") as directory:
            report = await _run(Path(directory), ["--events", "4000"] if scale is Scale.QUICK else [])
        measured.cases.append(_case(f"run {number}", report))


async def _run(output: Path, options: list[str]) -> DemonstrationReport:
    command = (sys.executable, "-m", "towpath.cli", "demo", "--output", str(output), *options)
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.DEVNULL, start_new_session=True
    )
    try:
        async with asyncio.timeout(RUN_S):
            await process.wait()
    finally:
        if process.returncode is None:
            process.terminate()  # It brings its mesh down.
            await asyncio.wait_for(process.wait(), INTERRUPTED_S)
    return DemonstrationReport.model_validate_json((output / "report.json").read_text())


def _case(name: str, report: DemonstrationReport) -> Case:
    moves = [move.total_s for move in report.migrations if move.total_s is not None]
    silences = report.silences
    longest = None if silences is None else max(silences.otherwise_s, silences.moving_s or 0.0)
    figures: dict[str, Value] = {
        MEDIAN: report.latency_p50_s,
        "p99, s": report.latency_p99_s,
        LONGEST: max(moves, default=None),
        "shortest move, s": min(moves, default=None),
        SILENCE: None if silences is None or longest is None else round(longest / silences.usual_s, 2),
        "usual interval, s": None if silences is None else silences.usual_s,
        "during moves, s": None if silences is None else silences.moving_s,
        "otherwise, s": None if silences is None else silences.otherwise_s,
        "events/s": report.events_per_s,
        "results": report.results,
    }
    faults = report.lost + report.duplicated + report.wrong + report.unexpected
    return Case(name, figures, TARGETS, faults)


BENCHMARK = Benchmark("demonstration", "real departures, four sites, one job moves twice", (), measure)
