"""`towpath demo-autopilot`: a day of departures with the autopilot, and the same day without it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from towpath.cli.output import table_of
from towpath.cli.settings import AsJson
from towpath.lab.cli.showing import Fact, facts_table, finish, told_stage, write_report
from towpath.mesh.home import Home

if TYPE_CHECKING:
    from towpath.lab.demonstration.autopilot.report import AutopilotReport
    from towpath.lab.demonstration.autopilot.run import Day


def demo_autopilot(
    seconds: Annotated[float, typer.Option(min=60, help="The day is compressed to so many.")] = 240.0,
    without: Annotated[
        bool, typer.Option("--without/--only-with", help="Also live through the day without it.")
    ] = True,
    output: Annotated[Path, typer.Option(help="Where report and picture go.")] = Path("demo"),
    as_json: AsJson = False,
) -> None:
    """Let jobs leave ahead of a rush hour, a tunnel, an empty battery and a failing site; check every result.

    Exit code 1 if anything is lost, duplicated or wrong on either day.

    Example: `towpath demo-autopilot --seconds 240`
    """
    # Here, because pandas and matplotlib would make every other command a second slower.
    from towpath.lab.demonstration.autopilot.day import GOAL_S
    from towpath.lab.demonstration.autopilot.picture import draw
    from towpath.lab.demonstration.autopilot.report import AutopilotReport

    begun = time.monotonic()
    days = [asyncio.run(_day(output, seconds, autopilot=each)) for each in (True, False)[: 1 + without]]
    report = AutopilotReport(
        goal_s=GOAL_S,
        seconds_sent=seconds,
        days=[day.report for day in days],
        seconds=round(time.monotonic() - begun, 1),
    )
    write_report(output / "autopilot.json", report)
    draw(output / "autopilot.png", report, days)
    tables = [_jobs_table(report), _decisions_table(report), facts_table([*_facts(report)])]
    written = f"autopilot.json and autopilot.png to {output}"
    finish(report, tables, written, as_json=as_json, clean=report.clean)


async def _day(output: Path, seconds: float, *, autopilot: bool) -> Day:
    from towpath.lab.demonstration.autopilot.day import CHARGE_PERCENT, charge_file, day_mesh
    from towpath.lab.demonstration.autopilot.run import live_through

    directory = (output / ("autopilot-day" if autopilot else "ordinary-day")).absolute()
    directory.mkdir(parents=True, exist_ok=True)
    charge_file(directory).write_text(f"{CHARGE_PERCENT}\n")
    spec = day_mesh(directory, autopilot=autopilot)
    async with told_stage(Home(directory / "mesh"), spec, keep=False) as (stage, tell):
        return await live_through(stage, seconds, directory, tell, autopilot=autopilot)


def _jobs_table(report: AutopilotReport) -> Table:
    columns = ("job", "autopilot", "results", "expected", "lost", "twice", "wrong", "goal broken", "longest")
    table = table_of(columns)
    for day in report.days:
        for each in day.jobs:
            judged = each.judgement
            counts = (judged.results, judged.expected, judged.lost, judged.duplicated)
            table.add_row(
                each.job,
                "yes" if day.autopilot else "no",
                *(f"{n:,}" for n in counts),
                f"{judged.wrong + judged.unexpected:,}",
                f"{each.late_s:.0f} s",
                f"{each.longest_s:.1f} s",
            )
    return table


def _decisions_table(report: AutopilotReport) -> Table:
    rows = [
        (
            ", ".join(f"{move.job}: {move.origin} → {move.target}" for move in each.moves),
            each.state,
            each.reason,
            f"{each.staying.late_s:.0f} s",
            f"{each.moving.late_s:.0f} s",
        )
        for day in report.days
        for each in day.decisions
    ]
    return table_of(("decision", "", "because", "late if it stays", "if it moves"), rows)


def _facts(report: AutopilotReport) -> Iterator[Fact]:
    for day in report.days:
        what = "with the autopilot" if day.autopilot else "without"
        yield what, f"goals broken for {day.late_s:.0f} job-seconds, {len(day.moves)} moves"
        for move in day.moves:
            yield move.job, f"{move.source} → {move.target}, {move.state}, {move.total_s} s"
        for job in day.jobs:
            yield from job.judgement.example_rows()
        yield from (("not as expected", problem) for problem in day.problems)
    yield "run", f"{report.seconds:.0f} s"
