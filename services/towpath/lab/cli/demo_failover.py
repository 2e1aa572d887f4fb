"""`towpath demo-failover`: a site dies under load, its jobs go on at their standby, and it returns."""

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
    from towpath.lab.demonstration.failover.report import FailoverReport
    from towpath.lab.demonstration.failover.run import FailoverOptions, FailoverOutcome


def demo_failover(
    rate: Annotated[
        float, typer.Option(min=1, max=200, help="Departures per second at each airport.")
    ] = 100.0,
    state_mb: Annotated[
        int, typer.Option(min=0, max=1000, help="Megabytes of state of one of the jobs. 0: without that job.")
    ] = 100,
    output: Annotated[Path, typer.Option(help="Where report and picture go.")] = Path("demo"),
    keep: Annotated[bool, typer.Option("--keep", help="Leave the mesh running afterwards.")] = False,
    as_json: AsJson = False,
) -> None:
    """Kill all of a site under load, let its jobs go on at their standby, and check every result.

    The site returns in the end. Exit code 1 if anything is lost or wrong, or comes twice at an output.

    Example: `towpath demo-failover --state-mb 100`
    """
    # Here, because pandas and matplotlib would make every other command a second slower.
    from towpath.lab.demonstration.failover.picture import draw
    from towpath.lab.demonstration.failover.run import FailoverOptions

    begun = time.monotonic()
    outcome = asyncio.run(_run(output, FailoverOptions(rate=rate, state_mb=state_mb), keep))
    report = outcome.report.model_copy(update={"seconds": round(time.monotonic() - begun, 1)})
    write_report(output / "failover.json", report)
    draw(output / "failover.png", replace(outcome, report=report))
    tables = [_jobs_table(report), _times_table(report), facts_table(_facts(report))]
    written = f"{output / 'failover.json'} and {output / 'failover.png'}"
    finish(report, tables, written, as_json=as_json, clean=report.clean)


async def _run(output: Path, options: FailoverOptions, keep: bool) -> FailoverOutcome:
    from towpath.lab.demonstration.failover.jobs import SITES
    from towpath.lab.demonstration.failover.run import FailoverDemonstration
    from towpath.lab.harness.stage import ENGINE

    spec = MeshSpec(sites=[SiteSpec(name=name, engine=ENGINE) for name in SITES])
    async with told_stage(Home((output / "failover-mesh").absolute()), spec, keep=keep) as (stage, tell):
        return await FailoverDemonstration(stage, options, tell).run()


def _jobs_table(report: FailoverReport) -> Table:
    columns = ("job", "reads at", "results at", "results", "expected", "lost", "twice", "wrong", "again")
    table = table_of(columns)
    for each in report.jobs:
        judged = each.judgement
        moved = "" if each.output == each.output_now else f", {each.output_now}"
        counts = (judged.results, judged.expected, judged.lost, judged.duplicated)
        table.add_row(
            each.job,
            each.reads,
            f"{each.output}{moved}",
            *(f"{n:,}" for n in counts),
            f"{judged.wrong + judged.unexpected:,}",
            f"{each.again:,}",
        )
    return table


def _times_table(report: FailoverReport) -> Table:
    columns = (
        "job",
        "copy's age",
        "processed again",
        "on the lost disk",
        "runs after",
        "first result after",
        "silent",
    )
    table = table_of(columns)
    for each in report.jobs:
        found = each.forecast
        table.add_row(
            each.job,
            _seconds(found.behind_s),
            _count(found.behind_events),
            _count(found.lost_events),
            *map(_seconds, (each.ran_after_s, each.first_result_after_s, each.silent_s)),
        )
    return table


def _facts(report: FailoverReport) -> Iterator[Fact]:
    moments = report.moments
    yield (
        "events",
        f"{sum(load.acknowledged for load in report.loads):,}, {report.stored_twice:,} stored twice",
    )
    yield "missed", f"{moments.missed_at - moments.died_at:.1f} s after its death"
    yield "dead for", f"{moments.returned_at - moments.died_at:.1f} s"
    yield "ordinary again", f"{moments.ordinary_at - moments.returned_at:.1f} s after its return"
    if report.copy_mb is not None:
        yield "copied state", f"{report.copy_mb:.0f} MB of the job `tokens`"
    yield from report.judged.example_rows()
    yield from (("not as expected", problem) for problem in report.problems)
    yield "run", f"{report.seconds:.0f} s"


def _seconds(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds:.1f} s"


def _count(count: int | None) -> str:
    return "–" if count is None else f"{count:,}"
