"""`towpath drill`: faults against operations, each on real processes, each judged by its results."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.output import print_rich, say
from towpath.contracts.autopilot import AutopilotMode
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.site import Durability
from towpath.lab.cli.showing import play_all, write_report
from towpath.lab.drill.matrix import OUTAGE_S, RECOVERED_WITHIN_S, Cell, Conditions, named, sample, select

if TYPE_CHECKING:
    from towpath.lab.scenarios.campaign_report import CampaignReport

Names = list[str] | None


def drill(
    operation: Annotated[
        Names,
        typer.Option(
            "--operation", "--strategy", help="Only this strategy or other operation; may be repeated."
        ),
    ] = None,
    step: Annotated[Names, typer.Option(help="Only this step.")] = None,
    fault: Annotated[Names, typer.Option(help="Only this fault.")] = None,
    actor: Annotated[Names, typer.Option(help="Only faults that hit this actor.")] = None,
    paired: Annotated[
        bool | None,
        typer.Option("--pairs/--singles", help="Only pairs of faults, or only single ones. Default: both."),
    ] = None,
    cell: Annotated[
        Names, typer.Option(metavar="NAME", help="This cell, as --list names it; may be repeated.")
    ] = None,
    count: Annotated[
        int | None, typer.Option("--sample", min=1, help="Only so many of the cells, spread evenly.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Which sample.")] = 0,
    recovered_within_s: Annotated[
        float,
        typer.Option("--recovered-within", min=1, metavar="S", help="Results must flow again so soon."),
    ] = RECOVERED_WITHIN_S,
    outage_s: Annotated[
        float,
        typer.Option(
            "--outage", min=1, max=600, metavar="S", help="A pause, cut or full disk lasts so long."
        ),
    ] = OUTAGE_S,
    durability: Annotated[Durability, typer.Option(help="Of all sites.")] = Durability.FAST,
    autopilot: Annotated[
        AutopilotMode, typer.Option(help="With act it may move jobs meanwhile, too.")
    ] = AutopilotMode.OFF,
    encrypted: Annotated[
        bool, typer.Option("--encrypted", help="In a mesh that encrypts, as one that spans machines.")
    ] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the report to this file.")] = None,
    output: Annotated[
        Path, typer.Option(help="Where the mesh, its logs, and scenario and journal of each cell go.")
    ] = Path("drill"),
    goes_on: Annotated[
        bool, typer.Option("--continue", help="Only cells that the report --json does not have yet.")
    ] = False,
    only_list: Annotated[bool, typer.Option("--list", help="Only list the cells.")] = False,
) -> None:
    """Let every step of every operation on a job meet every fault, and check each time that all is well.

    A cell starts an operation under load, does the harm when its step begins, and demands: one owner,
    nothing lost, duplicated, wrong or out of order, and results again soon after the harm is over. Exit
    code 1 if a cell is not clean. All cells take hours: choose some, or draw a sample.

    A drill that was stopped goes on with `--continue`. The cell under way begins again.

    Example: `towpath drill --sample 20 --seed 7`
    """
    chosen = (operation or (), step or (), fault or (), actor or ())
    cells = named(cell) if cell else select(*chosen, paired=paired)
    if count is not None:
        cells = sample(cells, count, seed)
    if only_list:
        return _list(cells)
    # Here, because pandas would make every other command a second slower.
    from towpath.lab.drill.continuing import begun
    from towpath.lab.drill.table import matrix_table
    from towpath.lab.scenarios.campaign_report import CampaignReport

    conditions = Conditions(recovered_within_s, outage_s, durability, autopilot, encrypted)
    before = _earlier(json_file, conditions) if goes_on else CampaignReport()
    report = begun(cells, seed, conditions, before)
    report = asyncio.run(_run(cells, conditions, report, before, output, json_file))
    print_rich(matrix_table(report))
    if not report.passed:
        raise typer.Exit(1)


def _list(cells: list[Cell]) -> None:
    for cell in cells:
        print(cell.name)
    say(f"{len(cells)} cells")


def _earlier(json_file: Path | None, conditions: Conditions) -> CampaignReport:
    """Return the report so far. Raises `TowpathError`."""
    from towpath.lab.drill.continuing import earlier

    if json_file is None:
        raise TowpathError(
            ErrorCode.INVALID, "no report to go on with", field="continue", allowed="with --json FILE"
        )
    return earlier(json_file, conditions)


async def _run(
    cells: list[Cell],
    conditions: Conditions,
    report: CampaignReport,
    before: CampaignReport,
    output: Path,
    json_file: Path | None,
) -> CampaignReport:
    """Play the cells that the report does not have. What was played `before` stays in the file."""
    from towpath.lab.drill.continuing import joined, left
    from towpath.lab.drill.table import cell_line
    from towpath.lab.scenarios.campaign import Campaign, PlannedRun

    def write(report: CampaignReport) -> None:
        if json_file is not None:
            write_report(json_file, joined(report, before))

    written = _written(left(cells, report), conditions, output / "cells")
    planned = [PlannedRun(str(path), 0) for path in written]
    if not planned:
        return report
    return await play_all(Campaign(planned, output), report, line=cell_line, write=write)


def _written(cells: list[Cell], conditions: Conditions, directory: Path) -> Iterator[Path]:
    """Write the scenario of each cell to a file, so that it can be repeated alone."""
    from towpath.lab.drill.cell_scenario import scenario_of
    from towpath.lab.scenarios.reading import to_yaml

    directory.mkdir(parents=True, exist_ok=True)
    for cell in cells:
        path = directory / f"{cell.scenario}.yaml"
        path.write_text(to_yaml(scenario_of(cell, conditions)), encoding="utf-8")
        yield path
