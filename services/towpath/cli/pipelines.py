"""Commands for pipelines: jobs that are described together, and changed together."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from towpath.cli.connection import LOOK_ATTEMPT_S, LOOK_DEADLINE_S, ask, open_bus
from towpath.cli.output import print_json
from towpath.cli.pipeline_applying import ACCEPT_S, DEFAULT_DEADLINE_S, carry_out
from towpath.cli.pipeline_files import described
from towpath.cli.pipeline_imports import import_deployment_plan
from towpath.cli.pipeline_options import (
    As,
    AtOnce,
    DropState,
    File,
    Name,
    Now,
    Wait,
    Within,
    change,
    current_spec,
)
from towpath.cli.pipeline_views import (
    print_differences,
    print_history,
    print_pipeline,
    print_pipelines,
    print_plan,
)
from towpath.cli.settings import AsJson, home_of
from towpath.composition.export import plain, to_yaml
from towpath.contracts.pipeline import PipelineSpec, PipelineVersion
from towpath.contracts.pipeline_commands import (
    ApplyPipeline,
    DeletePipeline,
    ListPipelines,
    PlanPipeline,
    RetryPipeline,
    RollbackPipeline,
    ShowPipeline,
    ShowPipelineHistory,
)
from towpath.reports.asking import pipeline_versions

app = typer.Typer(help="Describe jobs together, and change them together while they run.")


@app.command()
def apply(
    context: typer.Context,
    file: File,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print the plan.")] = False,
    now: Now = False,
    drop_state: DropState = None,
    at_once: AtOnce = 4,
    wait: Wait = True,
    within_s: Within = DEFAULT_DEADLINE_S,
    name: As = None,
    as_json: AsJson = False,
) -> None:
    """Make a pipeline be as a file describes it: change what differs while it runs, and keep the rest.

    Example: `towpath pipeline apply examples/pipelines/delays-1.yaml`
    """
    if dry_run:
        return plan(context, file, drop_state, at_once, name, as_json)

    async def run() -> None:
        async with described(home_of(context), file, name) as (bus, spec):
            command = ApplyPipeline(spec=spec, now=now, at_once=at_once, drop_state=drop_state or [])
            await carry_out(bus, command, wait=wait, within_s=within_s, as_json=as_json)

    asyncio.run(run())


@app.command()
def plan(
    context: typer.Context,
    file: File,
    drop_state: DropState = None,
    at_once: AtOnce = 4,
    name: As = None,
    as_json: AsJson = False,
) -> None:
    """Print the changes that an apply would make, in order and with their costs. Nothing is changed.

    Example: `towpath pipeline plan examples/pipelines/delays-2.yaml`
    """

    async def run() -> None:
        async with described(home_of(context), file, name) as (bus, spec):
            question = PlanPipeline(spec=spec, at_once=at_once, drop_state=drop_state or [])
            found = await bus.request(question, deadline_s=ACCEPT_S, attempt_s=ACCEPT_S)
        print_json(found) if as_json else print_plan(found)

    asyncio.run(run())


@app.command("list")
def list_pipelines(context: typer.Context, as_json: AsJson = False) -> None:
    """List all pipelines with their version and the outcome of the newest apply.

    Example: `towpath pipeline list`
    """
    found = asyncio.run(ask(home_of(context), ListPipelines())).pipelines
    print_json(found) if as_json else print_pipelines(found)


@app.command()
def show(context: typer.Context, name: Name, as_json: AsJson = False) -> None:
    """Show a pipeline's jobs with their versions, and the newest apply.

    Example: `towpath pipeline show delays`
    """
    found = asyncio.run(ask(home_of(context), ShowPipeline(pipeline=name)))
    print_json(found) if as_json else print_pipeline(found)


@app.command()
def diff(context: typer.Context, file: File, name: As = None, as_json: AsJson = False) -> None:
    """Show the fields of jobs that a file would change.

    Example: `towpath pipeline diff examples/pipelines/delays-2.yaml`
    """

    async def run() -> None:
        async with described(home_of(context), file, name) as (_, spec):
            current = await current_spec(home_of(context), spec.name)
        current = current or PipelineSpec(name=spec.name, jobs=[])
        print_differences(current, spec, as_json=as_json)

    asyncio.run(run())


@app.command()
def history(context: typer.Context, name: Name, as_json: AsJson = False) -> None:
    """List the versions that a pipeline has had, newest first.

    Example: `towpath pipeline history delays`
    """

    async def run() -> list[PipelineVersion]:
        async with open_bus(home_of(context)) as bus:
            return await pipeline_versions(bus, name, deadline_s=LOOK_DEADLINE_S, attempt_s=LOOK_ATTEMPT_S)

    found = asyncio.run(run())
    print_json(found) if as_json else print_history(found)


@app.command()
def rollback(
    context: typer.Context,
    name: Name,
    to: Annotated[
        int | None,
        typer.Option("--to", min=1, metavar="V", show_default="the newest other one that was completed"),
    ] = None,
    now: Now = False,
    drop_state: DropState = None,
    at_once: AtOnce = 4,
    wait: Wait = True,
    within_s: Within = DEFAULT_DEADLINE_S,
    as_json: AsJson = False,
) -> None:
    """Make a pipeline be as an earlier version described it. That becomes a new version.

    Example: `towpath pipeline rollback delays --to 1`
    """
    command = RollbackPipeline(
        pipeline=name, version=to, now=now, drop_state=drop_state or [], at_once=at_once
    )
    change(context, command, wait, within_s, as_json)


@app.command()
def retry(
    context: typer.Context,
    name: Name,
    at_once: AtOnce = 4,
    wait: Wait = True,
    within_s: Within = DEFAULT_DEADLINE_S,
    as_json: AsJson = False,
) -> None:
    """Go on with an apply that failed.

    Example: `towpath pipeline retry delays`
    """
    change(context, RetryPipeline(pipeline=name, at_once=at_once), wait, within_s, as_json)


@app.command()
def delete(
    context: typer.Context,
    name: Name,
    now: Now = False,
    purge: Annotated[bool, typer.Option("--purge", help="Delete the jobs' results, too.")] = False,
    at_once: AtOnce = 4,
    wait: Wait = True,
    within_s: Within = DEFAULT_DEADLINE_S,
    as_json: AsJson = False,
) -> None:
    """Remove all jobs of a pipeline, those that write first, and forget it.

    Example: `towpath pipeline delete delays`
    """
    command = DeletePipeline(pipeline=name, now=now, purge=purge, at_once=at_once)
    change(context, command, wait, within_s, as_json)


@app.command()
def export(
    context: typer.Context,
    name: Name,
    version: Annotated[
        int | None, typer.Option("--version", min=1, metavar="V", show_default="the newest")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print a pipeline's description as YAML that `apply` reads.

    Example: `towpath pipeline export delays > delays.yaml`
    """
    home = home_of(context)
    # The first is the newest. The newest apply would not do: it may be a delete.
    question = ShowPipelineHistory(pipeline=name, version=version)
    spec = asyncio.run(ask(home, question)).versions[0].spec
    print_json(plain(spec)) if as_json else print(to_yaml(spec), end="")


app.command("import")(import_deployment_plan)
