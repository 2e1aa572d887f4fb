"""The command that turns deployment plans into pipelines."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from towpath.cli.connection import ask
from towpath.cli.output import print_json
from towpath.cli.pipeline_applying import DEFAULT_DEADLINE_S
from towpath.cli.pipeline_files import telling, text_of
from towpath.cli.pipeline_options import AtOnce, DropState, Now, Wait, Within, change, current_spec
from towpath.cli.settings import AsJson, home_of
from towpath.composition.deployment_plan import import_plan, plan_name
from towpath.composition.export import plain, to_yaml
from towpath.contracts.commands import ListSites
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.pipeline import PipelineSpec
from towpath.contracts.pipeline_commands import ApplyPipeline
from towpath.contracts.site import SiteStatus
from towpath.mesh.home import Home


def import_deployment_plan(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="PLAN.json", help="A deployment plan.")],
    name: Annotated[
        str | None, typer.Option("--name", help="The pipeline's name.", show_default="as the plan says")
    ] = None,
    apply_it: Annotated[bool, typer.Option("--apply", help="Apply the pipeline, too.")] = False,
    now: Now = False,
    drop_state: DropState = None,
    at_once: AtOnce = 4,
    wait: Wait = True,
    within_s: Within = DEFAULT_DEADLINE_S,
    as_json: AsJson = False,
) -> None:
    """Print a pipeline as a deployment plan (deploy, update, uninstall) changes it, as YAML.

    Example: `towpath pipeline import examples/pipelines/plan-deploy.json`
    """
    text, home = text_of(file), home_of(context)
    with telling(file, str):
        called = name or plan_name(text)
        current, sites = asyncio.run(_known(home, called, needed=apply_it))
        spec = import_plan(text, current, sites, name=name)
    if not apply_it:
        return print_json(plain(spec)) if as_json else print(to_yaml(spec), end="")
    with telling(file, str):
        command = ApplyPipeline(spec=spec, now=now, drop_state=drop_state or [], at_once=at_once)
        change(context, command, wait, within_s, as_json)


async def _known(
    home: Home, pipeline: str | None, *, needed: bool
) -> tuple[PipelineSpec | None, list[SiteStatus]]:
    """Return the present pipeline, if any, and the sites. Without a mesh: nothing, unless `needed`."""
    try:
        sites = (await ask(home, ListSites())).sites
    except TowpathError as error:
        if error.detail.code is ErrorCode.UNREACHABLE and not needed:
            return None, []
        raise
    return (await current_spec(home, pipeline) if pipeline else None), sites
