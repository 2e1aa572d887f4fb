"""Output for people: tables or JSON on stdout, progress on stderr."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from pydantic_core import to_jsonable_python
from rich.console import Console, RenderableType
from rich.markup import escape
from rich.status import Status
from rich.table import Table

PIPED_WIDTH = 200
"""Columns of a table that goes to a file or another program, where nothing limits the width."""


LONGEST = 90
"""Characters of a detail or an error in a table; all of it is in the JSON."""


def print_json(content: Any) -> None:
    """Print models, or plain data, as JSON."""
    print(json.dumps(to_jsonable_python(content), indent=2, ensure_ascii=False))


def print_json_line(content: Any) -> None:
    """Print JSON on one line, at once: for streams of lines."""
    print(json.dumps(to_jsonable_python(content), ensure_ascii=False), flush=True)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, nothing: str) -> None:
    """Print rows under column titles, or the sentence `nothing` when there are none."""
    table = table_of(columns, rows)
    if table.row_count:
        print_rich(table)
    else:
        print(nothing)


def table_of(columns: Sequence[str], rows: Iterable[Sequence[object]] = (), **options: Any) -> Table:
    """Return rows under column titles, with a dash for None. `options` are those of rich's tables."""
    table = Table(*columns, box=None, pad_edge=False, header_style="bold", **options)
    for row in rows:
        table.add_row(*(escape("–" if value is None else str(value)) for value in row))
    return table


def print_rich(content: RenderableType) -> None:
    """Print anything that rich can render, such as a table."""
    _console(sys.stdout).print(content)


def say(text: str) -> None:
    """Print a message for people on stderr; programs read stdout."""
    print(text, file=sys.stderr)


@contextmanager
def working(text: str) -> Iterator[Status]:
    """Show a spinner on stderr while something takes long; its `update` changes the text.

    If stderr is no terminal, nothing is shown.
    """
    with _console(sys.stderr).status(escape(text)) as status:
        yield status


@contextmanager
def progress(begun: float) -> Iterator[Callable[[str], None]]:
    """Show a message in the spinner's line, and on a line of its own with the seconds since `begun`.

    `begun` is a time of the monotonic clock."""
    with working("") as status:

        def tell(text: str) -> None:
            status.update(text)
            say(f"{time.monotonic() - begun:6.1f} s  {text}")

        yield tell


def shortened(text: str) -> str:
    """Return as much of a text as fits a table, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"


def clock(at: datetime | None) -> str | None:
    """Return a time for people: local, to the millisecond."""
    return None if at is None else at.astimezone().isoformat(sep=" ", timespec="milliseconds")


def _console(stream: Any) -> Console:
    return Console(file=stream, width=None if stream.isatty() else PIPED_WIDTH, highlight=False)
