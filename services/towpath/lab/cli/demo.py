"""`towpath demo`: the main job on real data, with a table, a report and a picture at the end."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.settings import AsJson
from towpath.contracts.commands import StrategyName
from towpath.lab.cli.showing import Fact, facts_table, finish, told_stage, write_report
from towpath.mesh.home import Home

if TYPE_CHECKING:
    from towpath.lab.demonstration.report import DemonstrationReport
    from towpath.lab.demonstration.run import Outcome
    from towpath.lab.demonstration.scenario import DemonstrationOptions


def demo(
    events: Annotated[int, typer.Option(min=100, max=34_000, help="Departures of each airport.")] = 18_000,
    rate: Annotated[float, typer.Option(min=1, help="Events per second at each airport.")] = 200.0,
    strategy: Annotated[StrategyName, typer.Option(help="How the job changes site.")] = StrategyName.AUTO,
    output: Annotated[Path, typer.Option(help="Where report and picture go.")] = Path("demo"),
    keep: Annotated[bool, typer.Option("--keep", help="Leave the mesh running afterwards.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run a pipeline over four sites on real departures, move one of its jobs, and check every result.

    Exit code 1 if anything is lost, duplicated or wrong.

    Example: `towpath demo --events 18000 --rate 200`
    """
    # Here, because pandas and matplotlib would make every other command a second slower.
    from towpath.lab.demonstration.scenario import DemonstrationOptions

    options = DemonstrationOptions(per_airport=events, rate=rate, strategy=strategy)
    begun = time.monotonic()
    outcome = asyncio.run(_run(output, options, keep))
    report = outcome.report.model_copy(update={"seconds": round(time.monotonic() - begun, 1)})
    _write(output, replace(outcome, report=report))
    written = f"report.html, report.json, migration.png and journal.jsonl to {output}"
    finish(report, [facts_table(_facts(report))], written, as_json=as_json, clean=report.clean)


async def _run(output: Path, options: DemonstrationOptions, keep: bool) -> Outcome:
    from towpath.lab.demonstration.run import demonstrate
    from towpath.lab.demonstration.scenario import moving_scenario
    from towpath.lab.harness.stage import small_mesh

    home, scenario = Home((output / "mesh").absolute()), moving_scenario(options)
    spec = small_mesh(scenario.mesh.sites, emulate_links=False)
    async with told_stage(home, spec, keep=keep) as (stage, tell):
        return await demonstrate(stage, options, scenario, output, tell)


def _write(output: Path, outcome: Outcome) -> None:
    from towpath.lab.demonstration.picture import draw
    from towpath.lab.demonstration.report_page import demonstration_page
    from towpath.reports.page import write_page

    write_report(output / "report.json", outcome.report)
    if outcome.moving and outcome.passing:
        draw(output / "migration.png", outcome)
    write_page(output / "report.html", demonstration_page(outcome))


def _facts(report: DemonstrationReport) -> list[Fact]:
    return [
        ("events", f"{report.events:,} at {report.events_per_s:,.0f}/s"),
        ("rejected", f"{report.rejected:,} cancelled or malformed"),
        ("results", f"{report.results:,} of {report.expected_results:,} expected"),
        ("lost", str(report.lost)),
        ("duplicated", str(report.duplicated)),
        ("wrong", str(report.wrong + report.unexpected)),
        ("out of order", str(report.out_of_order)),
        ("latency", f"median {report.latency_p50_s} s, 99th percentile {report.latency_p99_s} s"),
        *((move.way, move.costs) for move in report.migrations),
        *([] if report.silences is None else [("the moved job", str(report.silences))]),
        ("run", f"{report.seconds:.0f} s"),
        *report.example_rows(),
        *(("not as expected", problem) for problem in report.problems),
    ]
