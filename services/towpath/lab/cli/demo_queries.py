"""`towpath demo-queries`: queries over three airports, each answer compared with a batch computation."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from towpath.cli.output import table_of
from towpath.cli.settings import AsJson
from towpath.contracts.site import MeshSpec, SiteSpec
from towpath.lab.cli.showing import Fact, facts_table, finish, told_stage, write_report
from towpath.mesh.home import Home

if TYPE_CHECKING:
    from towpath.lab.demonstration.queries.report import QueriesReport
    from towpath.lab.demonstration.queries.run import QueriesOptions, QueriesOutcome


def demo_queries(
    rate: Annotated[
        float, typer.Option(min=1, help="Events per second at each airport, in the mean.")
    ] = 200.0,
    seconds: Annotated[float, typer.Option(min=1, help="How long devices send at this rate.")] = 30.0,
    figures: Annotated[
        bool, typer.Option("--figures/--no-figures", help="Also run the queries that RAINBOW printed.")
    ] = True,
    output: Annotated[Path, typer.Option(help="Where report and picture go.")] = Path("demo"),
    keep: Annotated[bool, typer.Option("--keep", help="Leave the mesh running afterwards.")] = False,
    as_json: AsJson = False,
) -> None:
    """Ask eight queries over three airports, move the job that answers, and check every answer.

    Also measures what crosses the links, against shipping every event, and how good estimates are. Exit code
    1 if an answer is missing, comes twice or is wrong, or if estimates do not keep their promise.

    Example: `towpath demo-queries --rate 200 --seconds 30`
    """
    # Here, because pandas and matplotlib would make every other command a second slower.
    from towpath.lab.demonstration.queries.picture import draw
    from towpath.lab.demonstration.queries.run import QueriesOptions

    options = QueriesOptions(rate=rate, seconds=seconds, figures=figures)
    begun = time.monotonic()
    outcome = asyncio.run(_run(output, options, keep))
    report = outcome.report.model_copy(update={"seconds": round(time.monotonic() - begun, 1)})
    write_report(output / "queries.json", report)
    draw(output / "queries.png", replace(outcome, report=report))
    tables = [_queries_table(report), facts_table(_facts(report))]
    written = f"{output / 'queries.json'} and {output / 'queries.png'}"
    finish(report, tables, written, as_json=as_json, clean=report.clean)


async def _run(output: Path, options: QueriesOptions, keep: bool) -> QueriesOutcome:
    from towpath.lab.demonstration.pipeline import SITES
    from towpath.lab.demonstration.queries.run import QueriesDemonstration
    from towpath.lab.harness.stage import ENGINE

    spec = MeshSpec(sites=[SiteSpec(name=name, engine=ENGINE) for name in SITES], emulate_links=True)
    async with told_stage(Home((output / "queries-mesh").absolute()), spec, keep=keep) as (stage, tell):
        return await QueriesDemonstration(stage, options, tell).run()


def _queries_table(report: QueriesReport) -> Table:
    table = table_of(("text", "query", "answers", "expected", "missing", "twice", "wrong"))
    for each in [*report.queries, *report.figures, *report.estimates]:
        judged = each.judgement
        counts = (judged.results, judged.expected, judged.lost, judged.duplicated)
        table.add_row(
            each.text, each.query, *(f"{n:,}" for n in counts), f"{judged.wrong + judged.unexpected:,}"
        )
    return table


def _facts(report: QueriesReport) -> Iterator[Fact]:
    yield "events", f"{report.events:,} of {report.days:.0f} days, {report.rate:g}/s at each airport"
    for move in report.moves:
        yield f"{move.job}", f"{move.way}, {move.costs}"
    for gap in report.gaps:
        yield (
            "without an answer",
            f"{gap.around_s:.2f} s at most while {gap.job} moved, {gap.before_s:.2f} s before",
        )
    yield from _link_facts(report)
    yield (
        "sample",
        f"{report.sampled.query} reads {report.sampled.read:,} of {report.sampled.events:,} events",
    )
    for each in report.estimates:
        yield (
            f"estimated {each.query}",
            f"{each.within:.1%} within {each.max_error:.0%} (promised {each.confidence:.0%}), "
            f"{each.covered:.1%} of intervals hold the truth, {each.sampled:.0%} of events in an answer",
        )
    yield from report.judged.example_rows()
    yield from (("not as expected", problem) for problem in report.problems)
    yield "run", f"{report.seconds:.0f} s"


def _link_facts(report: QueriesReport) -> Iterator[Fact]:
    from towpath.lab.demonstration.queries.run import RAW

    for found, without in (
        (report.bytes_per_event(), ""),
        (report.bytes_beyond_idle(), ", without heartbeats"),
    ):
        for what, each in found.items():
            times = f", 1/{found[RAW] / each:.0f} of raw events" if what != RAW and each else ""
            yield "over the links", f"{what}{without}: {each:.1f} bytes for each event{times}"
