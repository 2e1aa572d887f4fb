"""The table of a drill: one row per step, one column per fault, one mark for each cell.

A pair of faults is in the column of the first one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from rich.table import Table
from rich.text import Text

from towpath.lab.drill.matrix import STEPS, FaultName, matrix, pairs
from towpath.lab.scenarios.campaign_report import CampaignReport
from towpath.lab.scenarios.report import RunReport

CLEAN, NOT_CLEAN = "●", "✗"

CELLS = {cell.scenario: cell for cell in (*matrix(), *pairs())}
"""The cells by the names of their scenarios."""


def matrix_table(report: CampaignReport) -> Table:
    """Return the table of a drill."""
    table = Table(box=None, pad_edge=False, header_style="bold", caption=_caption(report))
    table.add_column("operation")
    table.add_column("step")
    for fault in FaultName:
        table.add_column(str(fault))
    played: defaultdict[tuple[str, str, str], list[RunReport]] = defaultdict(list)
    for run in report.runs:
        cell = CELLS[run.scenario]
        played[cell.operation, cell.step, cell.fault].append(run)
    for name, steps in STEPS.items():
        for step in steps:
            row = [played.get((name, step, fault), []) for fault in FaultName]
            if any(row):
                table.add_row(name, step, *(_marks(entry) for entry in row))
    return table


def _marks(runs: Iterable[RunReport]) -> Text:
    marks = Text()
    for run in runs:
        marks.append(CLEAN if run.passed else NOT_CLEAN, "green" if run.passed else "bold red")
    return marks


def _caption(report: CampaignReport) -> Text:
    told = f"{len(report.runs)} of {report.planned} cells in {report.seconds:.0f} s"
    if report.passed:
        return Text(f"{told}, all clean", "green")
    return Text(f"{told}, {len(report.failed)} not clean", "bold red")


def cell_line(run: RunReport) -> str:
    """Return a cell on one line."""
    move = run.migrations[0] if run.migrations else None
    total = "–" if move is None or move.total_s is None else f"{move.total_s:.1f} s"
    recovery = "–" if run.results_again_s is None else f"{run.results_again_s:.1f} s"
    wrong = run.total("wrong") + run.total("unexpected")
    counts = f"{run.total('lost')}/{run.total('duplicated')}/{wrong}/{run.total('out_of_order')}"
    verdict = CLEAN if run.passed else f"{NOT_CLEAN} {'; '.join(run.problems)}"
    ended = f"{move.state or 'unknown'} in {total}" if move else "ended"  # Of several operations.
    return (
        f"{CELLS[run.scenario].name}: {ended}, recovery {recovery}, "
        f"lost/duplicated/wrong/disordered {counts}  {verdict}"
    )
