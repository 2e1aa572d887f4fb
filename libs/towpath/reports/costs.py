"""Costs of operations as people read them: expected and measured."""

from __future__ import annotations

from towpath.contracts.commands import MigrationForecast, OperationView
from towpath.protocols.table import strategies


def headline(view: OperationView) -> str:
    """Return one line: the operation, its job, its state, and who asked for it."""
    by = f", asked for by {view.asked_by}" if view.asked_by else ""
    return f"{view.kind} {view.job}{route(view)}: {view.state.replace('_', ' ')}{by}"


def route(view: OperationView) -> str:
    """Return ` from jfk to cloud` for an operation that moves a job. Empty for any other."""
    return f" from {view.source} to {view.target}" if view.source and view.target else ""


def choice_line(forecast: MigrationForecast) -> str:
    """Return one line: how a job moves, and why this way."""
    return f"{forecast.strategy}: {forecast.reason}"


def cost_rows(view: OperationView) -> list[tuple[str, str | None, str | None]]:
    """Return what a migration costs, as rows of name, expected, measured."""
    forecast, figures = view.forecast, view.figures
    if forecast is None and figures is None:
        return []
    # Nothing stands still where source and target run at once.
    no_downtime = view.strategy is not None and strategies()[view.strategy].interim_epoch
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
    """Return a duration as people read it."""
    return None if duration_s is None else f"{duration_s:.2f} s"


def downtime(duration_s: float | None) -> str:
    """Return a downtime as people read it. It is unknown if no input came meanwhile."""
    return "no input came meanwhile" if duration_s is None else f"{duration_s:.2f} s"


def amount(size_bytes: int) -> str:
    """Return a size as people read it."""
    return f"{size_bytes:,} bytes"
