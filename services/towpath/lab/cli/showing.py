"""Parts of all commands that try something: progress, a report on disk, a table of facts, numbers given."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.markup import escape
from rich.table import Table

from towpath.atomic_write import write_atomically
from towpath.cli.output import print_json, print_rich, progress, say
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import Model
from towpath.contracts.site import MeshSpec
from towpath.mesh.home import Home

if TYPE_CHECKING:
    from towpath.lab.harness.stage import Say, Stage
    from towpath.lab.scenarios.campaign import Campaign
    from towpath.lab.scenarios.campaign_report import CampaignReport
    from towpath.lab.scenarios.report import RunReport

Fact = tuple[str, str]


@asynccontextmanager
async def told_stage(home: Home, spec: MeshSpec, *, keep: bool) -> AsyncIterator[tuple[Stage, Say]]:
    """Start a mesh under `home` and yield it, with a function that shows people the progress."""
    # Here, because pandas would make every other command a second slower.
    from towpath.lab.harness.stage import stage

    with progress(time.monotonic()) as tell:
        async with stage(home, spec, say=tell, keep=keep) as up:
            yield up, tell


async def play_all(
    campaign: Campaign,
    report: CampaignReport,
    line: Callable[[RunReport], str],
    write: Callable[[CampaignReport], None],
) -> CampaignReport:
    """Play a campaign; show each run on a line, and add it to the report, which may have earlier runs.

    The report is written after each run, so that an interrupted campaign leaves one.
    """
    begun = time.monotonic()
    before_s, before_restarts = report.seconds, report.restarts
    with progress(begun) as tell:
        campaign.say = tell
        async with aclosing(campaign.run()) as done:
            async for run in done:
                runs = [*report.runs, run]
                tell(f"{len(runs):3}/{report.planned} {line(run)}")
                took = {
                    "seconds": round(before_s + time.monotonic() - begun, 1),
                    "restarts": before_restarts + campaign.restarts,
                }
                report = report.model_copy(update={"runs": runs, **took})
                await asyncio.to_thread(write, report)
    return report


def numbers(text: str, field: str, example: str) -> list[float]:
    """Return numbers that were given with commas between them. Raises `TowpathError`."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise TowpathError(
            ErrorCode.INVALID, "not numbers", field=field, value=text, allowed=f"numbers such as {example}"
        ) from None


def write_report(path: Path, report: Model) -> None:
    """Write a report as JSON. The earlier one stays until the new one is on the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, report.model_dump_json(indent=2) + "\n")


def finish(report: Model, tables: Iterable[Table], written: str, *, as_json: bool, clean: bool) -> None:
    """Show a report and where it was written. Exits with code 1 if it is not clean."""
    if as_json:
        print_json(report)
    else:
        for table in tables:
            print_rich(table)
        say(f"wrote {written}")
    if not clean:
        raise typer.Exit(1)


def facts_table(facts: Iterable[Fact]) -> Table:
    """Return a table with one line per fact."""
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, value in facts:
        table.add_row(name, escape(value))
    return table
