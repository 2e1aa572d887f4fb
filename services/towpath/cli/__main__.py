"""`towpath`: the command line. This file is the list of its commands."""

from __future__ import annotations

import typer

from towpath.cli import (
    access,
    campaigns,
    checking,
    compose,
    demo,
    demo_containers,
    demo_faults,
    demo_fog,
    drill,
    events,
    faults,
    fog,
    jobs,
    links,
    logs,
    mesh,
    metrics,
    migrating,
    operations,
    pipelines,
    replaying,
    reports,
    scenarios,
    top,
    traces,
)
from towpath.cli.endings import OneLineGroup, end_on_sigterm_as_on_interrupt
from towpath.cli.settings import global_options

app = typer.Typer(
    name="towpath",
    cls=OneLineGroup,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.callback()(global_options)

MESH, JOBS, PIPELINES, DATA, WATCH = "The mesh", "Jobs", "Pipelines", "Data", "Watching"
FAULTS = "Faults on purpose"


app.command(rich_help_panel=MESH)(mesh.up)
app.command(rich_help_panel=MESH)(mesh.down)
app.command(rich_help_panel=MESH)(mesh.status)
app.command(rich_help_panel=MESH)(mesh.sites)
app.command(rich_help_panel=MESH)(access.access)
app.command("compose", rich_help_panel=MESH)(compose.compose_command)
app.command(rich_help_panel=MESH)(links.links)
app.command(rich_help_panel=MESH)(links.link)

app.command(rich_help_panel=JOBS)(jobs.deploy)
app.command(rich_help_panel=JOBS)(jobs.jobs)
app.command(rich_help_panel=JOBS)(jobs.update)
app.command(rich_help_panel=JOBS)(migrating.migrate)
app.command(rich_help_panel=JOBS)(jobs.remove)

app.add_typer(pipelines.app, name="pipeline", rich_help_panel=PIPELINES)

app.command(rich_help_panel=DATA)(replaying.replay)
app.command(rich_help_panel=DATA)(checking.check)
app.command(rich_help_panel=DATA)(demo.demo)
app.command("demo-fog", rich_help_panel=DATA)(demo_fog.demo_fog)
app.command("demo-containers", rich_help_panel=DATA)(demo_containers.demo_containers)
app.command("demo-faults", rich_help_panel=DATA)(demo_faults.demo_faults)
app.command(rich_help_panel=DATA)(drill.drill)

app.add_typer(scenarios.app, name="scenario", rich_help_panel=FAULTS)
app.add_typer(fog.app, name="fog", rich_help_panel=FAULTS)
app.command(rich_help_panel=FAULTS)(campaigns.campaign)

app.add_typer(faults.app, name="faults", rich_help_panel=FAULTS)

app.command(rich_help_panel=WATCH)(migrating.migrations)
app.command(rich_help_panel=WATCH)(migrating.migration)
app.command(rich_help_panel=WATCH)(operations.operation)
app.command(rich_help_panel=WATCH)(top.top)
app.command(rich_help_panel=WATCH)(reports.report)
app.command(rich_help_panel=WATCH)(traces.traces)
app.command(rich_help_panel=WATCH)(traces.trace)
app.command(rich_help_panel=WATCH)(events.events)
app.command(rich_help_panel=WATCH)(events.publish)
app.command(rich_help_panel=WATCH)(logs.logs)
app.command(rich_help_panel=WATCH)(metrics.metrics)


def main() -> None:
    """Run the command line and exit."""
    end_on_sigterm_as_on_interrupt()
    app()


if __name__ == "__main__":
    main()
