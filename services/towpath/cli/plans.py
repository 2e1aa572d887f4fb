"""Commands for deployment plans: operations on many devices."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from towpath.cli.output import print_json, print_table, say
from towpath.cli.pipeline_files import telling, text_of
from towpath.cli.settings import AsJson
from towpath.composition.speck import as_name
from towpath.contracts.device_catalogue import DeviceCatalogue
from towpath.contracts.plan import DeployableOperation, PlanCheck
from towpath.plans.check import check as checked
from towpath.plans.documents import ReadPlan, read_catalogue, read_plan
from towpath.plans.order import listed

app = typer.Typer(help="Check what a plan would put on many devices.")

PlanFile = Annotated[Path, typer.Argument(metavar="FILE", help="A deployment plan, in YAML or JSON.")]
Catalogue = Annotated[
    Path, typer.Option("--catalogue", metavar="FILE", help="The devices and packages that there are.")
]
PlanAs = Annotated[
    str | None, typer.Option("--name", help="The plan's name.", show_default="as the file says, or its name")
]


@app.callback()
def plans() -> None:
    """Check what a plan would put on many devices."""


@app.command()
def check(file: PlanFile, catalogue: Catalogue, name: PlanAs = None, as_json: AsJson = False) -> None:
    """Compare a plan with the devices there are, and print what each would get. Needs no mesh.

    Example: `towpath plan check examples/plans/temperatures.yaml --catalogue examples/plans/catalogue.yaml`
    """
    read, operations = planned(file, catalogue, name)
    if as_json:
        return print_json(PlanCheck(plan=read.plan.plan, operations=operations, warnings=read.warnings))
    for warning in read.warnings:
        say(f"{file}: {warning.one_line()}")
    print_operations(operations)


def planned(file: Path, catalogue: Path, name: str | None) -> tuple[ReadPlan, list[DeployableOperation]]:
    """Return the plan of a file, and its operations with their devices.

    Prints the errors of wrong files, each on a line, and raises `typer.Exit`.
    """
    known = _catalogue(catalogue)
    text = text_of(file)
    with telling(file, str):
        read = read_plan(text, name=name, otherwise=as_name(file.stem))
    with telling(file, read.place):
        return read, checked(read.plan, known)


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
