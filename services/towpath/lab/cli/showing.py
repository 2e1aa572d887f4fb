"""The parts that all demonstrations share: a stage with its progress, a report on disk, a table of facts."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.markup import escape
from rich.table import Table

from towpath.cli.output import print_json, print_rich, progress, say
from towpath.contracts.message import Model
from towpath.contracts.site import MeshSpec
from towpath.mesh.home import Home

if TYPE_CHECKING:
    from towpath.lab.harness.stage import Say, Stage

Fact = tuple[str, str]


@asynccontextmanager
async def told_stage(home: Home, spec: MeshSpec, *, keep: bool) -> AsyncIterator[tuple[Stage, Say]]:
    """A new mesh under `home`, and a function that tells people what is under way on it."""
    # Here, because pandas would make every other command a second slower.
    from towpath.lab.harness.stage import stage

    with progress(time.monotonic()) as tell:
        async with stage(home, spec, say=tell, keep=keep) as up:
            yield up, tell


def write_report(path: Path, report: Model) -> None:
    """Write a report as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(report.model_dump_json(indent=2) + "\n")


def finish(report: Model, tables: Iterable[Table], written: str, *, as_json: bool, clean: bool) -> None:
    """Show what was found, and where it was written. Ends with exit code 1 when it is not clean."""
    if as_json:
        print_json(report)
    else:
        for table in tables:
            print_rich(table)
        say(f"wrote {written}")
    if not clean:
        raise typer.Exit(1)


def facts_table(facts: Iterable[Fact]) -> Table:
    """A line for each fact: its name, and what is so."""
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, value in facts:
        table.add_row(name, escape(value))
    return table
