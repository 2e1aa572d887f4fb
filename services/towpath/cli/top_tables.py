"""The tables of `towpath top`. They leave out columns where the terminal is narrow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.filesize import decimal
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from towpath.cli.top_figures import JobRow, LinkRow, MeshView, OperationRow, SiteRow

GAP = 2
"""Characters between columns."""

STYLES = {
    "up": "green",
    "running": "green",
    "down": "bold red",
    "failed": "bold red",
    "fenced": "yellow",
    "starting": "yellow",
    "retrying": "yellow",
    "held": "yellow",
    "rolling back": "yellow",
}
"""Colours of states."""


@dataclass(frozen=True)
class Column:
    """One column."""

    title: str
    leaves: int = 0
    """The higher, the earlier it is left out for lack of room; 0: never."""
    number: bool = False


SITE_COLUMNS = (
    Column("site"),
    Column("state"),
    Column("cores", 1, number=True),
    Column("memory", 2, number=True),
    Column("machine's cores", 4, number=True),
    Column("memory left", 3, number=True),
    Column("error", 5),
)
JOB_COLUMNS = (
    Column("job"),
    Column("site"),
    Column("state", 1),
    Column("events/s", number=True),
    Column("results/s", 2, number=True),
    Column("p95 latency", 3, number=True),
    Column("backlog", 1, number=True),
    Column("state size", 5, number=True),
    Column("checkpoint", 6, number=True),
    Column("error", 7),
)
OPERATION_COLUMNS = (
    Column("job"),
    Column("what", 1),
    Column("from → to", 2),
    Column("step"),
    Column("for", 3, number=True),
    Column("id", 4),
)
LINK_COLUMNS = (
    Column("link"),
    Column("round trip", number=True),
    Column("bandwidth", 1, number=True),
)


class Screen:
    """Return a view of the mesh, as wide as there is room."""

    def __init__(self, view: MeshView) -> None:
        self._view = view

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        view, width = self._view, options.max_width
        yield Group(
            _headline(view),
            _titled("Sites", SITE_COLUMNS, [_site(row) for row in view.sites], width),
            _titled("Jobs", JOB_COLUMNS, [_job(row) for row in view.jobs], width),
            _titled("Under way", OPERATION_COLUMNS, [_operation(row) for row in view.operations], width),
            _titled("Links", LINK_COLUMNS, [_link(row) for row in view.links], width),
            *(Text(note, style="yellow") for note in view.notes),
        )


def fitting(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> list[int]:
    """Return the places of the columns that there is room for. A column without content has none."""
    widths = [
        max(cell_len(column.title), *(cell_len(row[place]) for row in rows))
        for place, column in enumerate(columns)
    ]
    shown = [place for place in range(len(columns)) if any(row[place] not in ("", "–") for row in rows)]
    by_leaving = sorted(shown, key=lambda place: -columns[place].leaves)
    for place in by_leaving:
        if columns[place].leaves == 0 or sum(widths[one] + GAP for one in shown) - GAP <= width:
            break
        shown.remove(place)
    return shown


def _titled(
    title: str, columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int
) -> RenderableType:
    if not rows:
        return Text(f"\n{title}: none", style="dim")
    table = Table(
        title=f"\n{title}",
        title_justify="left",
        title_style="bold",
        box=None,
        pad_edge=False,
        padding=(0, GAP, 0, 0),
        header_style="dim",
    )
    shown = fitting(columns, rows, width)
    for place in shown:
        column = columns[place]
        justify = "right" if column.number else "left"
        table.add_column(column.title, justify=justify, no_wrap=True, overflow="ellipsis")
    for row in rows:
        table.add_row(*(Text(row[place], style=STYLES.get(row[place], "")) for place in shown))
    return table


def _headline(view: MeshView) -> RenderableType:
    text = f"towpath top  {view.at.astimezone():%H:%M:%S}  {len(view.sites)} sites, {len(view.jobs)} jobs"
    return Text.from_markup(f"[bold]{escape(text)}[/bold], figures from the {view.figures}")


def _site(row: SiteRow) -> list[str]:
    machine, left = _number(row.machine_cores, 2), _size(row.memory_available_bytes)
    return [
        row.site,
        str(row.state),
        _number(row.cores, 2),
        _size(row.memory_bytes),
        machine,
        left,
        row.error or "",
    ]


def _job(row: JobRow) -> list[str]:
    return [
        row.job,
        row.site,
        str(row.state or "unknown"),
        _number(row.events_per_s),
        _number(row.results_per_s),
        _seconds(row.latency_p95_s),
        _number(row.backlog),
        _size(row.state_bytes),
        _size(row.checkpoint_bytes),
        row.error or "",
    ]


def _operation(row: OperationRow) -> list[str]:
    way = f"{row.source} → {row.target}" if row.source and row.target else ""
    what = " ".join(filter(None, (str(row.kind), row.strategy and f"by {row.strategy}")))
    undoing = "" if row.state == "running" else f" ({row.state.replace('_', ' ')})"
    return [row.job, what, way, (row.step or "accepted") + undoing, f"{row.since_s:.0f} s", row.operation]


def _link(row: LinkRow) -> list[str]:
    bandwidth = "–" if row.bandwidth_bytes_per_s is None else f"{_size(row.bandwidth_bytes_per_s)}/s"
    trip = "–" if row.round_trip_s is None else f"{1000 * row.round_trip_s:,.1f} ms"
    return [f"{row.source} → {row.target}", trip, bandwidth]


def _number(value: float | None, digits: int = 0) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f} s"


def _size(value: float | None) -> str:
    return "–" if value is None else decimal(int(value))
