"""From a scenario's name or file to a directory with journal, report and picture."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.scenario import Scenario, ScenarioMesh
from towpath.lab.harness.journal import FILE, Journal
from towpath.lab.harness.stage import Stage, small_mesh, stage, standing
from towpath.lab.scenarios.emulated import own_emulation, standing_emulation
from towpath.lab.scenarios.report import RunReport
from towpath.lab.scenarios.report_page import write_report
from towpath.lab.scenarios.run import Run
from towpath.lab.scenarios.variation import varied
from towpath.mesh.home import Home


@dataclass(frozen=True)
class Play:
    """What is to be run."""

    document: dict[str, Any]
    source: str
    """Where it was read, for errors."""
    seed: int = 0
    allow_process: bool = False

    @property
    def scenario(self) -> Scenario:
        """As the seed wants it. Raises `TowpathError`."""
        return varied(self.document, self.seed, self.source)[0]


@asynccontextmanager
async def ground(needs: ScenarioMesh, own: Home, running: Home | None) -> AsyncIterator[Stage]:
    """A mesh to play on: the one that runs under `running`, else a new one under `own`, which ends with it.

    Raises `TowpathError` when the running one has not what is needed.
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
        async with own_emulation(own, name) if running is None else standing_emulation(running, name) as up:
            yield up
        return
    if running is None:
        spec = small_mesh(needs.sites, emulate_links=needs.emulate_links)
        async with stage(own, spec) as up:
            yield up
        return
    async with standing(running) as up:
        check_mesh(needs, up)
        yield up


def check_mesh(needs: ScenarioMesh, up: Stage) -> None:
    """Raise `TowpathError` when a mesh that runs has not what a scenario needs."""
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
    if needs.emulate_links and not up.mesh.spec.emulate_links:
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            "the mesh emulates no links",
            field="mesh.emulate_links",
            value=False,
            allowed="a mesh started with `towpath up --emulate-links`",
        )


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
    needs = play.scenario.mesh
    async with ground(needs, Home((output / "mesh").absolute()), running) as up:
        return await play_on(up, play, output)
