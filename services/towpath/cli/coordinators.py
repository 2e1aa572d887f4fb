"""Show which coordinator leads."""

from __future__ import annotations

import asyncio

import typer

from towpath.cli.connection import ask
from towpath.cli.output import print_json, print_table
from towpath.cli.settings import AsJson, home_of
from towpath.contracts.coordinators import ShowCoordinators


def coordinators(context: typer.Context, as_json: AsJson = False) -> None:
    """Show which coordinator leads, and which would take over.

    Example: `towpath coordinators --json`
    """
    found = asyncio.run(ask(home_of(context), ShowCoordinators()))
    if as_json:
        return print_json(found)
    rows = [(found.leader, "leads", found.term, f"{found.since:%Y-%m-%d %H:%M:%S} UTC")]
    rows += [(name, "spare", None, None) for name in found.spares]
    print_table(("coordinator", "state", "term", "since"), rows, nothing="")
