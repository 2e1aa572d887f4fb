"""The report of a drill, cell by cell, and its table: one row per step, one column per fault."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from rich.table import Table
from rich.text import Text

from towpath.contracts.commands import OperationState, StrategyName
from towpath.lab.drill.matrix import STRATEGIES, ActorName, Cell, FaultName
from towpath.lab.harness.report import Findings, SeriesReport


class CellReport(Findings):
    """A cell that was played."""

    strategy: StrategyName
    step: str
    fault: FaultName
    actor: ActorName
    job: str = ""
    """Name of the job that moved. It begins with its operator."""
    output_site: str = ""
    """Site of its results."""
    unstored: int = 0
    """Events that a server with a full disk acknowledged and did not store. They were never in the job's
    input, so they are counted apart."""
    state: OperationState | None = None
    """End of the migration. None if it is not known."""
    note: str = ""
    """The migration's note on its end."""
    total_s: float | None = None
    """Of the migration."""
    steps_s: dict[str, float] = {}
    """Seconds of each of its steps, from the journal."""
    recovery_s: float | None = None
    """Seconds from the fault's end to a result of events that were stored after it. None if none came.
    It includes the time that every result takes: trigger interval, window and watermark."""
    seconds: float = 0.0
    """Of the whole cell."""
    reasons: list[str] = []
    """The reasons why it is not clean."""

    @property
    def clean(self) -> bool:
        """True if the migration ended well, one site owns the job, and every result came once and right."""
        return not self.reasons

    @property
    def cell(self) -> Cell:
        """Its place in the matrix."""
        return Cell(self.strategy, self.step, self.fault, self.actor)


class DrillReport(SeriesReport):
    """A whole drill."""

    cells: list[CellReport] = []

    @property
    def clean(self) -> bool:
        """True if every cell was played and is clean."""
        return len(self.cells) == self.planned > 0 and all(cell.clean for cell in self.cells)


CLEAN, NOT_CLEAN = "●", "✗"


def matrix_table(report: DrillReport) -> Table:
    """Return a table of steps against faults, with one mark for each actor that was hit."""
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
    """Return a cell on one line."""
    total = "–" if report.total_s is None else f"{report.total_s:.1f} s"
    recovery = "–" if report.recovery_s is None else f"{report.recovery_s:.1f} s"
    counts = f"{report.lost}/{report.duplicated}/{report.wrong + report.unexpected}/{report.out_of_order}"
    verdict = CLEAN if report.clean else f"{NOT_CLEAN} {'; '.join(report.reasons)}"
    return (
        f"{report.cell.name}: {report.state or 'unknown'} in {total}, recovery {recovery}, "
        f"lost/duplicated/wrong/disordered {counts}  {verdict}"
    )
