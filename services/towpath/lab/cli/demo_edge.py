"""`towpath demo-edge`: a train finds a flat wheel on board, and has a link at stations only."""

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
    from towpath.lab.demonstration.edge.report import EdgeReport
    from towpath.lab.demonstration.edge.run import EdgeOutcome
    from towpath.lab.workload.journey import Journey


def demo_edge(
    seed: Annotated[int, typer.Option(min=0, help="Another one gives the wheels other vibrations.")] = 7,
    output: Annotated[Path, typer.Option(help="Where report and picture go.")] = Path("demo"),
    keep: Annotated[bool, typer.Option("--keep", help="Leave the mesh running afterwards.")] = False,
    as_json: AsJson = False,
) -> None:
    """Let a train find a flat wheel on board without a link, and deliver at stations; check every event.

    Seven accelerometers, with real accelerations, travel over five stations. At long stops a job with state
    changes sides; at a short one it is refused, and runs on. Exit code 1 if anything is lost, duplicated or
    wrong, or the flat wheel is not found.

    Example: `towpath demo-edge --seed 7`
    """
    # Here, because pandas and matplotlib would make every other command a second slower.
    from towpath.lab.workload.journey import Journey

    begun = time.monotonic()
    outcome = asyncio.run(_run(output, Journey(seed=seed), keep))
    report = outcome.report.model_copy(update={"seconds": round(time.monotonic() - begun, 1)})
    _write(output, replace(outcome, report=report))
    written = f"edge.html, edge.json and edge.png to {output}"
    finish(
        report, [_contacts(report), facts_table(_facts(report))], written, as_json=as_json, clean=report.clean
    )


async def _run(output: Path, journey: Journey, keep: bool) -> EdgeOutcome:
    from towpath.lab.demonstration.edge.jobs import SITES
    from towpath.lab.demonstration.edge.run import EdgeDemonstration
    from towpath.lab.harness.stage import ENGINE

    spec = MeshSpec(sites=[SiteSpec(name=name, engine=ENGINE) for name in SITES], emulate_links=True)
    async with told_stage(Home((output / "edge-mesh").absolute()), spec, keep=keep) as (stage, tell):
        return await EdgeDemonstration(stage, journey, tell).run()


def _write(output: Path, outcome: EdgeOutcome) -> None:
    from towpath.lab.demonstration.edge.picture import draw
    from towpath.lab.demonstration.edge.report_page import edge_page
    from towpath.reports.page import write_page

    write_report(output / "edge.json", outcome.report)
    draw(output / "edge.png", outcome)
    write_page(output / "edge.html", edge_page(outcome))


def _contacts(report: EdgeReport) -> Table:
    columns = ("station", "stop", "events delivered", "first after", "caught up after", "ride")
    table = table_of(columns)
    for contact in report.contacts:
        table.add_row(
            contact.station,
            f"{contact.departs_s - contact.arrives_s:g} s",
            f"{contact.delivered:,}",
            _seconds(contact.first_after_s),
            _seconds(contact.caught_up_after_s),
            contact.asked.outcome(report.migrations) if contact.asked else "–",
        )
    return table


def _facts(report: EdgeReport) -> Iterator[Fact]:
    detection = report.detection
    yield "reports", f"{report.reports:,} at {report.reports_per_s:,.0f}/s"
    yield (
        "flat wheel",
        f"{detection.wheel}, found {_seconds(detection.latency_s)} after the first impact "
        f"({detection.impacts} impacts), known at the trackside after {_seconds(detection.known_after_s)}",
    )
    yield "alarms", ", ".join(f"{wheel}: {count:,}" for wheel, count in report.alarms.items())
    for contact in report.contacts:
        if contact.asked is not None and contact.asked.refusal is not None:
            yield f"at {contact.station}", contact.asked.refusal
    yield from ((move.way, f"{move.costs}, {move.state}") for move in report.migrations)
    for job, judgement in report.judgements.items():
        yield job, f"{judgement.results:,} of {judgement.expected:,} expected, {judgement.in_three}"
    yield from report.judged.example_rows()
    yield from (("not as expected", problem) for problem in report.problems)
    yield "run", f"{report.seconds:.0f} s"


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f} s"
