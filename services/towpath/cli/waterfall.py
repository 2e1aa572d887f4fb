"""Show a trace on a terminal: one line for each span, below its parent, with a bar on the time axis."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from towpath.cli.output import shortened, table_of
from towpath.contracts.traces import Span
from towpath.telemetry.trace_tree import in_tree, is_unfinished

BAR_WIDTH = 48
"""Characters of the time axis."""

COLOURS = ("cyan", "green", "magenta", "yellow", "blue", "bright_cyan", "bright_magenta", "bright_green")


def waterfall(spans: Sequence[Span]) -> Table:
    """Return the spans as a table. Failed ones are red. There is at least one."""
    begin = min(span.begun_ns for span in spans)
    length = max(max(span.ended_ns for span in spans) - begin, 1)
    services = sorted({span.service for span in spans})
    table = table_of(("span", "service", "at", "took", ""))
    table.columns[2].justify = table.columns[3].justify = "right"
    for depth, span in in_tree(spans):
        failed = span.error is not None
        colour = "red" if failed else COLOURS[services.index(span.service) % len(COLOURS)]
        table.add_row(
            Text("  " * depth + span.name, style="red" if failed else "", no_wrap=True),
            Text(f"{span.service}@{span.site}", style=colour, no_wrap=True),
            _milliseconds(span.begun_ns - begin),
            _took(span),
            Text(bar(span, begin, length), style=colour, no_wrap=True),
        )
        if span.error is not None:
            table.add_row(Text("  " * (depth + 1) + shortened(span.error), style="red", no_wrap=True))
    return table


def bar(span: Span, begin: int, length: int) -> str:
    """Return the span's bar on an axis from `begin`, `length` nanoseconds long: at least one character."""
    first = min(round((span.begun_ns - begin) / length * BAR_WIDTH), BAR_WIDTH - 1)
    last = round((span.ended_ns - begin) / length * BAR_WIDTH)
    end = "▸" if is_unfinished(span) else ""
    return " " * first + "█" * max(last - first, 1) + end


def _took(span: Span) -> str:
    return f"{_milliseconds(span.ended_ns - span.begun_ns)}{'+' if is_unfinished(span) else ''}"


def _milliseconds(nanoseconds: int) -> str:
    return f"{nanoseconds / 1e6:,.1f} ms"
