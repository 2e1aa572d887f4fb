"""`towpath demo-faults`: faults injected into running jobs, worker by worker and around a handover."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from towpath.cli.connection import open_bus
from towpath.cli.output import print_json, print_rich, say, working
from towpath.cli.settings import AsJson
from towpath.cli.starting import wait_until_up
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.site import EngineSpec, FaultSettings, MeshSpec, SiteSpec
from towpath.lab.workload.spark_cluster import spark_cluster
from towpath.mesh import lifecycle
from towpath.mesh.home import Home
from towpath.mesh.ports import free_port
from towpath.mesh.state import MeshState

if TYPE_CHECKING:
    from towpath.bus import Bus
    from towpath.lab.demonstration.faults import handover, word_count
    from towpath.lab.demonstration.faults.report import (
        FaultsReport,
        HandoverReport,
        Staircase,
        WordCountReport,
    )

UP_S = 240.0
ENGINE = EngineSpec(spark_master="local[2]", memory="640m", state_memory_mb=64)

Tell = Callable[[str], None]


class Experiment(StrEnum):
    """What is shown."""

    WORD_COUNT = "word-count"
    HANDOVER = "handover"


def demo_faults(
    only: Annotated[Experiment | None, typer.Option(help="Only this experiment.")] = None,
    rate: Annotated[float, typer.Option(min=1, help="Lines of text per second.")] = 4_000.0,
    step: Annotated[float, typer.Option(min=2, help="Seconds between one rule and the next.")] = 10.0,
    every: Annotated[
        str, typer.Option(help="A delay with every so-manieth line: one staircase for each number.")
    ] = "1000,40",
    delay_ms: Annotated[float, typer.Option(min=0.1, help="How long a delay is, milliseconds.")] = 10.0,
    events: Annotated[
        int, typer.Option(min=1000, max=34_000, help="Departures of each airport, for the handover.")
    ] = 12_000,
    output: Annotated[Path, typer.Option(help="Where report and pictures go.")] = Path("demo"),
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the mesh of the handover running afterwards.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Slow the workers of a Spark cluster down one by one, then the two sites of a handover.

    Rules are loaded into running jobs and unloaded again; other rules measure what comes of it. Exit code 1
    if anything is lost, duplicated or wrong.

    Example: `towpath demo-faults --only word-count --every 1000,40 --delay-ms 10`
    """
    # Here, because pandas and matplotlib would make every other command a second slower.
    from towpath.lab.demonstration.faults import handover, word_count
    from towpath.lab.demonstration.faults.report import FaultsReport

    begun = time.monotonic()
    load_before = list(os.getloadavg())
    delays = tuple((each, delay_ms) for each in _numbers(every))
    counted = moved = None
    if only is not Experiment.HANDOVER:
        counting = word_count.Options(rate=rate, step_s=step, delays=delays)
        home = Home((output / "faults-cluster-mesh").absolute())
        with _cleared(home, keep=False):
            counted = asyncio.run(_word_count(home, counting))
    if only is not Experiment.WORD_COUNT:
        moving = handover.Options(per_airport=events, step_s=step / 2)
        home = Home((output / "faults-mesh").absolute())
        with _cleared(home, keep):
            moved = asyncio.run(_handover(home, moving))
    report = FaultsReport(
        seconds=round(time.monotonic() - begun, 1),
        load_before=load_before,
        word_count=counted,
        handover=None if moved is None else moved.report,
    )
    _finish(output, report, moved, as_json)
    if not report.clean:
        raise typer.Exit(1)


def _numbers(text: str) -> list[int]:
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 1:
        raise TowpathError(
            ErrorCode.INVALID, "not counts of lines", field="every", value=text, allowed="such as 1000,40"
        )
    return numbers


@contextmanager
def _cleared(home: Home, keep: bool) -> Iterator[None]:
    """An empty home; unless it is kept, nothing of its mesh runs in the end."""
    lifecycle.down(home)
    shutil.rmtree(home.root, ignore_errors=True)
    try:
        yield
    finally:
        if not keep:
            lifecycle.down(home)


async def _word_count(home: Home, options: word_count.Options) -> WordCountReport:
    from towpath.lab.demonstration.faults import word_count

    workers = word_count.WORKERS
    async with spark_cluster(home.root / "spark", *workers, port=free_port(set()), run=home.run) as cluster:
        spec = word_count.mesh_spec(cluster.url)
        async with _up(home, spec, f"starting a cluster of {len(workers)} workers …") as (mesh, bus, tell):
            await asyncio.to_thread(word_count.provide_code, home.artefacts)
            return await word_count.WordCount(bus, mesh, options, tell).run()


async def _handover(home: Home, options: handover.Options) -> handover.Outcome:
    from towpath.lab.demonstration.faults import handover
    from towpath.lab.demonstration.pipeline import SITES

    sites = [SiteSpec(name=name, engine=ENGINE) for name in SITES]
    spec = MeshSpec(sites=sites, faults=FaultSettings(enabled=True))
    async with _up(home, spec, "starting four sites …") as (mesh, bus, tell):
        return await handover.run_handover(bus, mesh, options, tell)


@asynccontextmanager
async def _up(home: Home, spec: MeshSpec, title: str) -> AsyncIterator[tuple[MeshState, Bus, Tell]]:
    """The mesh, once all its sites are up; a connection to it; and how to tell what is under way."""
    with working(title) as status:
        begun = time.monotonic()

        def tell(text: str) -> None:
            say(f"{time.monotonic() - begun:6.1f} s  {text}")
            status.update(text)

        mesh = await asyncio.to_thread(lifecycle.up, home, spec)
        names = [site.name for site in spec.sites]
        await wait_until_up(home, names, UP_S, status.update)
        tell(f"up: {', '.join(names)}")
        async with open_bus(home) as bus:
            yield mesh, bus, tell


def _finish(output: Path, report: FaultsReport, moved: handover.Outcome | None, as_json: bool) -> None:
    """Write report and pictures, and tell what they say."""
    from towpath.lab.demonstration.faults.handover_picture import draw_handover
    from towpath.lab.demonstration.faults.picture import draw_word_count

    output.mkdir(parents=True, exist_ok=True)
    written = [output / "faults.json"]
    written[0].write_text(report.model_dump_json(indent=2) + "\n")
    if report.word_count is not None:
        written.append(output / "faults-word-count.png")
        draw_word_count(written[-1], report.word_count)
    if moved is not None:
        written.append(output / "faults-handover.png")
        draw_handover(written[-1], moved)
    if as_json:
        print_json(report)
        return
    if report.word_count is not None:
        for staircase in report.word_count.staircases:
            print_rich(_phases(staircase))
        print_rich(_counted(report.word_count))
    if report.handover is not None:
        print_rich(_moved(report.handover))
    say(f"wrote {', '.join(str(path) for path in written)}")


def _phases(staircase: Staircase) -> Table:
    title = (
        f"{staircase.delay_ms:g} ms with every {staircase.every:,}th line of a worker, "
        f"{staircase.rate:,.0f} lines/s"
    )
    columns = ("slow workers", "batches", "lines", "processing, s", "scheduling, s", "total, s", "lines/s")
    table = Table(*columns, title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for phase in staircase.phases:
        table.add_row(
            ", ".join(phase.slow) or "none",
            str(phase.batches),
            _figure(phase.events_per_batch, 0),
            _figure(phase.processing_s, 3),
            _figure(phase.scheduling_s, 3),
            _figure(phase.total_s, 3),
            _figure(phase.throughput, 0),
        )
    return table


def _figure(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"


def _counted(report: WordCountReport) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_row("words", f"{report.words_sent:,} sent, {report.words_counted:,} counted")
    for staircase in report.staircases:
        acted = ", ".join(f"{rule} {count:,}" for rule, count in staircase.delays.items())
        table.add_row(f"delays, every {staircase.every:,}", acted)
    return table


def _moved(report: HandoverReport) -> Table:
    found = report.pipeline
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, value in (
        ("results", f"{found.results:,} of {found.expected_results:,} expected"),
        ("lost, duplicated, wrong", f"{found.lost}, {found.duplicated}, {found.wrong}"),
        ("delays", ", ".join(f"{rule} {count:,}" for rule, count in report.delays.items())),
    ):
        table.add_row(name, value)
    for move in found.migrations:
        downtime = "unknown" if move.downtime_s is None else f"{move.downtime_s:.2f} s"
        table.add_row(f"{move.source} → {move.target}", f"{move.total_s:.2f} s, downtime {downtime}")
    for kind, examples in found.examples.items():
        for example in examples:
            table.add_row(f"e.g. {kind}", example)
    return table
