"""`towpath demo`: the main job on real data, with a table, a report and a picture at the end."""

from __future__ import annotations

import asyncio
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from towpath.cli.connection import open_bus
from towpath.cli.output import print_json, print_rich, say, working
from towpath.cli.settings import AsJson
from towpath.cli.starting import wait_until_up
from towpath.contracts.commands import StrategyName
from towpath.contracts.site import EngineSpec, MeshSpec, SiteSpec
from towpath.lab.demonstration.report import Report
from towpath.mesh import lifecycle
from towpath.mesh.home import Home

if TYPE_CHECKING:
    from towpath.lab.demonstration.run import Options, Outcome

UP_S = 120.0
ENGINE = EngineSpec(spark_master="local[2]", memory="640m", state_memory_mb=64)
"""Ten small jobs share four engines: together with all else they stay well inside 12 GiB."""


def demo(
    events: Annotated[int, typer.Option(min=100, max=34_000, help="Departures of each airport.")] = 22_000,
    rate: Annotated[float, typer.Option(min=1, help="Events per second at each airport.")] = 300.0,
    strategy: Annotated[StrategyName, typer.Option(help="How the job changes site.")] = StrategyName.AUTO,
    output: Annotated[Path, typer.Option(help="Where report and picture go.")] = Path("demo"),
    keep: Annotated[bool, typer.Option("--keep", help="Leave the mesh running afterwards.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run a pipeline over four sites on real departures, move one of its jobs, and check every result.

    Exit code 1 if anything is lost, duplicated or wrong.

    Example: `towpath demo --events 22000 --rate 300`
    """
    # Here, because pandas and matplotlib would make every other command a second slower.
    from towpath.lab.demonstration.run import Options

    home = Home((output / "mesh").absolute())
    options = Options(per_airport=events, rate=rate, strategy=strategy)
    begun = time.monotonic()
    lifecycle.down(home)
    shutil.rmtree(home.root, ignore_errors=True)
    try:
        outcome = asyncio.run(_run(home, options))
    finally:
        if not keep:
            lifecycle.down(home)
    report = outcome.report.model_copy(update={"seconds": round(time.monotonic() - begun, 1)})
    _write(output, report, outcome)
    if as_json:
        print_json(report)
    else:
        print_rich(_table(report))
        say(f"wrote report.html, report.json and migration.png to {output}")
    if not report.clean:
        raise typer.Exit(1)


async def _run(home: Home, options: Options) -> Outcome:
    from towpath.lab.demonstration.pipeline import SITES
    from towpath.lab.demonstration.run import Demonstration

    spec = MeshSpec(sites=[SiteSpec(name=name, engine=ENGINE) for name in SITES])
    with working("starting four sites …") as status:
        begun = time.monotonic()

        def tell(text: str) -> None:
            say(f"{time.monotonic() - begun:6.1f} s  {text}")
            status.update(text)

        mesh = await asyncio.to_thread(lifecycle.up, home, spec)
        await wait_until_up(home, SITES, UP_S, status.update)
        tell("four sites are up")
        async with open_bus(home) as bus:
            return await Demonstration(bus, mesh, options, tell).run()


def _write(output: Path, report: Report, outcome: Outcome) -> None:
    from towpath.lab.demonstration.picture import draw
    from towpath.lab.demonstration.report_page import demonstration_page
    from towpath.reports.page import write_page

    output.mkdir(parents=True, exist_ok=True)
    (output / "report.json").write_text(report.model_dump_json(indent=2) + "\n")
    if outcome.moving and outcome.passing:
        draw(output / "migration.png", report, outcome.moving, outcome.passing, outcome.moving_job)
    text = demonstration_page(report, outcome.moving_job, outcome.moving, outcome.passing, outcome.moves)
    write_page(output / "report.html", text)


def _table(report: Report) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    rows: list[tuple[str, str]] = [
        ("events", f"{report.events:,} at {report.events_per_s:,.0f}/s"),
        ("rejected", f"{report.rejected:,} cancelled or malformed"),
        ("results", f"{report.results:,} of {report.expected_results:,} expected"),
        ("lost", str(report.lost)),
        ("duplicated", str(report.duplicated)),
        ("wrong", str(report.wrong)),
        ("out of order", str(report.out_of_order)),
        ("latency", f"median {report.latency_p50_s} s, 99th percentile {report.latency_p99_s} s"),
    ]
    for migration in report.migrations:
        downtime = "unknown" if migration.downtime_s is None else f"{migration.downtime_s:.2f} s"
        rows.append(
            (
                f"{migration.source} → {migration.target}",
                f"{migration.strategy}: {migration.total_s:.2f} s, downtime {downtime}, "
                f"{migration.state_bytes:,} bytes of state",
            )
        )
    rows.append(("run", f"{report.seconds:.0f} s"))
    for name, value in rows:
        table.add_row(name, value)
    for kind, examples in report.examples.items():
        for example in examples:
            table.add_row(f"e.g. {kind}", example)
    return table
