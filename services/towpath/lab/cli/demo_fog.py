"""`towpath demo-fog`: fog against cloud on real data, then a pipeline that changes under load."""

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
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.site import EngineSpec, MeshSpec, SiteSpec
from towpath.mesh import lifecycle
from towpath.mesh.home import Home

if TYPE_CHECKING:
    from towpath.lab.demonstration.fog.report import FogReport, Judgement
    from towpath.lab.demonstration.fog.run import Options, Workload

UP_S = 240.0
"""Twice what four engines need on two quiet cores, and more: a run is too long to give up before it began."""
EDGE_ENGINE = EngineSpec(spark_master="local[2]", memory="640m", state_memory_mb=64)
CLOUD_ENGINE = EngineSpec(spark_master="local[2]", memory="1g", state_memory_mb=128)
"""It runs all thirteen jobs in one of the scenarios."""


def demo_fog(
    rates: Annotated[
        str, typer.Option(help="Events per second at each edge, one run of both scenarios for each.")
    ] = "100,200,400",
    seconds: Annotated[float, typer.Option(min=1, help="How long devices send at each rate.")] = 15.0,
    bandwidth: Annotated[
        int, typer.Option(min=10_000, help="Bytes per second of each link, in each direction.")
    ] = 250_000,
    trigger: Annotated[float, typer.Option(min=0.5, help="Seconds between micro-batches.")] = 3.0,
    output: Annotated[Path, typer.Option(help="Where report and picture go.")] = Path("demo"),
    keep: Annotated[bool, typer.Option("--keep", help="Leave the mesh running afterwards.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compare jobs where the data is with all jobs at the cloud, then change a pipeline under load.

    SpecK's road-traffic experiment in shape, on real departures, over links of 18.6 ms from site to site.
    Exit code 1 if anything is lost, duplicated or wrong.

    Example: `towpath demo-fog --rates 100,200,400 --seconds 15`
    """
    # Here, because pandas and matplotlib would make every other command a second slower.
    from towpath.lab.demonstration.fog.run import Options, Workload

    options = Options(
        rates=_rates(rates), seconds=seconds, bandwidth_bytes_per_s=bandwidth, trigger_s=trigger
    )
    workload = Workload.of(options)
    home = Home((output / "fog-mesh").absolute())
    begun = time.monotonic()
    lifecycle.down(home)
    shutil.rmtree(home.root, ignore_errors=True)
    try:
        report = asyncio.run(_run(home, options, workload))
    finally:
        if not keep:
            lifecycle.down(home)
    report = report.model_copy(update={"seconds": round(time.monotonic() - begun, 1)})
    _write(output, report)
    if as_json:
        print_json(report)
    else:
        print_rich(_rates_table(report))
        print_rich(_change_table(report))
        say(f"wrote {output / 'fog.json'} and {output / 'fog.png'}")
    if not report.clean:
        raise typer.Exit(1)


def _rates(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise TowpathError(
            ErrorCode.INVALID, "not numbers", field="rates", value=text, allowed="numbers such as 100,200,400"
        ) from None


async def _run(home: Home, options: Options, workload: Workload) -> FogReport:
    from towpath.lab.demonstration.fog.run import FogDemonstration
    from towpath.lab.demonstration.pipeline import CLOUD, EDGES, SITES

    sites = [SiteSpec(name=name, engine=EDGE_ENGINE) for name in EDGES]
    spec = MeshSpec(sites=[*sites, SiteSpec(name=CLOUD, engine=CLOUD_ENGINE)], emulate_links=True)
    with working("starting four sites …") as status:
        begun = time.monotonic()

        def tell(text: str) -> None:
            say(f"{time.monotonic() - begun:6.1f} s  {text}")
            status.update(text)

        mesh = await asyncio.to_thread(lifecycle.up, home, spec)
        await wait_until_up(home, SITES, UP_S, status.update)
        tell("four sites are up, with links between them")
        async with open_bus(home) as bus:
            return await FogDemonstration(bus, mesh, options, workload, tell).run()


def _write(output: Path, report: FogReport) -> None:
    from towpath.lab.demonstration.fog.picture import draw

    output.mkdir(parents=True, exist_ok=True)
    (output / "fog.json").write_text(report.model_dump_json(indent=2) + "\n")
    draw(output / "fog.png", report)


def _rates_table(report: FogReport) -> Table:
    columns = (
        "sent at each edge",
        "scenario",
        "job 3, all edges",
        "job 4, all edges",
        "over the edges' links",
        "over the cloud's",
    )
    table = Table(*columns, box=None, pad_edge=False, header_style="bold")
    for number, differential in enumerate(report.differential):
        for scenario in report.scenarios:
            turn = scenario.turns[number]
            table.add_row(
                f"{turn.rate:g}/s",
                scenario.scenario,
                *(f"{turn.stages[stage].rate:.1f}/s" for stage in ("job 3", "job 4")),
                f"{turn.crossed.edge_links / 1e6:.2f} MB",
                f"{turn.crossed.cloud_link / 1e6:.2f} MB",
            )
        table.add_row("", "D", _percent(differential.job_3), _percent(differential.job_4), end_section=True)
    return table


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f} %"


def _judged(judgement: Judgement) -> str:
    return (
        f"{judgement.results:,} of {judgement.expected:,} results, {judgement.lost} lost, "
        f"{judgement.duplicated} duplicated, {judgement.wrong} wrong"
    )


def _change_table(report: FogReport) -> Table:
    from towpath.lab.demonstration.fog.change import describe

    change = report.change
    table = Table(box=None, show_header=False, pad_edge=False)
    for planned in change.plan:
        table.add_row("plan", describe(planned))
    table.add_row("changed", f"in {change.apply_s:.1f} s, {change.sent_during:,} events sent meanwhile")
    table.add_row("redirected", f"{change.old_topic:,} events before, {change.new_topic:,} after")
    for scenario in report.scenarios:
        table.add_row(scenario.scenario, f"{scenario.jobs} jobs, {_judged(scenario.judgement)}")
    table.add_row("change", _judged(change.judgement))
    judgements = [*(scenario.judgement for scenario in report.scenarios), change.judgement]
    for kind, example in ((k, e) for j in judgements for k, found in j.examples.items() for e in found):
        table.add_row(f"e.g. {kind}", example)
    table.add_row("run", f"{report.seconds:.0f} s")
    return table
