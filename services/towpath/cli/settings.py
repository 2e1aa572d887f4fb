"""Options of every command: the mesh's directory, and logging."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from towpath.mesh.home import Home

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on stdout and nothing else.")]


def global_options(
    context: typer.Context,
    home: Annotated[
        Path | None,
        typer.Option(envvar="TOWPATH_HOME", help="Directory of the mesh.", show_default="~/.towpath"),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Print log lines on stderr.")] = False,
) -> None:
    """Moves running, stateful Spark streaming jobs between sites while their results keep flowing.

    A first walk: `towpath up`, `towpath deploy examples/clean.yaml`, `towpath replay --site jfk`,
    `towpath jobs`, `towpath migrate clean-jfk --to cloud`, `towpath down`.
    """
    context.obj = Home.default() if home is None else Home(home.expanduser().absolute())
    logging.basicConfig(
        level=logging.INFO if verbose else logging.CRITICAL,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        force=True,
    )


def home_of(context: typer.Context) -> Home:
    """Return the mesh's directory, as given for this run."""
    assert isinstance(context.obj, Home)
    return context.obj
