"""`towpath drill`: faults against migrations, each on real processes, each judged by its results."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.output import print_rich, say
from towpath.lab.cli.showing import play_all, write_report
from towpath.lab.drill.matrix import RECOVERED_WITHIN_S, Cell, sample, select
from towpath.mesh.home import Home

if TYPE_CHECKING:
    from towpath.lab.drill.report import DrillReport

Names = list[str] | None


def drill(
    strategy: Annotated[Names, typer.Option(help="Only this strategy; may be repeated.")] = None,
    step: Annotated[Names, typer.Option(help="Only this step.")] = None,
    fault: Annotated[Names, typer.Option(help="Only this fault.")] = None,
    actor: Annotated[Names, typer.Option(help="Only faults that hit this actor.")] = None,
    count: Annotated[
        int | None, typer.Option("--sample", min=1, help="Only so many of the cells, spread evenly.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Which sample.")] = 0,
    recovered_within_s: Annotated[
        float,
        typer.Option("--recovered-within", min=1, metavar="S", help="Results must flow again so soon."),
    ] = RECOVERED_WITHIN_S,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the report to this file.")] = None,
    output: Annotated[Path, typer.Option(help="Where the mesh and its logs go.")] = Path("drill"),
    only_list: Annotated[bool, typer.Option("--list", help="Only list the cells.")] = False,
) -> None:
    """Let every step of every migration strategy meet every fault, and check each time that all is well.

    A cell starts a migration under load, does the harm when its step begins, and demands: one owner,
    nothing lost, duplicated, wrong or out of order, and results again soon after the harm is over. Exit
    code 1 if a cell is not clean. All cells take hours: choose some, or draw a sample.

    Example: `towpath drill --sample 20 --seed 7`
    """
    cells = select(strategy or (), step or (), fault or (), actor or ())
    if count is not None:
        cells = sample(cells, count, seed)
    if only_list:
        return _list(cells)
    # Here, because pandas would make every other command a second slower.
    from towpath.lab.drill.report import matrix_table

    home = Home((output / "mesh").absolute())
    report = asyncio.run(_run(home, cells, recovered_within_s, json_file))
    print_rich(matrix_table(report))
    if not report.clean:
        raise typer.Exit(1)


def _list(cells: list[Cell]) -> None:
    for cell in cells:
        print(cell.name)
    say(f"{len(cells)} cells")


async def _run(
    home: Home, cells: list[Cell], recovered_within_s: float, json_file: Path | None
) -> DrillReport:
    from towpath.lab.drill.report import DrillReport, cell_line
    from towpath.lab.drill.run import Drill

    def write(report: DrillReport) -> None:
        if json_file is not None:
            write_report(json_file, report)

    drilling = Drill(home, cells, recovered_within_s=recovered_within_s)
    report = DrillReport(planned=len(cells))
    return await play_all(drilling, report, entries="cells", line=cell_line, write=write)
