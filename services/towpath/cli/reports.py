"""`towpath report`: one HTML file on a migration, a scenario's run or a pipeline."""

from __future__ import annotations

import asyncio
import re
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from towpath.bus import Bus
from towpath.cli.connection import open_bus
from towpath.cli.extensions import run_pages
from towpath.cli.output import say, working
from towpath.cli.settings import home_of
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import is_name
from towpath.mesh.home import Home

IDENTIFIER = r"[A-Za-z0-9-]{1,64}"
"""Names that operations and pipelines can have: nothing else need be asked for."""

ALLOWED = (
    "a migration's id (`towpath migrations`), a pipeline's name (`towpath pipeline list`), or a directory "
    "that `towpath scenario run` wrote"
)


def report(
    context: typer.Context,
    about: Annotated[
        str,
        typer.Argument(
            metavar="MIGRATION|SCENARIO|PIPELINE",
            help="A migration's id, the directory of a scenario's run, or a pipeline's name.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(help="File to write.", show_default="report-NAME.html, or report.html in the directory"),
    ] = None,
    open_it: Annotated[bool, typer.Option("--open", help="Show it in the browser.")] = False,
) -> None:
    """Write a report for people: one HTML file with pictures that needs nothing else.

    A migration: steps, journal, forecast, trace, and the job's figures around it. A run of a scenario:
    injections with their times, probes, the checker's verdict. A pipeline: jobs, versions, and the last hour.

    Example: `towpath report 5f0c9a7be210 --open`
    """
    # Here, because matplotlib would make every other command a second slower.
    from towpath.reports.page import write_page

    with working(f"writing a report on {about}"):
        if (run := _run_page(about)) is not None:
            text, path = run[1], output or run[0] / "report.html"
        else:
            text = asyncio.run(_from_mesh(home_of(context), about))
            path = output or Path(f"report-{about}.html")
        write_page(path, text)
    say(f"wrote {path}")
    if open_it and not webbrowser.open(path.absolute().as_uri()):
        say("no browser could be started")


def _run_page(about: str) -> tuple[Path, str] | None:
    pages = (page(about) for page in run_pages())
    return next((page for page in pages if page is not None), None)


async def _from_mesh(home: Home, about: str) -> str:
    """Return the page on a migration or a pipeline. Raises `TowpathError` (invalid) if it is neither."""
    unknown = TowpathError(
        ErrorCode.INVALID, "there is nothing of this name", field="about", value=about, allowed=ALLOWED
    )
    if re.fullmatch(IDENTIFIER, about) is None:
        raise unknown
    async with open_bus(home) as bus:
        text = await _operation(bus, about)
        if text is None and is_name(about):
            text = await _pipeline(bus, about)
    if text is None:
        raise unknown
    return text


async def _operation(bus: Bus, about: str) -> str | None:
    from towpath.reports.asking import migration_facts
    from towpath.reports.migration import migration_page

    try:
        facts = await migration_facts(bus, about)
    except TowpathError as error:
        if error.detail.code is ErrorCode.UNKNOWN_MIGRATION:
            return None
        raise
    return await asyncio.to_thread(migration_page, facts)


async def _pipeline(bus: Bus, about: str) -> str | None:
    from towpath.reports.asking import pipeline_facts
    from towpath.reports.pipeline import pipeline_page

    try:
        facts = await pipeline_facts(bus, about)
    except TowpathError as error:
        if error.detail.code is ErrorCode.UNKNOWN_PIPELINE:
            return None
        raise
    return await asyncio.to_thread(pipeline_page, facts)
