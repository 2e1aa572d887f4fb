"""The command that shows an operation on a job: deploy, update, remove or migrate."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from towpath.cli.connection import ask
from towpath.cli.journals import print_operation
from towpath.cli.output import print_json
from towpath.cli.settings import AsJson, home_of
from towpath.contracts.commands import ShowOperation


def operation(
    context: typer.Context,
    identifier: Annotated[str, typer.Argument(metavar="ID", help="Its id, as printed by its command.")],
    as_json: AsJson = False,
) -> None:
    """Show a deploy, update, remove or migrate with its journal, step by step.

    Example: `towpath operation 5f0c9a7be210`
    """
    view = asyncio.run(ask(home_of(context), ShowOperation(operation=identifier)))
    if as_json:
        return print_json(view)
    print_operation(view)
