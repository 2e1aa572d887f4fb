"""How operations look on a terminal: what was chosen and why, what it cost, and its journal step by step."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime

from towpath.cli.output import clock, print_table
from towpath.contracts.commands import (
    JournalEntry,
    MigrationForecast,
    OperationKind,
    OperationView,
    StrategyName,
)
from towpath.protocols.course import Phase
from towpath.protocols.deploy import DEPLOY
from towpath.protocols.remove import REMOVE_AND_PURGE
from towpath.protocols.step import Strategy
from towpath.protocols.strategies import MIGRATIONS
from towpath.protocols.update import UPDATE

COLUMNS = ("step", "actor", "phase", "when", "took", "detail")

BEGINNINGS = frozenset({Phase.BEGUN, Phase.COMPENSATING})
"""Phases that another line of the journal ends."""

DETAIL_WIDTH = 90
"""Characters of a step's detail in a table; all of it is in the JSON."""

RUN_AT_ONCE = frozenset({StrategyName.PARALLEL, StrategyName.HANDOVER})
"""Strategies without downtime, because source and target run at once."""


def print_operation(view: OperationView) -> None:
    """Print an operation with its journal."""
    print(headline(view))
    if view.note:
        print(view.note)
    print_costs(view)
    print_table(COLUMNS, journal_rows(view), nothing="its journal is empty")


def headline(view: OperationView) -> str:
    """What is done to which job, and how it goes."""
    route = f" from {view.source} to {view.target}" if view.source and view.target else ""
    return f"{view.kind} {view.job}{route}: {view.state.replace('_', ' ')}"


def choice_line(forecast: MigrationForecast) -> str:
    """How a job moves, and why so."""
    return f"{forecast.strategy}: {forecast.reason}"


def print_costs(view: OperationView) -> None:
    """Print how a migration is done and what it costs: expected, and measured."""
    if view.forecast is not None:
        print(choice_line(view.forecast))
    rows = cost_rows(view)
    if rows:
        print_table(("", "expected", "measured"), rows, nothing="")
    if view.forecast is not None:
        print(f"expected by: {view.forecast.basis}")


def cost_rows(view: OperationView) -> list[tuple[str, str | None, str | None]]:
    """What a migration costs: name, expected, measured."""
    forecast, figures = view.forecast, view.figures
    if forecast is None and figures is None:
        return []
    no_downtime = view.strategy in RUN_AT_ONCE
    rows: list[tuple[str, str | None, str | None]] = [
        ("total", seconds(forecast and forecast.total_s), seconds(figures and figures.total_s)),
        (
            "downtime",
            "none" if no_downtime and forecast else None,
            downtime(figures.downtime_s) if figures else None,
        ),
        (
            "state",
            amount(forecast.state_bytes) if forecast else None,
            amount(figures.state_bytes) if figures else None,
        ),
    ]
    if figures is not None and figures.round_bytes:
        rows.append(("by rounds", None, " + ".join(f"{size:,}" for size in figures.round_bytes)))
    if figures is not None and figures.compared is not None:
        rows.append(("results compared", None, f"{figures.compared:,}, all equal"))
    if figures is not None and figures.offset is not None:
        rows.append(("source ahead by", None, f"{figures.offset:,} events"))
    return rows


def seconds(duration_s: float | None) -> str | None:
    """A duration as people read it."""
    return None if duration_s is None else f"{duration_s:.2f} s"


def downtime(duration_s: float | None) -> str:
    """A downtime; it is unknown if nothing came in meanwhile."""
    return "no input came meanwhile" if duration_s is None else f"{duration_s:.2f} s"


def amount(size_bytes: int) -> str:
    """A size as people read it."""
    return f"{size_bytes:,} bytes"


def journal_rows(view: OperationView) -> list[tuple[object, ...]]:
    """The journal, one row for each time a step was taken or undone."""
    table = _table(view)
    rows: list[tuple[object, ...]] = []
    for first, last in _pairs(view.journal):
        took_s = None if last is None else (last.at - first.at).total_seconds()
        end = last or first
        rows.append(
            (
                first.step,
                _actor(table, first.step),
                end.phase,
                _when(first.at, view.begun_at),
                None if took_s is None else f"{took_s:.3f} s",
                short(end.detail),
            )
        )
    return rows


def _pairs(journal: Sequence[JournalEntry]) -> list[tuple[JournalEntry, JournalEntry | None]]:
    """Each beginning with what ended it: None while it is under way. A repeated beginning counts once."""
    pairs: list[tuple[JournalEntry, JournalEntry | None]] = []
    for entry in journal:
        open_for = pairs[-1][0] if pairs and pairs[-1][1] is None else None
        if open_for is None or open_for.step != entry.step:
            pairs.append((entry, None if entry.phase in BEGINNINGS else entry))
        elif entry.phase not in BEGINNINGS:
            pairs[-1] = (open_for, entry)
    return pairs


def _table(view: OperationView) -> Strategy:
    match view.kind:
        case OperationKind.DEPLOY:
            return DEPLOY
        case OperationKind.UPDATE:
            return UPDATE
        case OperationKind.REMOVE:
            return REMOVE_AND_PURGE
        case OperationKind.MIGRATE:
            return MIGRATIONS[view.strategy or StrategyName.GENERAL]


def _actor(table: Strategy, step: str) -> str | None:
    """Who took it; unknown for a step of a table of earlier days."""
    return next((row.actor.value for row in table.steps if row.name == step), None)


def _when(at: datetime, begun_at: datetime) -> str:
    return f"{clock(at)} ({(at - begun_at).total_seconds():+.3f} s)"


def short(detail: dict[str, object]) -> str:
    """A journal entry's detail as far as it fits a line."""
    told = {name: value for name, value in detail.items() if value not in (None, [], {}, "")}
    if "reason" in told:
        told.pop("error", None)
    text = ", ".join(f"{key}={json.dumps(value)}" for key, value in told.items())
    return text if len(text) <= DETAIL_WIDTH else text[: DETAIL_WIDTH - 1] + "…"
