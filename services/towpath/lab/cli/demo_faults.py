"""`towpath demo-faults`: faults injected into running jobs, worker by worker and around a handover."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from towpath.cli.output import table_of
from towpath.cli.settings import AsJson
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.lab.cli.showing import Fact, facts_table, finish, numbers, told_stage, write_report
from towpath.lab.workload.spark_cluster import spark_cluster
from towpath.mesh import lifecycle
from towpath.mesh.home import Home
from towpath.mesh.ports import free_port

if TYPE_CHECKING:
    from towpath.lab.demonstration.faults import handover, word_count
    from towpath.lab.demonstration.faults.report import (
        FaultsReport,
        HandoverReport,
        Staircase,
        WordCountReport,
    )


class Experiment(StrEnum):
    """The experiments."""

    WORD_COUNT = "word-count"
    HANDOVER = "handover"


def demo_faults(
    only: Annotated[Experiment | None, typer.Option(help="Only this experiment.")] = None,
    rate: Annotated[float, typer.Option(min=1, help="Lines of text per second.")] = 4_000.0,
    step: Annotated[float, typer.Option(min=2, help="Seconds between one rule and the next.")] = 10.0,
    every: Annotated[
        str, typer.Option(help="A delay with every Nth line: one staircase for each number.")
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
    delays = tuple((each, delay_ms) for each in _counts(every))
    counted = moved = None
    if only is not Experiment.HANDOVER:
        counting = word_count.WordCountOptions(rate=rate, step_s=step, delays=delays)
        counted = asyncio.run(_word_count(output, counting))
    if only is not Experiment.WORD_COUNT:
        moving = handover.HandoverOptions(per_airport=events, step_s=step / 2)
        moved = asyncio.run(_handover(output, moving, keep))
    report = FaultsReport(
        seconds=round(time.monotonic() - begun, 1),
        load_before=load_before,
        word_count=counted,
        handover=None if moved is None else moved.report,
    )
    written = ", ".join(str(path) for path in _write(output, report, moved))
    finish(report, _tables(report), written, as_json=as_json, clean=report.clean)


def _counts(text: str) -> list[int]:
    counts = [int(each) for each in numbers(text, "every", "1000,40")]
    if min(counts) < 1:
        raise TowpathError(
            ErrorCode.INVALID, "not counts of lines", field="every", value=text, allowed="such as 1000,40"
        )
    return counts


async def _word_count(output: Path, options: word_count.WordCountOptions) -> WordCountReport:
    from towpath.lab.demonstration.faults import word_count

    home = Home((output / "faults-cluster-mesh").absolute())
    with _cleared(Home((output / "faults-cluster").absolute())) as spark:
        port = free_port(set())
        async with spark_cluster(spark.root, *word_count.WORKERS, port=port, run=spark.run) as cluster:
            spec = word_count.mesh_spec(cluster.url)
            async with told_stage(home, spec, keep=False) as (stage, tell):
                await asyncio.to_thread(word_count.provide_code, home.artefacts)
                return await word_count.WordCount(stage, options, output / "faults-word-count", tell).run()


@contextmanager
def _cleared(home: Home) -> Iterator[Home]:
    """An empty home, in which nothing runs before and after."""
    lifecycle.down(home)
    shutil.rmtree(home.root, ignore_errors=True)
    try:
        yield home
    finally:
        lifecycle.down(home)


async def _handover(output: Path, options: handover.HandoverOptions, keep: bool) -> handover.HandoverOutcome:
    from towpath.lab.demonstration.faults import handover
    from towpath.lab.demonstration.pipeline import SITES
    from towpath.lab.harness.stage import small_mesh

    home = Home((output / "faults-mesh").absolute())
    async with told_stage(home, small_mesh(SITES, emulate_links=False), keep=keep) as (stage, tell):
        return await handover.run_handover(stage, options, output / "faults-handover", tell)


def _write(output: Path, report: FaultsReport, moved: handover.HandoverOutcome | None) -> Iterator[Path]:
    """Write report and pictures; where they are."""
    from towpath.lab.demonstration.faults.picture import draw_handover, draw_word_count

    write_report(output / "faults.json", report)
    yield output / "faults.json"
    if report.word_count is not None:
        draw_word_count(output / "faults-word-count.png", report.word_count)
        yield output / "faults-word-count.png"
    if moved is not None:
        draw_handover(output / "faults-handover.png", moved)
        yield output / "faults-handover.png"


def _tables(report: FaultsReport) -> Iterator[Table]:
    if report.word_count is not None:
        yield from map(_phases, report.word_count.staircases)
        yield facts_table(_counted(report.word_count))
    if report.handover is not None:
        yield facts_table(_moved(report.handover))


def _phases(staircase: Staircase) -> Table:
    title = (
        f"{staircase.delay_ms:g} ms with every {staircase.every:,}th line of a worker, "
        f"{staircase.rate:,.0f} lines/s"
    )
    columns = ("slow workers", "batches", "lines", "processing, s", "scheduling, s", "total, s", "lines/s")
    rows = (
        (
            ", ".join(phase.slow) or "none",
            phase.batches,
            _figure(phase.events_per_batch, 0),
            _figure(phase.processing_s, 3),
            _figure(phase.scheduling_s, 3),
            _figure(phase.total_s, 3),
            _figure(phase.throughput, 0),
        )
        for phase in staircase.phases
    )
    return table_of(columns, rows, title=title, title_justify="left")


def _figure(value: float | None, digits: int) -> str | None:
    return None if value is None else f"{value:,.{digits}f}"


def _counted(report: WordCountReport) -> Iterator[Fact]:
    yield "words", f"{report.words_sent:,} sent, {report.words_counted:,} counted"
    for staircase in report.staircases:
        yield f"delays, every {staircase.every:,}", _acted(staircase.delays)


def _moved(report: HandoverReport) -> Iterator[Fact]:
    found = report.pipeline
    yield "results", f"{found.results:,} of {found.expected_results:,} expected"
    yield "of them", found.in_three
    yield "delays", _acted(report.delays)
    yield from ((move.way, move.costs) for move in found.migrations)
    yield from found.example_rows()
    yield from (("not as expected", problem) for problem in found.problems)


def _acted(counts: dict[str, int]) -> str:
    return ", ".join(f"{rule} {count:,}" for rule, count in counts.items())
