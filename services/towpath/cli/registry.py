"""Commands for the registry: back it up, bring a copy back, take jobs from sites that know more."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from towpath.atomic_write import write_private_file
from towpath.cli.connection import CHANGE_ATTEMPT_S, ask
from towpath.cli.output import print_json, print_table, say
from towpath.cli.pipeline_files import bytes_of
from towpath.cli.settings import AsJson, home_of
from towpath.contracts.errors import TowpathError
from towpath.contracts.registry import (
    BackupRegistry,
    RebuildRegistry,
    RegistryCopy,
    RegistryState,
    RestoredJob,
    RestoreRegistry,
)

app = typer.Typer(help="Back up what the coordinator knows, bring a copy back, or ask the sites for it.")


@app.command()
def backup(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Written whole or not at all.")],
    as_json: AsJson = False,
) -> None:
    """Write jobs, pipelines, plans, uplinks and their history into a file. Nothing stops meanwhile.

    Example: `towpath registry backup registry.json`
    """
    copy = asyncio.run(ask(home_of(context), BackupRegistry()))
    write_private_file(file, copy.model_dump_json(indent=1) + "\n")
    if as_json:
        return print_json({"file": str(file), "jobs": copy.jobs, "written_at": copy.written_at})
    say(f"{copy.jobs} jobs and their history are in {file}")


@app.command()
def restore(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="From `towpath registry backup`.")],
    as_json: AsJson = False,
) -> None:
    """Replace the registry by a copy. Jobs run on: those that have moved since wait for `rebuild`.

    Example: `towpath registry restore registry.json`
    """
    try:
        copy = RegistryCopy.from_json(bytes_of(file))
    except ValidationError as error:
        raise TowpathError.of_validation(error) from error
    state = asyncio.run(_changed(context, RestoreRegistry(**copy.model_dump())))
    if as_json:
        return print_json(state)
    say(f"the registry has {state.jobs} jobs, as of {copy.written_at:%Y-%m-%d %H:%M} UTC")
    _print_behind(state.behind)
    if state.behind:
        say("sites know more of these: `towpath registry rebuild` takes it from them")


@app.command()
def rebuild(
    context: typer.Context,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what it would take.")] = False,
    as_json: AsJson = False,
) -> None:
    """Take from sites the jobs of which they know more than the registry. All sites should be up.

    Example: `towpath registry rebuild --dry-run`
    """
    state = asyncio.run(_changed(context, RebuildRegistry(dry_run=dry_run)))
    if as_json:
        return print_json(state)
    _print_behind(state.behind)
    say(f"the registry has {state.jobs} jobs")


async def _changed(context: typer.Context, command: RestoreRegistry | RebuildRegistry) -> RegistryState:
    return await ask(home_of(context), command, attempt_s=CHANGE_ATTEMPT_S, traced=True)


def _print_behind(behind: list[RestoredJob]) -> None:
    rows = [
        (each.job, each.site, each.epoch, each.known, "yes" if each.adopted else each.note or "no")
        for each in behind
    ]
    columns = ("job", "at", "epoch there", "epoch known", "taken")
    print_table(columns, rows, nothing="no site knows more than the registry")
