"""`towpath report`: one HTML file on a migration, a scenario's run or a pipeline."""

from __future__ import annotations

import asyncio
import re
import webbrowser
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from towpath.cli.connection import open_bus
from towpath.cli.extensions import run_pages
from towpath.cli.output import say, working
from towpath.cli.settings import home_of
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import is_name
from towpath.mesh.home import Home

FactsT = TypeVar("FactsT")

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
    from towpath.reports.asking import migration_facts, pipeline_facts
    from towpath.reports.migration import migration_page
    from towpath.reports.pipeline import pipeline_page

    async with open_bus(home) as bus:
        text = await _page(migration_facts(bus, about), migration_page, ErrorCode.UNKNOWN_MIGRATION)
        if text is None and is_name(about):
            text = await _page(pipeline_facts(bus, about), pipeline_page, ErrorCode.UNKNOWN_PIPELINE)
    if text is None:
        raise unknown
    return text


async def _page(asked: Awaitable[FactsT], page: Callable[[FactsT], str], unknown: ErrorCode) -> str | None:
    """Return the page on the facts asked for. None if the mesh answers `unknown`."""
    try:
        facts = await asked
    except TowpathError as error:
        if error.detail.code is unknown:
            return None
        raise
    return await asyncio.to_thread(page, facts)
