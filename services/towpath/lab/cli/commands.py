"""Adds the laboratory's commands to `towpath`. The command line finds this function by its entry point."""

from __future__ import annotations

import typer

from towpath.lab.cli import (
    campaigns,
    compose,
    demo,
    demo_containers,
    demo_faults,
    demo_fog,
    drill,
    faults,
    fog,
    links,
    replaying,
    scenarios,
)

MESH, DATA, FAULTS = "The mesh", "Data", "Faults on purpose"


def add_to(app: typer.Typer) -> None:
    """Add each command to the panel of `--help` that it belongs to."""
    app.command("compose", rich_help_panel=MESH)(compose.compose_command)
    app.command(rich_help_panel=MESH)(links.links)
    app.command(rich_help_panel=MESH)(links.link)
    app.command(rich_help_panel=DATA)(replaying.replay)
    app.command(rich_help_panel=DATA)(demo.demo)
    app.command("demo-fog", rich_help_panel=DATA)(demo_fog.demo_fog)
    app.command("demo-containers", rich_help_panel=DATA)(demo_containers.demo_containers)
    app.command("demo-faults", rich_help_panel=DATA)(demo_faults.demo_faults)
    app.command(rich_help_panel=DATA)(drill.drill)
    app.add_typer(scenarios.app, name="scenario", rich_help_panel=FAULTS)
    app.add_typer(fog.app, name="fog", rich_help_panel=FAULTS)
    app.command(rich_help_panel=FAULTS)(campaigns.campaign)
    app.add_typer(faults.app, name="faults", rich_help_panel=FAULTS)
