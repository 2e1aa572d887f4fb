"""Play a scenario: from its name or file to a directory with journal, report and picture."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.scenario import Scenario, ScenarioMesh
from towpath.contracts.site import Durability
from towpath.contracts.topology import Topology
from towpath.lab.emulation.bringing_up import (
    DEFAULT_TAG,
    Plan,
    bring_up,
    check_free,
    emulation,
    nothing_up,
    take_down,
)
from towpath.lab.emulation.project import Project
from towpath.lab.harness.journal import FILE, Journal
from towpath.lab.harness.stage import Say, Stage, connected_stage, mesh_for, quiet, stage, standing
from towpath.lab.scenarios.checking import check_leased
from towpath.lab.scenarios.figures import RunFigures
from towpath.lab.scenarios.report import RunReport
from towpath.lab.scenarios.report_page import write_report
from towpath.lab.scenarios.run import Run
from towpath.lab.scenarios.variation import varied
from towpath.lab.topology.reading import read
from towpath.mesh.home import Home
from towpath.tasks import to_the_end


@dataclass(frozen=True)
class Play:
    """A scenario to play."""

    document: dict[str, Any]
    source: str
    """File or name of the library, for errors."""
    seed: int = 0
    allow_process: bool = False

    @property
    def scenario(self) -> Scenario:
        """The scenario as the seed varies it. Raises `TowpathError`."""
        return varied(self.document, self.seed, self.source)[0]


@asynccontextmanager
async def ground(needs: ScenarioMesh, own: Home, running: Home | None) -> AsyncIterator[Stage]:
    """Yield the mesh that runs under `running`. None: a new one under `own`, which ends with the block.

    Raises `TowpathError` if the running one lacks something that is needed.
    """
    if running is None and needs.jobs:
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            "a new mesh has no jobs",
            field="mesh.jobs",
            value=needs.jobs[0],
            allowed="with --home, on a mesh that runs them",
        )
    if needs.topology is not None:
        name = needs.topology
        own_or_running = (
            own_emulation(own, read(name)) if running is None else standing_emulation(running, name)
        )
        async with own_or_running as up:
            yield up
        return
    if running is None:
        async with stage(own, mesh_for(needs)) as up:
            yield up
        return
    async with standing(running) as up:
        check_mesh(needs, up)
        yield up


@asynccontextmanager
async def standing_emulation(home: Home, topology: str) -> AsyncIterator[Stage]:
    """Yield the topology that is up under `home`. Raises `TowpathError` if it is another one, or none is."""
    wanted, there = read(topology), await asyncio.to_thread(Project(home).standing)
    if there is None:
        raise nothing_up(home)
    if there.name != wanted.name:
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            "another topology is up here",
            field="mesh.topology",
            value=wanted.name,
            allowed=there.name,
        )
    async with emulation(home) as running, connected_stage(home, running) as up:
        yield up


@asynccontextmanager
async def own_emulation(
    home: Home,
    topology: Topology,
    tell: Callable[[str], None] = lambda text: None,
    tag: str = DEFAULT_TAG,
    artefact_root: str | None = None,
    *,
    keep: bool = False,
) -> AsyncIterator[Stage]:
    """Bring a topology up under `home`, with user code from `artefact_root`.

    Unless `keep`, it is taken down in the end. Raises `TowpathError`.
    """
    plan = Plan.of(topology)
    # Before anything is taken down: it may be someone else's.
    await asyncio.to_thread(check_free, Project(home), plan.topology)
    try:
        await bring_up(home, plan, tell, tag, artefact_root)
        async with emulation(home) as running, connected_stage(home, running) as up:
            yield up
    finally:
        if not keep:
            # Also when this task was cancelled: what was started ends.
            await to_the_end(take_down(home))


def check_mesh(needs: ScenarioMesh, up: Stage) -> None:
    """Raise `TowpathError` if a running mesh lacks something that a scenario needs."""
    known = list(up.mesh.sites)
    for site in needs.sites:
        if site not in known:
            raise TowpathError(
                ErrorCode.UNKNOWN_SITE,
                "the mesh has no such site",
                field="mesh.sites",
                value=site,
                allowed=known,
            )
        is_fast = up.mesh.site(site).spec.durability is Durability.FAST
        if needs.durability is Durability.POWER_SAFE and is_fast:
            raise TowpathError(
                ErrorCode.NOT_ALLOWED,
                f"{site} is not power-safe",
                field="mesh.durability",
                value=needs.durability,
                allowed="a mesh whose sites are",
            )
    if needs.emulate_links and not up.mesh.spec.emulate_links:
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            "the mesh emulates no links",
            field="mesh.emulate_links",
            value=False,
            allowed="a mesh started with `towpath up --emulate-links`",
        )


@dataclass(frozen=True)
class Played:
    """A run that is over: its report, and the lines of its journal."""

    report: RunReport
    lines: list[dict[str, Any]]


async def play_described(
    up: Stage,
    scenario: Scenario,
    output: Path,
    *,
    say: Say = quiet,
    put_back: bool = True,
    figures: RunFigures | None = None,
) -> Played:
    """Run a scenario that a function describes; `output` gets its journal. All else: see `Run`."""
    with Journal(output / FILE) as journal:
        run = Run(up, scenario, journal, put_back=put_back, say=say)
        run.figures = figures or run.figures
        report = await run.play()
    return Played(report, journal.lines)


async def play_on(up: Stage, play: Play, output: Path | None) -> RunReport:
    """Run a scenario; `output` gets journal, report and picture. Raises `TowpathError` for a bad scenario."""
    scenario, chosen = varied(play.document, play.seed, play.source)
    with Journal(None if output is None else output / FILE) as journal:
        run = Run(up, scenario, journal, play.seed, play.source, chosen, play.allow_process)
        report = await run.play()
    if output is not None:
        await asyncio.to_thread(write_report, output)
    return report


async def play(play: Play, output: Path, running: Home | None = None) -> RunReport:
    """Run one scenario on a mesh of its own under `output`, or on one that runs."""
    scenario = play.scenario
    if running is not None:
        check_leased(scenario)
    async with ground(scenario.mesh, Home((output / "mesh").absolute()), running) as up:
        return await play_on(up, play, output)
