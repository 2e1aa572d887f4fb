"""Commands for the mesh itself: start it, stop it, show its state."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from towpath.cli.access import page_url
from towpath.cli.artefact_roots import ArtefactRoot, chosen_artefact_root
from towpath.cli.connection import LOOK_ATTEMPT_S, ask
from towpath.cli.container_meshes import check_processes, compose_instead, nothing_runs
from towpath.cli.machines import start_site
from towpath.cli.output import print_json, print_table, say, working
from towpath.cli.settings import AsJson, home_of
from towpath.cli.spares import start_spare
from towpath.cli.starting import START_DEADLINE_S, wait_until_up
from towpath.containers import images
from towpath.containers.daemon import check
from towpath.contracts.autopilot import AutopilotMode
from towpath.contracts.commands import ListSites
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import JobState
from towpath.contracts.site import FaultSettings, MeshSpec, ProcessStatus, SiteSpec, SiteStatus
from towpath.mesh import lifecycle
from towpath.mesh.home import Home
from towpath.mesh.settings import load_spec, spec_of_sites
from towpath.mesh.state import MeshState

DEFAULT_SITES = "jfk,cloud"
"""The smallest mesh in which a job can move."""

DEFAULT_CONFIG = Path("towpath.toml")

SITE_COLUMNS = ("site", "state", "MQTT", "NATS", "jobs", "memory", "version", "note")


def up(
    context: typer.Context,
    sites: Annotated[
        str | None, typer.Option("--sites", metavar="A,B,…", help="Names of sites with default settings.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="towpath.toml", help="File that describes the mesh.")
    ] = None,
    emulate_links: Annotated[
        bool | None,
        typer.Option(
            "--emulate-links/--direct-links",
            help="Lead links to the hub through a process that can delay, throttle and cut them.",
            show_default="as it was, at first direct",
        ),
    ] = None,
    faults: Annotated[
        bool | None,
        typer.Option(
            "--faults/--no-faults",
            help="Allow rules that inject faults: `towpath faults`.",
            show_default="as it was, at first not",
        ),
    ] = None,
    autopilot: Annotated[
        AutopilotMode | None,
        typer.Option(
            help="Let jobs be moved before they break their goals; propose asks people first.",
            show_default="as it was, at first off",
        ),
    ] = None,
    artefact_root: ArtefactRoot = None,
    within_s: Annotated[
        float, typer.Option("--within", min=1, help="Seconds until all sites must be up.")
    ] = START_DEADLINE_S,
    as_json: AsJson = False,
) -> None:
    """Start a mesh on this machine, or add sites to one that runs; return when every site is up.

    Without --sites and --config: the mesh that was here before, else ./towpath.toml, else the sites jfk
    and cloud. Everything that an earlier mesh stored is still there.

    Jobs may have user code from below the directory in which this was first called. If that holds your whole
    home, they have it from `artefacts` in the mesh's own directory.
    Example: `towpath up --sites jfk,lga,cloud`
    """
    home = home_of(context)
    check_processes(home, "up")
    if home.state.exists() and not (saved := MeshState.load(home)).has_services:
        return (start_site if saved.joined else start_spare)(home, within_s, as_json=as_json)
    spec = _spec(home, sites, config)
    if emulate_links is not None:
        spec = spec.model_copy(update={"emulate_links": emulate_links})
    if faults is not None:
        spec = spec.model_copy(update={"faults": FaultSettings(enabled=faults)})
    if autopilot is not None:
        spec = _piloted(home, spec, autopilot)
    root = chosen_artefact_root(home, spec.artefact_root, artefact_root)
    spec = spec.model_copy(update={"artefact_root": root})
    with working("starting …") as status:
        check_container_sites(spec)
        state = lifecycle.up(home, spec)
        found = asyncio.run(wait_until_up(home, sorted(state.sites_here), within_s, status.update))
    _print_sites(found, as_json)
    say(f"the live page: {page_url(state)}")


def down(context: typer.Context, as_json: AsJson = False) -> None:
    """Stop the mesh. Jobs and stored data stay; `towpath up` goes on with them.

    Example: `towpath down`
    """
    home = home_of(context)
    with working("stopping …"):
        stopped = lifecycle.down(home)
    if not stopped:
        check_processes(home, "down")
    if as_json:
        return print_json({"stopped": stopped})
    print(f"stopped {', '.join(stopped)}" if stopped else "nothing was running")


def status(context: typer.Context, as_json: AsJson = False) -> None:
    """Show the mesh's processes and sites, also when the coordinator does not answer.

    For a mesh of containers: show its sites, and the command that shows the containers.

    Example: `towpath status`
    """
    home = home_of(context)
    processes = lifecycle.processes(home)
    if not any(process.running for process in processes):
        if instead := compose_instead(home, "status"):
            say(f"this mesh runs as containers: `{instead}` shows them")
        else:
            raise nothing_runs(home)
    try:
        found = asyncio.run(ask(home, ListSites(), deadline_s=LOOK_ATTEMPT_S)).sites
    except TowpathError as error:
        if not processes:
            raise
        found, problem = None, error.detail.one_line()
    else:
        problem = None
    if as_json:
        return print_json({"processes": processes, "sites": found, "problem": problem})
    if processes:
        _print_processes(processes)
        print()
    if found is None:
        say(f"the coordinator does not answer: {problem}")
    else:
        _print_sites(found, as_json=False)


def sites(context: typer.Context, as_json: AsJson = False) -> None:
    """List all sites with their state, the addresses for devices, and their jobs.

    Example: `towpath sites --json`
    """
    _print_sites(asyncio.run(ask(home_of(context), ListSites())).sites, as_json)


def _spec(home: Home, sites: str | None, config: Path | None) -> MeshSpec:
    if sites is not None and config is not None:
        raise TowpathError(
            ErrorCode.INVALID, "two descriptions of the mesh", allowed="either --sites or --config"
        )
    if config is not None:
        return load_spec(config)
    if sites is not None:
        return spec_of_sites(sites)
    if home.state.exists():
        return MeshState.load(home).spec
    return load_spec(DEFAULT_CONFIG) if DEFAULT_CONFIG.exists() else spec_of_sites(DEFAULT_SITES)


def _piloted(home: Home, spec: MeshSpec, mode: AutopilotMode) -> MeshSpec:
    """Return the spec with a mode of the autopilot; what it does not say of the rest stays as it was."""
    said = "autopilot" in spec.model_fields_set or not home.state.exists()
    kept = (spec if said else MeshState.load(home).spec).autopilot
    return spec.model_copy(update={"autopilot": kept.model_copy(update={"mode": mode})})


def check_container_sites(spec: MeshSpec) -> None:
    """Make sure that each site with containers has a daemon and its image.

    Blocks, because an image may have to be loaded. Raises `TowpathError` with the site and the setting."""
    for index, site in enumerate(spec.sites):
        if site.container.is_docker:
            try:
                _check(site)
            except TowpathError as error:
                raise _at_site(error, index, site) from error


def _check(site: SiteSpec) -> None:
    container = site.container
    check(container.docker_host)
    images.ensure(container.image, container.image_archive, container.docker_host)


def _at_site(error: TowpathError, index: int, site: SiteSpec) -> TowpathError:
    detail = error.detail
    field = detail.field
    if field is not None and field.startswith("container."):
        field = f"sites.{index}.{field}"
    told = detail.model_copy(update={"message": f"{site.name}: {detail.message}", "field": field})
    return TowpathError.of(told)


def _print_sites(found: list[SiteStatus], as_json: bool) -> None:
    if as_json:
        return print_json(found)
    print_table(SITE_COLUMNS, [_site_row(site) for site in found], nothing="no sites")


def _site_row(site: SiteStatus) -> tuple[object, ...]:
    memory = sum(process.memory_mb for process in site.processes)
    copies = {job.job for job in site.jobs if job.state is JobState.STANDBY}
    jobs = ", ".join(f"{job.job} (standby)" if job.job in copies else job.job for job in site.jobs) or None
    mqtt = f"{site.mqtt_host}:{site.mqtt_port}"
    version = site.version or None
    return site.site, site.state, mqtt, site.nats_url, jobs, f"{memory:.0f} MB", version, site.error


def _print_processes(processes: list[ProcessStatus]) -> None:
    rows = [
        (p.name, "running" if p.running else "ended", p.pid, p.restarts, f"{p.memory_mb:.0f} MB")
        for p in processes
    ]
    print_table(("process", "state", "pid", "restarts", "memory"), rows, nothing="no processes")
