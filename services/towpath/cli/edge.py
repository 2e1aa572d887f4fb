"""Commands for the data models of edge nodes: a kind of report, and what a node makes of it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from towpath.cli.at_site import adjust, check_alone, jobs_at
from towpath.cli.changes import DEFAULT_DEADLINE_S, Change, carry_out
from towpath.cli.connection import ask
from towpath.cli.deploying import DropState, Wait, Within
from towpath.cli.output import print_json, print_table
from towpath.cli.pipeline_files import telling, text_of
from towpath.cli.settings import AsJson, home_of
from towpath.composition.export import jobs_to_yaml
from towpath.contracts.commands import DeployJob, ListJobs, RemoveJob, UpdateJob
from towpath.contracts.job import JobSpec
from towpath.contracts.operators import step_names
from towpath.edge.documents import read_models

app = typer.Typer(help="Describe the reports of devices, and let edge nodes make events of them.")

Here = Annotated[
    str | None,
    typer.Option(
        "--here", metavar="SITE", help="Change them at this site of this machine: no hub is needed."
    ),
]
ModelFiles = Annotated[list[Path], typer.Argument(metavar="MODEL.yaml…", help="Files with data models.")]


@app.command()
def apply(
    context: typer.Context,
    files: ModelFiles,
    here: Here = None,
    drop_state: DropState = False,
    wait: Wait = True,
    within_s: Within = DEFAULT_DEADLINE_S,
    as_json: AsJson = False,
) -> None:
    """Let nodes run data models: new ones start, and running ones change where they stand.

    Limits of a model may change while it runs. Its state is kept. Other models of the node go on.
    With `--here`, the node changes models that it runs by itself. The hub adopts the change when the link is
    there.

    Example: `towpath edge apply examples/edge/axles.yaml`
    """
    jobs, home = _jobs_of(files), home_of(context)
    if here is not None:
        check_alone(drop_state=drop_state, wait=wait)
        return asyncio.run(adjust(home, here, jobs, within_s=within_s, as_json=as_json))
    running = {view.spec.name for view in asyncio.run(ask(home, ListJobs())).jobs}
    changes: list[Change] = [
        UpdateJob(spec=job, drop_state=drop_state, wait=wait)
        if job.name in running
        else DeployJob(spec=job, wait=wait)
        for job in jobs
    ]
    asyncio.run(carry_out(home, changes, within_s=within_s, as_json=as_json))


@app.command("list")
def list_models(
    context: typer.Context,
    here: Annotated[str, typer.Option("--here", metavar="SITE", help="A site of this machine.")],
    as_json: AsJson = False,
) -> None:
    """List what a node runs, as the node itself says: no hub is needed.

    Example: `towpath edge list --here train-7`
    """
    jobs = asyncio.run(jobs_at(home_of(context), here))
    if as_json:
        return print_json(jobs)
    rows = [(each.job, each.state, each.events, each.results, each.adjustments) for each in jobs]
    print_table(("model", "state", "reports", "events", "changed here"), rows, nothing="nothing runs here")


@app.command()
def check(files: ModelFiles, as_json: AsJson = False) -> None:
    """Check data models without a mesh, and show the stages of each.

    Example: `towpath edge check examples/edge/axles.yaml`
    """
    jobs = _jobs_of(files)
    if as_json:
        return print_json(jobs)
    rows = [
        (job.name, job.site, job.inputs[0].topic, " → ".join(step_names(job.operator)), job.output.topic)
        for job in jobs
    ]
    print_table(("model", "node", "reports", "stages", "events"), rows, nothing="no data models")


@app.command()
def show(file: Annotated[Path, typer.Argument(metavar="MODEL.yaml", help="File with data models.")]) -> None:
    """Print the job that a data model becomes, as a file for `towpath deploy`.

    Example: `towpath edge show examples/edge/axles.yaml`
    """
    print(jobs_to_yaml(_jobs_of([file])), end="")


@app.command()
def remove(
    context: typer.Context,
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Name of the data model.")],
    purge: Annotated[bool, typer.Option("--purge", help="Delete its events, too.")] = False,
    wait: Wait = True,
    within_s: Within = DEFAULT_DEADLINE_S,
    as_json: AsJson = False,
) -> None:
    """Stop a data model at its node. Its events stay, unless purged.

    Example: `towpath edge remove axles`
    """
    removal = RemoveJob(job=model, purge=purge, wait=wait)
    asyncio.run(carry_out(home_of(context), [removal], within_s=within_s, as_json=as_json))


def _jobs_of(files: list[Path]) -> list[JobSpec]:
    """Return the jobs of all data models. Prints all errors of a file, and raises `typer.Exit`."""
    jobs: list[JobSpec] = []
    for path in files:
        with telling(path, str):
            jobs += [each.job for each in read_models(text_of(path))]
    return jobs
