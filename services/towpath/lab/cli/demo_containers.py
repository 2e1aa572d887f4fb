"""`towpath demo-containers`: the main job on a mesh of containers, one of which is killed."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.output import progress
from towpath.cli.settings import AsJson
from towpath.lab.cli.showing import Fact, facts_table, finish, write_report

if TYPE_CHECKING:
    from towpath.lab.demonstration.containers import ContainersReport


def demo_containers(
    topology: Annotated[
        str, typer.Argument(help="The sites: jfk, cloud, and another airport.")
    ] = "infra/docker/topology.yaml",
    events: Annotated[int, typer.Option(min=100, max=34_000, help="Departures of each airport.")] = 9000,
    rate: Annotated[float, typer.Option(min=1, help="Events per second at each airport.")] = 150.0,
    tag: Annotated[str, typer.Option(help="Of the images.")] = "local",
    output: Annotated[Path, typer.Option(help="Where the report goes.")] = Path("demo/containers"),
    keep: Annotated[bool, typer.Option("--keep", help="Leave the containers running afterwards.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run a mesh as containers, move its main job between them by `handover`, and check every result. Then a
    job leaves a container that is killed right afterwards: nothing may be missing.

    Exit code 1 if anything is lost, duplicated or wrong. The images must be there (`make docker-images`).

    Example: `towpath demo-containers --events 9000 --rate 150`
    """
    # Here, because pandas would make every other command a second slower.
    from towpath.lab.demonstration.containers import ContainersDemonstration

    with progress(time.monotonic()) as tell:
        demonstration = ContainersDemonstration(output, topology, tell, events, rate, tag, keep)
        report = asyncio.run(demonstration.run())
    write_report(output / "report.json", report)
    tables = [facts_table(_facts(report))]
    finish(report, tables, f"report.json and journals to {output}", as_json=as_json, clean=report.clean)


def _facts(report: ContainersReport) -> list[Fact]:
    main, left = report.main, report.evacuation
    moves = [*main.migrations, *([left.move] if left.move else [])]
    lost = "not killed" if left.lost_after_s is None else f"{left.lost_after_s:.1f} s after the migration"
    return [
        ("containers up and healthy", f"{report.up_s:.0f} s"),
        ("events", f"{main.events:,} at {main.events_per_s:,.0f}/s"),
        ("results", f"{main.results:,} of {main.expected_results:,} expected"),
        ("of them", main.in_three),
        *((move.way, move.costs) for move in moves),
        (f"{left.move.source} killed" if left.move else "the site to be killed", lost),
        ("results of the job that left", f"{left.results:,} of {left.expected_results:,} expected"),
        ("of them after the kill", f"{left.results_afterwards:,}"),
        ("of them", left.in_three),
        ("taken away", f"{report.down_s:.0f} s"),
        ("run", f"{report.seconds:.0f} s"),
        *main.example_rows(),
        *left.example_rows(),
        *(("not as expected", problem) for problem in (*main.problems, *left.problems)),
    ]
