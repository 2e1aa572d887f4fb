"""`make bench`: measure, print one table per benchmark with its targets, write everything as JSON.

Exit code 1 if a benchmark could not finish, or anything was lost, repeated or wrong; a target that is
not met does not change it. `tests/bench/README.md` says what each figure means.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import platform
import shutil
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import autopilot
import commands
import compare
import cost
import crowd
import data_placement
import demonstration
import edge
import emulated_link
import encryption
import flow
import general
import ingest
import job_placement
import judging
import jvm
import losses
import observation
import page_drawing
import plan_clusters
import plans
import queries
import query_links
import state
import stored_values
import twins
import updown
import upgrades
import windowed
from benchmark import Benchmark, Scale
from figures import Measured
from measured_mesh import MeasuredMesh, mesh_of, temporary_home
from rich.console import Console

BENCHMARKS = {
    module.BENCHMARK.name: module.BENCHMARK
    for module in (
        *(judging, ingest, cost, crowd, windowed, flow, general, state, updown, demonstration),
        edge,
        plans,
        plan_clusters,
        queries,
        query_links,
        data_placement,
        observation,
        job_placement,
        autopilot,
        twins,
        losses,
        upgrades,
        stored_values,
        encryption,
        *(emulated_link, page_drawing, commands, jvm, compare),
    )
}
RESULTS = Path(__file__).with_name("results")
PIPED_WIDTH = 220


def main(
    arguments: Sequence[str] | None = None,
    every: Mapping[str, Benchmark] = BENCHMARKS,
    program: str = "run.py",
    prefix: str = "",
) -> int:
    """Run the benchmarks that the command line chooses. Files of results are called `<prefix><time>`."""
    chosen = _arguments(arguments, every, program)
    if chosen.list:
        for benchmark in every.values():
            remark = " (only by --only)" if benchmark.on_request else ""
            print(f"{benchmark.name:15} {benchmark.title}{remark}")
        return 0
    logging.basicConfig(level=logging.ERROR)
    scale = Scale.QUICK if chosen.quick else Scale.FULL if chosen.full else Scale.DEFAULT
    usual = [name for name, benchmark in every.items() if not benchmark.on_request]
    benchmarks = [every[name] for name in chosen.only or usual]
    found: list[Measured] = []
    machine = _machine(scale)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        asyncio.run(_measure(benchmarks, scale, chosen.output, found))
    except KeyboardInterrupt:
        print("interrupted; what was measured so far is written", file=sys.stderr)
    if not found:
        return 1
    begun = f"{prefix}{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    content = {**machine, "benchmarks": [measured.to_json() for measured in found]}
    for path in (
        _write(chosen.output, begun, f"{prefix}latest", content),
        *_draw(chosen.output, begun, found),
    ):
        print(f"wrote {path}", file=sys.stderr)
    complete = len(found) == len(benchmarks)
    return 0 if complete and all(measured.sound for measured in found) else 1


def _arguments(
    arguments: Sequence[str] | None, every: Mapping[str, Benchmark], program: str
) -> argparse.Namespace:
    description = "Measures, prints tables with targets, writes everything as JSON."
    parser = argparse.ArgumentParser(prog=f"tests/bench/{program}", description=description)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="everything reduced, at most four minutes")
    size.add_argument("--full", action="store_true", help="whole grids, and the largest states")
    only = f"only this one, can be repeated: {', '.join(every)}"
    parser.add_argument("--only", action="append", choices=list(every), metavar="NAME", help=only, default=[])
    parser.add_argument("--list", action="store_true", help="list the benchmarks")
    parser.add_argument(
        "--output", type=Path, default=RESULTS, metavar="DIR", help="where JSON goes (default: %(default)s)"
    )
    return parser.parse_args(arguments)


async def _measure(benchmarks: list[Benchmark], scale: Scale, output: Path, found: list[Measured]) -> None:
    """Run benchmarks with a mesh of their own first, while nothing else runs.

    The others share a mesh. After a failure they get a new one, and the old one's logs are kept beside the
    results.
    """
    begun = time.monotonic()
    for benchmark in (b for b in benchmarks if not b.sites):
        await _one(benchmark, None, scale, begun, found)
    left = [benchmark for benchmark in benchmarks if benchmark.sites]
    while left:
        sites = {site.name: site for benchmark in left for site in benchmark.sites}
        with temporary_home() as home:
            async with mesh_of(home, list(sites.values()), lambda text: _say(begun, text)) as mesh:
                failed = False
                while left and not failed:
                    await _one(left.pop(0), mesh, scale, begun, found)
                    failed = found[-1].error is not None
            if failed:
                kept = output / f"logs-{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{found[-1].benchmark}"
                shutil.copytree(home.logs, kept)
                found[-1].notes.append(f"logs of the mesh: {kept}")
            _say(begun, "bringing the mesh down")


async def _one(
    benchmark: Benchmark, mesh: MeasuredMesh | None, scale: Scale, begun: float, found: list[Measured]
) -> None:
    measured = Measured(benchmark.name, benchmark.title, load_before=os.getloadavg(), error="interrupted")
    found.append(measured)  # Before it is complete, so that an interrupted benchmark has results, too.
    at = time.monotonic()
    try:
        await benchmark.measure(mesh, scale, lambda text: _say(begun, f"{benchmark.name}: {text}"), measured)
        measured.error = None
    except Exception as error:
        # A failure must not stop the others. It is reported, and decides the exit code.
        measured.error = f"{type(error).__name__}: {error}"
    finally:
        measured.seconds = time.monotonic() - at
    console = Console(width=None if sys.stdout.isatty() else PIPED_WIDTH, highlight=False)
    if measured.cases:
        console.print(measured.table())
    for remark in measured.remarks():
        console.print(f"{benchmark.name}: {remark}", markup=False)
    console.print()


def _machine(scale: Scale) -> dict[str, Any]:
    with Path("/proc/meminfo").open() as file:
        memory_kb = int(file.readline().split()[1])
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "scale": scale.name.lower(),
        "machine": {
            "cores": os.cpu_count(),
            "memory_gb": round(memory_kb / 1024**2, 1),
            "system": platform.platform(),
            "python": platform.python_version(),
        },
    }


def _write(directory: Path, name: str, latest: str, content: dict[str, Any]) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    path = directory / f"{name}.json"
    path.write_text(text, encoding="utf-8")
    (directory / f"{latest}.json").write_text(text, encoding="utf-8")
    return path


def _draw(directory: Path, name: str, found: list[Measured]) -> list[Path]:
    paths: list[Path] = []
    for measured in found:
        for picture, draw in measured.pictures.items():
            paths.append(directory / f"{name}-{picture}.png")
            draw(paths[-1])
    return paths


def _say(begun: float, text: str) -> None:
    print(f"{time.monotonic() - begun:6.1f} s  {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
