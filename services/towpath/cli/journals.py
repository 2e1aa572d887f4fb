"""Print operations on a terminal: strategy and reason, costs, and the journal step by step."""

from __future__ import annotations

from datetime import datetime

from towpath.cli.output import clock, print_table, shortened
from towpath.contracts.commands import OperationView
from towpath.reports.costs import choice_line, cost_rows, headline
from towpath.reports.steps import taken_steps, told

COLUMNS = ("step", "actor", "phase", "when", "took", "detail")


def print_operation(view: OperationView) -> None:
    """Print an operation with its journal."""
    print(headline(view))
    if view.note:
        print(view.note)
    print_costs(view)
    print_table(COLUMNS, journal_rows(view), nothing="its journal is empty")


def print_costs(view: OperationView) -> None:
    """Print the strategy of a migration and its costs: expected, and measured."""
    if view.forecast is not None:
        print(choice_line(view.forecast))
    rows = cost_rows(view)
    if rows:
        print_table(("", "expected", "measured"), rows, nothing="")
    if view.forecast is not None:
        print(f"expected by: {view.forecast.basis}")


def journal_rows(view: OperationView) -> list[tuple[object, ...]]:
    """Return the journal, one row for each time a step was taken or undone."""
    return [
        (
            taken.name,
            taken.actor,
            taken.phase,
            _when(taken.begun_at, view.begun_at),
            None if taken.took_s is None else f"{taken.took_s:.3f} s",
            shortened(told(taken.detail)),
        )
        for taken in taken_steps(view)
    ]


def _when(at: datetime, begun_at: datetime) -> str:
    return f"{clock(at)} ({(at - begun_at).total_seconds():+.3f} s)"
