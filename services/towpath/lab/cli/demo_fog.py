"""`towpath demo-fog`: fog against cloud on real data, then a pipeline that changes under load."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from towpath.cli.output import table_of
from towpath.cli.settings import AsJson
from towpath.contracts.site import EngineSpec, MeshSpec, SiteSpec
from towpath.lab.cli.showing import Fact, facts_table, finish, numbers, told_stage, write_report
from towpath.mesh.home import Home

if TYPE_CHECKING:
    from towpath.lab.demonstration.fog.experiment import FogOptions
    from towpath.lab.demonstration.fog.report import FogReport
    from towpath.lab.harness.report import Judgement

CLOUD_ENGINE = EngineSpec(spark_master="local[2]", memory="1g", state_memory_mb=128)
"""It runs all thirteen jobs in one of the arrangements."""


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
    from towpath.lab.demonstration.fog.experiment import FogOptions
    from towpath.lab.demonstration.fog.picture import draw

    options = FogOptions(
        rates=tuple(numbers(rates, "rates", "100,200,400")),
        seconds=seconds,
        bandwidth_bytes_per_s=bandwidth,
        trigger_s=trigger,
    )
    begun = time.monotonic()
    report = asyncio.run(_run(output, options, keep))
    report = report.model_copy(update={"seconds": round(time.monotonic() - begun, 1)})
    write_report(output / "fog.json", report)
    draw(output / "fog.png", report)
    tables = [_rates_table(report), facts_table(_facts(report))]
    written = f"{output / 'fog.json'} and {output / 'fog.png'}"
    finish(report, tables, written, as_json=as_json, clean=report.clean)


async def _run(output: Path, options: FogOptions, keep: bool) -> FogReport:
    from towpath.lab.demonstration.fog.run import FogDemonstration
    from towpath.lab.demonstration.pipeline import CLOUD, EDGES
    from towpath.lab.harness.stage import ENGINE

    sites = [SiteSpec(name=name, engine=ENGINE) for name in EDGES]
    spec = MeshSpec(sites=[*sites, SiteSpec(name=CLOUD, engine=CLOUD_ENGINE)], emulate_links=True)
    home = Home((output / "fog-mesh").absolute())
    async with told_stage(home, spec, keep=keep) as (stage, tell):
        return await FogDemonstration(stage, options, output / "fog", tell).run()


def _rates_table(report: FogReport) -> Table:
    columns = (
        "sent at each edge",
        "scenario",
        "job 3, all edges",
        "job 4, all edges",
        "over the edges' links",
        "over the cloud's",
    )
    table = table_of(columns)
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
    return f"{judgement.results:,} of {judgement.expected:,} results, {judgement.in_three}"


def _facts(report: FogReport) -> list[Fact]:
    from towpath.lab.demonstration.fog.change import describe

    change = report.change
    judgements = [*(scenario.judgement for scenario in report.scenarios), change.judgement]
    return [
        *(("plan", describe(planned)) for planned in change.plan),
        ("changed", f"in {change.apply_s:.1f} s, {change.sent_during:,} events sent meanwhile"),
        ("redirected", f"{change.old_topic:,} events before, {change.new_topic:,} after"),
        *((str(s.scenario), f"{s.jobs} jobs, {_judged(s.judgement)}") for s in report.scenarios),
        ("change", _judged(change.judgement)),
        *(row for judgement in judgements for row in judgement.example_rows()),
        *(("problem", text) for scenario in report.scenarios for text in scenario.problems),
        ("run", f"{report.seconds:.0f} s"),
    ]
