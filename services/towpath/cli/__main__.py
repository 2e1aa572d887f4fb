"""`towpath`: the command line. This file is the list of its commands; extensions add theirs."""

from __future__ import annotations

from importlib.metadata import entry_points

import typer

from towpath.cli.endings import end_on_sigterm_as_on_interrupt
from towpath.cli.listing import DATA, EDGE, JOBS, MESH, PIPELINES, WATCH, CommandList, ListingGroup
from towpath.cli.settings import global_options

COMMANDS = CommandList()

COMMANDS.add(
    MESH,
    "towpath.cli.mesh",
    up="Start a mesh on this machine, or add sites to one that runs; return when every site is up.",
    down="Stop the mesh. Jobs and stored data stay; `towpath up` goes on with them.",
    status="Show the mesh's processes and sites, also when the coordinator does not answer.",
    sites="List all sites with their state, the addresses for devices, and their jobs.",
)
COMMANDS.add(
    MESH,
    "towpath.cli.access",
    access=(
        "Show addresses, users and passwords: NATS at the hub, REST with its token, the page, MQTT "
        "at each site."
    ),
)

COMMANDS.add_as(
    MESH,
    "token",
    "towpath.cli.tokens:app",
    "Give people and programs tokens for REST and the page: to view, to operate, or for all.",
)
COMMANDS.add_as(
    MESH,
    "device",
    "towpath.cli.device_users:app",
    "Give devices, or groups of devices, users of their own at a site's MQTT broker.",
)
COMMANDS.add_as(
    MESH,
    "registry",
    "towpath.cli.registry:app",
    "Back up what the coordinator knows, bring a copy back, or ask the sites for it.",
)
COMMANDS.add(
    MESH,
    "towpath.cli.coordinators",
    coordinators="Show which coordinator leads, and which would take over.",
)
COMMANDS.add(
    MESH,
    "towpath.cli.upgrading",
    upgrade="Restart a site, or the hub's services, with the version that is installed on its machine.",
)
COMMANDS.add_as(MESH, "site", "towpath.cli.machines:app", "Let other machines run sites of this mesh.")
COMMANDS.add(
    MESH,
    "towpath.cli.machines",
    join="Join a mesh: run one site of it, or a spare coordinator. Only connections to the hub are made.",
    leave="Stop the site, or the spare coordinator, of this machine, and forget its keys. Its data stays.",
)
COMMANDS.add_as(MESH, "spare", "towpath.cli.spares:app", "Let other machines stand by for the coordinator.")

COMMANDS.add(JOBS, "towpath.cli.jobs", jobs="List all jobs with their site, progress and speed.")
COMMANDS.add(
    JOBS,
    "towpath.cli.deploying",
    deploy="Start the jobs of a file, in its order: a job that reads another one's output comes after it.",
    update="Change running jobs to what a file says. Each goes on at the serial number where it stood.",
    resume="Let a job go on at other events of its input: after a loss, or to pass over a backlog.",
    remove="Stop a job and forget it. Its results stay in its output stream, unless purged.",
)
COMMANDS.add(JOBS, "towpath.cli.migrating", migrate="Move a running job to another site and print the cost.")
COMMANDS.add(
    JOBS,
    "towpath.cli.failover",
    failover="Let a job, or all jobs of a site, go on at their standby, because their site is lost.",
    standbys="List the standbys of jobs: how old their copies are, and what a failover would lose.",
)

COMMANDS.add_as(
    PIPELINES,
    "pipeline",
    "towpath.cli.pipelines:app",
    "Describe jobs together, and change them together while they run.",
)

COMMANDS.add_as(
    EDGE,
    "edge",
    "towpath.cli.edge:app",
    "Describe the reports of devices, and let edge nodes make events of them.",
)
COMMANDS.add_as(
    EDGE,
    "plan",
    "towpath.cli.plans:app",
    "Put applications on many devices, wave by wave, and keep them there.",
)
COMMANDS.add_as(EDGE, "gateway", "towpath.cli.gateways:app", "Run gateways, simulate many, and command them.")

COMMANDS.add(
    EDGE,
    "towpath.cli.broadcasts",
    broadcast="Send one message to the devices of all sites, or of some, once over each site's link.",
    broadcasts="List broadcasts, newest first, or show one with its state at each site.",
)

COMMANDS.add(
    DATA,
    "towpath.cli.checking",
    check="Compare results with the expected ones: lost, duplicated, unseen, wrong, late, out of order?",
)

COMMANDS.add_as(
    DATA,
    "query",
    "towpath.cli.queries:app",
    "Ask questions in one line, over any number of sites, and follow the answers.",
)
COMMANDS.add_as(
    DATA,
    "uplink",
    "towpath.cli.uplinks:app",
    "Forward topics over a link that is narrow, or seldom there, and prove that everything arrived.",
)

COMMANDS.add(
    WATCH,
    "towpath.cli.migrating",
    migrations="List migrations with their costs, newest first.",
    migration="Show a migration with its journal, step by step; or abort it; or finish a twin.",
    operation="Show a deploy, update, remove or migrate with its journal, step by step.",
)
COMMANDS.add(
    WATCH, "towpath.cli.top", top="Show the state of sites, jobs, migrations and links until Ctrl-C."
)
COMMANDS.add(
    WATCH,
    "towpath.cli.reports",
    report="Write a report for people: one HTML file with pictures that needs nothing else.",
)
COMMANDS.add(
    WATCH,
    "towpath.cli.traces",
    traces="List recent requests with their outcome, newest first, and traces of single events.",
    trace="Show a trace as a waterfall: causes and effects, places and durations.",
)
COMMANDS.add(
    WATCH,
    "towpath.cli.events",
    events="Print the kept events, or follow new ones until Ctrl-C; one line each.",
    publish="Send any command message, as another program would, and print the reply's result as JSON.",
)
COMMANDS.add(
    WATCH, "towpath.cli.logs", logs="Print the newest lines of the mesh's logs, and follow them until Ctrl-C."
)
COMMANDS.add(
    WATCH,
    "towpath.cli.metrics",
    metrics="Show measurements: the newest values, or with --last or --since their course.",
)
COMMANDS.add(
    JOBS,
    "towpath.cli.placing",
    place="Move jobs to where a policy wants them, one after another, and never overload a site on the way.",
)
COMMANDS.add_as(
    JOBS,
    "autopilot",
    "towpath.cli.autopilot:app",
    "Tell the autopilot what is ahead of sites, and approve or refuse its decisions.",
)
COMMANDS.add(
    WATCH,
    "towpath.cli.autopilot",
    decisions=(
        "List the autopilot's decisions: why jobs should move, what was expected, and what came of it."
    ),
)
COMMANDS.add(
    WATCH,
    "towpath.cli.values",
    values="Show stored values of all sites: the newest, or with --last or --since those of a time.",
)

for extension in entry_points(group="towpath.commands"):
    extension.load()(COMMANDS)


class TowpathCommands(ListingGroup):
    """The commands of `towpath`."""

    listed = COMMANDS


app = typer.Typer(
    name="towpath",
    cls=TowpathCommands,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.callback()(global_options)


def main() -> None:
    """Run the command line and exit."""
    end_on_sigterm_as_on_interrupt()
    app()


if __name__ == "__main__":
    main()
