"""Commands for deployment plans: operations on many devices."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from towpath.cli.connection import ask
from towpath.cli.output import clock, print_json, print_table, say
from towpath.cli.pipeline_files import telling, text_of
from towpath.cli.plan_packages import with_local_packages
from towpath.cli.plan_progress import follow, note_of, print_rollout
from towpath.cli.settings import AsJson, home_of
from towpath.composition.speck import as_name
from towpath.contracts.device_catalogue import DeviceCatalogue
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import Command
from towpath.contracts.plan import DeployableOperation, PlanCheck, Scalar
from towpath.contracts.plan_commands import (
    ApplyPlan,
    ListPlans,
    RollbackPlan,
    ShowPlan,
    ShowPlanHistory,
    UninstallPlan,
    UpdatePlan,
)
from towpath.contracts.plan_rollout import RolloutView
from towpath.mesh.home import Home
from towpath.plans.check import check as checked
from towpath.plans.documents import ReadPlan, read_catalogue, read_plan
from towpath.plans.order import listed
from towpath.plans.template_keys import scalar

app = typer.Typer(help="Put applications on many devices, wave by wave, and keep them there.")

PlanFile = Annotated[Path, typer.Argument(metavar="FILE", help="A deployment plan, in YAML or JSON.")]
Catalogue = Annotated[
    Path, typer.Option("--catalogue", metavar="FILE", help="The devices and packages that there are.")
]
PlanAs = Annotated[
    str | None, typer.Option("--name", help="The plan's name.", show_default="as the file says, or its name")
]
Plan = Annotated[str, typer.Argument(metavar="PLAN", help="Name of a plan, as `towpath plan list` shows it.")]
Wait = Annotated[
    bool, typer.Option("--wait/--no-wait", help="Show the progress until only absent devices are missing.")
]


@app.callback()
def plans() -> None:
    """Put applications on many devices, wave by wave, and keep them there."""


@app.command()
def check(file: PlanFile, catalogue: Catalogue, name: PlanAs = None, as_json: AsJson = False) -> None:
    """Compare a plan with the devices there are, and print what each would get. Needs no mesh.

    Example: `towpath plan check examples/plans/temperatures.yaml --catalogue examples/plans/catalogue.yaml`
    """
    read, operations, _ = planned(file, catalogue, name)
    if as_json:
        return print_json(PlanCheck(plan=read.plan.plan, operations=operations, warnings=read.warnings))
    for warning in read.warnings:
        say(f"{file}: {warning.one_line()}")
    print_operations(operations)


@app.command()
def apply(
    context: typer.Context,
    file: PlanFile,
    catalogue: Catalogue,
    name: PlanAs = None,
    wait: Wait = True,
    as_json: AsJson = False,
) -> None:
    """Bring devices to what a plan says. Applied again with a change, only the change is carried out.

    Example: `towpath plan apply examples/plans/averages.yaml --catalogue examples/plans/gateways.yaml`
    """
    home = home_of(context)
    read, _, known = planned(file, catalogue, name)
    for warning in read.warnings:
        say(f"{file}: {warning.one_line()}")
    with telling(catalogue, str):
        known = with_local_packages(known, catalogue.parent, home)
    with telling(file, read.place):
        _carry_out(home, ApplyPlan(plan=read.plan, catalogue=known), wait, as_json)


@app.command()
def update(
    context: typer.Context,
    plan: Plan,
    operation: Annotated[str, typer.Argument(help="The operation whose arguments change.")],
    arguments: Annotated[list[str], typer.Argument(metavar="NAME=VALUE...", help="The new arguments.")],
    wait: Wait = True,
    as_json: AsJson = False,
) -> None:
    """Change arguments of an operation on all its devices. The computation is not stopped.

    Example: `towpath plan update averages average publish.rate=10`
    """
    given = dict(map(_argument, arguments))
    _carry_out(home_of(context), UpdatePlan(plan=plan, operation=operation, arguments=given), wait, as_json)


def _argument(text: str) -> tuple[str, Scalar]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise TowpathError(
            ErrorCode.INVALID, "not an argument", field="NAME=VALUE", value=text, allowed="publish.rate=10"
        )
    return name, scalar(value)


@app.command()
def rollback(
    context: typer.Context,
    plan: Plan,
    version: Annotated[
        int | None, typer.Option(help="Number of the version.", show_default="the newest that was completed")
    ] = None,
    wait: Wait = True,
    as_json: AsJson = False,
) -> None:
    """Bring devices back to an earlier version of a plan.

    Example: `towpath plan rollback averages`
    """
    _carry_out(home_of(context), RollbackPlan(plan=plan, version=version), wait, as_json)


@app.command()
def uninstall(context: typer.Context, plan: Plan, wait: Wait = True, as_json: AsJson = False) -> None:
    """Remove all applications of a plan from all its devices.

    Example: `towpath plan uninstall averages`
    """
    _carry_out(home_of(context), UninstallPlan(plan=plan), wait, as_json)


@app.command()
def status(context: typer.Context, plan: Plan, as_json: AsJson = False) -> None:
    """Print the newest version of a plan and the state of each device.

    Example: `towpath plan status averages`
    """
    view = asyncio.run(ask(home_of(context), ShowPlan(plan=plan)))
    if as_json:
        return print_json(view)
    print_rollout(view)


@app.command()
def history(context: typer.Context, plan: Plan, as_json: AsJson = False) -> None:
    """Print the versions that a plan has had, and their outcomes.

    Example: `towpath plan history averages`
    """
    found = asyncio.run(ask(home_of(context), ShowPlanHistory(plan=plan)))
    if as_json:
        return print_json(found)
    rows = [
        (
            v.version,
            v.kind,
            v.again,
            v.asked_by,
            v.state,
            v.devices,
            ", ".join(v.operations) or None,
            clock(v.at),
        )
        for v in found.versions
    ]
    columns = ("version", "made by", "repeats", "asked by", "state", "devices", "operations", "at")
    print_table(columns, rows, nothing="the plan has no versions")


@app.command("list")
def list_plans(context: typer.Context, as_json: AsJson = False) -> None:
    """Print all plans.

    Example: `towpath plan list`
    """
    found = asyncio.run(ask(home_of(context), ListPlans()))
    if as_json:
        return print_json(found)
    rows = [(p.plan, p.version, p.state, note_of(p.counts)) for p in found.plans]
    print_table(("plan", "version", "state", "devices"), rows, nothing="there are no plans")


def _carry_out(home: Home, command: Command[RolloutView], wait: bool, as_json: bool) -> None:
    """Send a command, show the roll-out as far as wished, and end with 1 if it did not succeed."""
    view, failed = asyncio.run(follow(home, command, wait=wait))
    if as_json:
        print_json(view)
    else:
        print_rollout(view)
    if failed:
        raise typer.Exit(1)


def planned(
    file: Path, catalogue: Path, name: str | None
) -> tuple[ReadPlan, list[DeployableOperation], DeviceCatalogue]:
    """Return the plan of a file, its operations with their devices, and the catalogue.

    Prints the errors of wrong files, each on a line, and raises `typer.Exit`.
    """
    known = _catalogue(catalogue)
    text = text_of(file)
    with telling(file, str):
        read = read_plan(text, name=name, otherwise=as_name(file.stem))
    with telling(file, read.place):
        return read, checked(read.plan, known), known


def _catalogue(path: Path) -> DeviceCatalogue:
    text = text_of(path)
    with telling(path, str):
        return read_catalogue(text)


def print_operations(operations: Sequence[DeployableOperation]) -> None:
    """Print a line for each operation."""
    rows = [
        (
            operation.order,
            operation.operation,
            operation.kind,
            operation.package and " ".join(filter(None, (operation.package.name, operation.package.version))),
            len(operation.devices),
            listed(operation.devices),
            ", ".join(operation.after) or None,
        )
        for operation in operations
    ]
    columns = ("order", "operation", "task", "package", "devices", "on", "after")
    print_table(columns, rows, nothing="the plan has no operations")
