"""`towpath`: the command line. This file is the list of its commands; extensions add theirs."""

from __future__ import annotations

from importlib.metadata import entry_points

import typer

from towpath.cli import (
    access,
    checking,
    events,
    jobs,
    logs,
    mesh,
    metrics,
    migrating,
    operations,
    pipelines,
    reports,
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


app.command(rich_help_panel=MESH)(mesh.up)
app.command(rich_help_panel=MESH)(mesh.down)
app.command(rich_help_panel=MESH)(mesh.status)
app.command(rich_help_panel=MESH)(mesh.sites)
app.command(rich_help_panel=MESH)(access.access)

app.command(rich_help_panel=JOBS)(jobs.deploy)
app.command(rich_help_panel=JOBS)(jobs.jobs)
app.command(rich_help_panel=JOBS)(jobs.update)
app.command(rich_help_panel=JOBS)(migrating.migrate)
app.command(rich_help_panel=JOBS)(jobs.remove)

app.add_typer(pipelines.app, name="pipeline", rich_help_panel=PIPELINES)

app.command(rich_help_panel=DATA)(checking.check)


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

for extension in entry_points(group="towpath.commands"):
    extension.load()(app)


def main() -> None:
    """Run the command line and exit."""
    end_on_sigterm_as_on_interrupt()
    app()


if __name__ == "__main__":
    main()
