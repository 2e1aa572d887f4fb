"""Commands that start, change and remove jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from towpath.cli.changes import DEFAULT_DEADLINE_S, Change, carry_out
from towpath.cli.settings import AsJson, home_of
from towpath.cli.specs import load_specs
from towpath.contracts.commands import DeployJob, RemoveJob, ResumeFrom, UpdateJob

SpecFile = Annotated[Path, typer.Argument(metavar="SPEC.yaml", help="File with one job or several.")]
JobArgument = Annotated[str, typer.Argument(metavar="JOB", help="Name of the job.")]
Wait = Annotated[bool, typer.Option(help="Wait until it is done, or only until it is durably accepted.")]
DropState = Annotated[
    bool, typer.Option("--drop-state", help="Start with empty state where the old one does not fit.")
]
Within = Annotated[float, typer.Option("--within", min=1, help="Seconds to wait for the outcome.")]


def deploy(
    context: typer.Context,
    spec: SpecFile,
    wait: Wait = True,
    within_s: Within = DEFAULT_DEADLINE_S,
    as_json: AsJson = False,
) -> None:
    """Start the jobs of a file, in its order: a job that reads another one's output comes after it.

    Example: `towpath deploy examples/clean.yaml`
    """
    commands = [DeployJob(spec=job, wait=wait) for job in load_specs(spec)]
    _change(context, commands, within_s, as_json)


def update(
    context: typer.Context,
    spec: SpecFile,
    drop_state: DropState = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Let results go elsewhere also while the site that has them is down."),
    ] = False,
    wait: Wait = True,
    within_s: Within = DEFAULT_DEADLINE_S,
    as_json: AsJson = False,
) -> None:
    """Change running jobs to what a file says. Each goes on at the serial number where it stood.

    Example: `towpath update examples/window.yaml --drop-state`
    """
    commands = [
        UpdateJob(spec=job, drop_state=drop_state, force=force, wait=wait) for job in load_specs(spec)
    ]
    _change(context, commands, within_s, as_json)


def resume(
    context: typer.Context,
    job: JobArgument,
    start: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="earliest|now|SERIAL|TIME",
            help="The oldest event kept, the next that comes, after a serial number, or since a time.",
        ),
    ],
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input", metavar="SITE/TOPIC", help="The input that it is about, if there are several."
        ),
    ] = None,
    wait: Wait = True,
    within_s: Within = DEFAULT_DEADLINE_S,
    as_json: AsJson = False,
) -> None:
    """Let a job go on at other events of its input: after a loss, or to pass over a backlog.

    It keeps its state.

    Example: `towpath resume hourly-jfk --from earliest`
    """
    begin = int(start) if start.isdigit() else start
    wanted = {"job": job, "start": begin, "inputs": inputs or [], "wait": wait}
    _change(context, [ResumeFrom.model_validate(wanted)], within_s, as_json)


def remove(
    context: typer.Context,
    job: JobArgument,
    purge: Annotated[bool, typer.Option("--purge", help="Delete the job's results, too.")] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Also while its site is down, which forgets it later."),
    ] = False,
    wait: Wait = True,
    within_s: Within = DEFAULT_DEADLINE_S,
    as_json: AsJson = False,
) -> None:
    """Stop a job and forget it. Its results stay in its output stream, unless purged.

    Example: `towpath remove hourly-jfk --purge`
    """
    _change(context, [RemoveJob(job=job, purge=purge, force=force, wait=wait)], within_s, as_json)


def _change(context: typer.Context, commands: Sequence[Change], within_s: float, as_json: bool) -> None:
    asyncio.run(carry_out(home_of(context), commands, within_s=within_s, as_json=as_json))
