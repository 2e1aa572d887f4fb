"""The common options of the commands for pipelines, and their way to the mesh."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from towpath.cli.connection import ask, open_bus
from towpath.cli.pipeline_applying import Change, carry_out
from towpath.cli.settings import home_of
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.pipeline import PipelineSpec
from towpath.contracts.pipeline_commands import ShowPipeline
from towpath.mesh.home import Home

File = Annotated[Path, typer.Argument(metavar="FILE", help="Description, YAML or JSON, ours or SpecK's.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the pipeline.")]
As = Annotated[
    str | None,
    typer.Option("--name", help="The pipeline's name.", show_default="as the file says, or is called"),
]
Now = Annotated[
    bool, typer.Option("--now", help="Remove jobs at once; else they first finish what their inputs hold.")
]
AtOnce = Annotated[int, typer.Option("--at-once", min=1, max=64, metavar="N", help="Changes at a time.")]
Wait = Annotated[bool, typer.Option(help="Wait until it is done, or only until it is durably accepted.")]
Within = Annotated[float, typer.Option("--within", min=1, help="Seconds to wait for the outcome.")]
DropState = Annotated[
    list[str] | None,
    typer.Option("--drop-state", metavar="JOB", help="May begin with empty state; for several jobs, repeat."),
]


def change(context: typer.Context, command: Change, wait: bool, within_s: float, as_json: bool) -> None:
    """Execute a command that changes a pipeline. Raises `TowpathError` when that fails."""

    async def run() -> None:
        async with open_bus(home_of(context)) as bus:
            await carry_out(bus, command, wait=wait, within_s=within_s, as_json=as_json)

    asyncio.run(run())


async def current_spec(home: Home, pipeline: str) -> PipelineSpec | None:
    """Return the desired version of the pipeline; None if there is none."""
    try:
        return (await ask(home, ShowPipeline(pipeline=pipeline))).spec
    except TowpathError as error:
        if error.detail.code is ErrorCode.UNKNOWN_PIPELINE:
            return None
        raise
