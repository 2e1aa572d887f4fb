"""The matrix for people: a row a step, a column a fault, a mark for each cell that was run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from rich.table import Table
from rich.text import Text

from towpath.lab.drill.matrix import STRATEGIES, FaultName
from towpath.lab.drill.report import CellReport, DrillReport

CLEAN, NOT_CLEAN = "●", "✗"


def matrix_table(report: DrillReport) -> Table:
    """Strategies and steps against faults; one mark for each actor that was hit."""
    table = Table(box=None, pad_edge=False, header_style="bold", caption=_caption(report))
    table.add_column("strategy")
    table.add_column("step")
    for fault in FaultName:
        table.add_column(str(fault))
    cells: defaultdict[tuple[str, str, str], list[CellReport]] = defaultdict(list)
    for cell in report.cells:
        cells[cell.strategy, cell.step, cell.fault].append(cell)
    for name, strategy in STRATEGIES.items():
        for step in strategy.steps:
            row = [cells.get((name, step.name, fault), []) for fault in FaultName]
            if any(row):
                table.add_row(name, step.name, *(_marks(entry) for entry in row))
    return table


def _marks(cells: Iterable[CellReport]) -> Text:
    marks = Text()
    for cell in cells:
        marks.append(CLEAN if cell.clean else NOT_CLEAN, "green" if cell.clean else "bold red")
    return marks


def _caption(report: DrillReport) -> Text:
    bad = sum(not cell.clean for cell in report.cells)
    run = f"{len(report.cells)} of {report.planned} cells in {report.seconds:.0f} s"
    if report.clean:
        return Text(f"{run}, all clean", "green")
    return Text(f"{run}, {bad} not clean", "bold red")


def cell_line(report: CellReport) -> str:
    """A cell on one line."""
    total = "–" if report.total_s is None else f"{report.total_s:.1f} s"
    recovery = "–" if report.recovery_s is None else f"{report.recovery_s:.1f} s"
    counts = f"{report.lost}/{report.duplicated}/{report.wrong}/{report.out_of_order}"
    verdict = CLEAN if report.clean else f"{NOT_CLEAN} {'; '.join(report.reasons)}"
    return (
        f"{report.cell.name}: {report.state or 'unknown'} in {total}, recovery {recovery}, "
        f"lost/duplicated/wrong/disordered {counts}  {verdict}"
    )
