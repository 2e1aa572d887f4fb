"""`towpath fog …`: a topology of nodes as containers of this machine, and scenarios that happen to it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.artefact_roots import ArtefactRoot, container_artefact_root
from towpath.cli.endings import OneLineGroup
from towpath.cli.output import print_json, print_table, progress, say, working
from towpath.cli.settings import AsJson, home_of
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.links import LinkConditions
from towpath.contracts.topology import BYTES_PER_MBIT
from towpath.lab.cli.scenarios import AllowProcess, Given, run_line
from towpath.mesh.home import Home

if TYPE_CHECKING:
    from towpath.lab.emulation.status import NodeStatus
    from towpath.lab.scenarios.playing import Play
    from towpath.lab.scenarios.report import RunReport


NODE_COLUMNS = ("node", "site", "cores of this machine", "busy", "memory", "link", "jobs")
ENERGY_COLUMNS = ("node", "energy", "mean power", "busy", "up")

Row = tuple[object, ...]

app = typer.Typer(
    cls=OneLineGroup,
    help="A topology of nodes, each a container with its share of this machine, memory, and link.",
)

TopologyName = Annotated[str, typer.Argument(metavar="TOPOLOGY", help="A file, or a name that `list` shows.")]
Tag = Annotated[str, typer.Option(help="Of the images towpath-services and towpath-site.")]


def fog_home(context: typer.Context) -> Home:
    """Where an emulated topology keeps its things: apart from a mesh of this machine's own processes."""
    return Home(home_of(context).root / "fog")


@app.command("up")
def up(
    context: typer.Context,
    topology: TopologyName,
    tag: Tag = "local",
    artefact_root: ArtefactRoot = None,
    as_json: AsJson = False,
) -> None:
    """Bring a topology up, or what is up of it to where its description has it.

    Nodes start with all that the machine has, and get their shares once they are up: how a node starts is
    not what is emulated. Nodes that failed are started, and limits and links become as described. Jobs may
    bring user code as with `towpath compose`.

    Example: `towpath fog up city-traffic`
    """
    from towpath.lab.emulation.bringing_up import Plan, bring_up
    from towpath.lab.topology.reading import read

    home, plan = fog_home(context), Plan.of(read(topology))
    root = container_artefact_root(home, artefact_root)
    with progress(time.monotonic()) as tell:
        asyncio.run(bring_up(home, plan, tell, tag, root))
    _print_status(home, as_json)
    say(f"all commands work on it: towpath --home {home.root} sites")


@app.command("down")
def down(context: typer.Context, as_json: AsJson = False) -> None:
    """Take the topology away: containers, networks, volumes and secrets. Nothing stays.

    Example: `towpath fog down`
    """
    from towpath.lab.emulation.bringing_up import take_down

    with working("taking everything away …"):
        done = asyncio.run(take_down(fog_home(context)))
    if as_json:
        print_json({"removed": done})
    else:
        print(f"taken away: {', '.join(done)}" if done else "nothing was up")


@app.command("status")
def status(context: typer.Context, as_json: AsJson = False) -> None:
    """Show the nodes: whether they are up, what they are given, what they use, and how their links are.

    Example: `towpath fog status`
    """
    _print_status(fog_home(context), as_json)


@app.command("run")
def run(
    context: typer.Context,
    scenario: Given,
    seed: Annotated[int, typer.Option(min=0, help="Chooses what chance does; 0: as written.")] = 0,
    output: Annotated[
        Path | None, typer.Option(help="Where journal, report and picture go.", show_default="scenario-NAME")
    ] = None,
    allow_process: AllowProcess = False,
    artefact_root: ArtefactRoot = None,
    as_json: AsJson = False,
) -> None:
    """Run a scenario on its topology: the one that is up, else one that is brought up and taken down again.

    Exit code 1 if it is not as expected. In the beginning and in the end nodes, sizes and links are as the
    topology has them. --artefact-root is of a topology that is brought up for the run.

    Example: `towpath fog run railway`
    """
    from towpath.lab.scenarios.playing import Play
    from towpath.lab.scenarios.reading import read_document

    play = Play(read_document(scenario), scenario, seed, allow_process)
    found = play.scenario
    if found.mesh.topology is None:
        raise TowpathError(
            ErrorCode.INVALID,
            "the scenario names no topology",
            field="mesh.topology",
            allowed="a topology, or `towpath scenario run` for a mesh of processes",
        )
    directory = output or Path(f"scenario-{found.name}")
    home = fog_home(context)
    root = container_artefact_root(home, artefact_root)
    with progress(time.monotonic()) as tell:
        report = asyncio.run(_run(play, directory, home, root, tell))
    if as_json:
        print_json(report)
    else:
        print_table(ENERGY_COLUMNS, energy_rows(report), nothing="no node has a power profile")
        say(run_line(report))
        say(f"see {directory / 'report.md'}")
    if not report.passed:
        raise typer.Exit(1)


@app.command("list")
def list_topologies(as_json: AsJson = False) -> None:
    """List the ready topologies.

    Example: `towpath fog list`
    """
    from towpath.lab.topology.reading import LIBRARY, read

    found = [read(name) for name in LIBRARY.names()]
    if as_json:
        print_json([{"name": t.name, "description": t.description, "nodes": len(t.nodes)} for t in found])
        return
    rows = ((t.name, len(t.nodes), t.description) for t in found)
    print_table(("name", "nodes", "what it is"), rows, nothing="No topologies.")


@app.command("show")
def show(topology: TopologyName, as_json: AsJson = False) -> None:
    """Print a topology, checked: a good beginning for one's own.

    Example: `towpath fog show railway > mine.yaml`
    """
    from towpath.lab.topology.reading import LIBRARY, read

    found = read(topology)
    if as_json:
        print_json(found)
    else:
        print(LIBRARY.text_of(topology), end="")


async def _run(
    play: Play, directory: Path, home: Home, root: str | None, tell: Callable[[str], None]
) -> RunReport:
    """On what is up, or on what is brought up for it."""
    from towpath.lab.emulation.project import Project
    from towpath.lab.scenarios.playing import own_emulation, play_on, standing_emulation
    from towpath.lab.topology.reading import read

    topology = play.scenario.mesh.topology or ""
    standing = await asyncio.to_thread(Project(home).standing) is not None
    ground = (
        standing_emulation(home, topology)
        if standing
        else own_emulation(home, read(topology), tell, artefact_root=root)
    )
    async with ground as up:
        tell(f"{play.scenario.name}, seed {play.seed} …")
        report = await play_on(up, play, directory)
        tell("the run is over" if standing else "the run is over; taking everything away …")
    return report


def _print_status(home: Home, as_json: bool) -> None:
    from towpath.lab.emulation.bringing_up import emulation
    from towpath.lab.emulation.status import node_statuses

    async def look() -> list[NodeStatus]:
        async with emulation(home) as running:
            return await node_statuses(running)

    found = asyncio.run(look())
    if as_json:
        print_json(found)
    else:
        print_table(NODE_COLUMNS, node_rows(found), nothing="no nodes")


def node_rows(nodes: Iterable[NodeStatus]) -> Iterator[Row]:
    """A row for each node."""
    for node in nodes:
        state = node.site if node.running else "spare" if node.spare else "away"
        busy = None if node.busy_percent is None else f"{node.busy_percent:.0f} %"
        memory = None if node.memory_mb is None else f"{node.memory_mb} MB"
        cpus = "all" if node.cpus is None else f"{node.cpus:g}"
        yield node.node, state, cpus, busy, memory, link_text(node.link), ", ".join(node.jobs) or None


def link_text(link: LinkConditions | None) -> str | None:
    """Describe a link in a few words."""
    if link is None or link.perfect:
        return None if link is None else "perfect"
    if link.cut:
        return "cut"
    parts = [f"{link.delay_ms:g} ms" + (f" ± {link.jitter_ms:g}" if link.jitter_ms else "")]
    if link.bandwidth_bytes_per_s is not None:
        parts.append(f"{link.bandwidth_bytes_per_s / BYTES_PER_MBIT:g} Mbit/s")
    if link.loss_percent:
        parts.append(f"{link.loss_percent:g} % lost")
    return ", ".join(parts)


def energy_rows(report: RunReport) -> Iterator[Row]:
    """A row for each node with a power profile, and their sum."""
    for name, node in report.energy.items():
        busy = f"{100 * node.utilisation:.0f} %"
        yield name, f"{node.energy_j:.0f} J", f"{node.mean_w:.1f} W", busy, f"{node.up_s:.0f} s"
    if report.energy:
        yield "together", f"{report.energy_j:.0f} J", None, None, None
