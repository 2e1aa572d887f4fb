"""The demonstration on a mesh of containers: the main job moves, then a site is killed."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path

from towpath.contracts.commands import StrategyName
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import Model
from towpath.lab.containers.projects import until_healthy
from towpath.lab.demonstration.pipeline import CLOUD, EDGES, MOVING_JOB, edge_of
from towpath.lab.demonstration.report import DemonstrationReport, EvacuationReport
from towpath.lab.demonstration.run import demonstrate
from towpath.lab.demonstration.scenario import DemonstrationOptions, leaving_scenario, moving_scenario
from towpath.lab.emulation.bringing_up import take_down
from towpath.lab.emulation.project import Project, check_images
from towpath.lab.harness.stage import Say, Stage
from towpath.lab.scenarios.playing import own_emulation, play_described
from towpath.lab.topology.reading import read
from towpath.mesh.home import Home

HEALTHY_S = 120.0
"""Seconds for health checks to notice that all sites are up."""

MOVES_FROM = edge_of(MOVING_JOB)


class ContainersReport(Model):
    """The report of a run, and the seconds that its parts took."""

    up_s: float
    """From the first container to all sites up and everything healthy."""
    main: DemonstrationReport
    """The main job, moved between containers."""
    evacuation: EvacuationReport
    """The job that left a container which was killed."""
    down_s: float = 0.0
    seconds: float = 0.0

    @property
    def clean(self) -> bool:
        """True if nothing was lost, repeated or wrong in either part."""
        return self.main.clean and self.evacuation.clean


@dataclass
class ContainersDemonstration:
    """One run, on containers of its own."""

    output: Path
    """Where the mesh and the journals go."""
    described: str
    """File of a topology. Its nodes are airports, with that of the main job, and the cloud."""
    say: Say
    events: int = 9000
    """Departures of each airport."""
    rate: float = 150.0
    """Events per second at each airport."""
    tag: str = "local"
    keep: bool = False
    """Leave everything running afterwards."""

    def __post_init__(self) -> None:
        """Choose the site that is killed. Raises `TowpathError` for a topology that does not fit."""
        topology = read(self.described)
        # A mesh of the same description may be up.
        nodes = [node.model_copy(update={"nats_port": 0, "mqtt_port": 0}) for node in topology.nodes]
        self.topology = topology.model_copy(update={"nodes": nodes})
        names = {node.name for node in nodes}
        self.edges = tuple(edge for edge in EDGES if edge in names)
        others = [edge for edge in self.edges if edge != MOVES_FROM]
        if not {MOVES_FROM, CLOUD} <= names or not others:
            raise TowpathError(
                ErrorCode.INVALID,
                "the demonstration needs other sites",
                field="nodes",
                value=sorted(names),
                allowed=f"{MOVES_FROM}, {CLOUD}, and another of {', '.join(EDGES)}",
            )
        self.killed = others[0]
        self.home = Home((self.output / "mesh").absolute())

    async def run(self) -> ContainersReport:
        """Run everything in order, and remove it in the end. Raises `TowpathError`."""
        begun = time.monotonic()
        await asyncio.to_thread(check_images, self.tag)
        await take_down(self.home)
        async with own_emulation(self.home, self.topology, self.say, self.tag, keep=self.keep) as stage:
            await asyncio.to_thread(until_healthy, Project(self.home).name, HEALTHY_S)
            self.say("all sites are up, all containers healthy")
            up_s = time.monotonic() - begun
            main, evacuation = await self._main(stage), await self._evacuation(stage)
            ending = time.monotonic()
            self.say("leaving everything" if self.keep else "taking everything away")
        return ContainersReport(
            up_s=round(up_s, 1),
            main=main,
            evacuation=evacuation,
            down_s=0.0 if self.keep else round(time.monotonic() - ending, 1),
            seconds=round(time.monotonic() - begun, 1),
        )

    async def _main(self, stage: Stage) -> DemonstrationReport:
        options = DemonstrationOptions(self.events, self.edges, self.rate, strategy=StrategyName.HANDOVER)
        scenario = moving_scenario(options, self.described)
        return (await demonstrate(stage, options, scenario, self.output, self.say)).report

    async def _evacuation(self, stage: Stage) -> EvacuationReport:
        scenario = leaving_scenario(MOVES_FROM, self.killed, CLOUD, self.described)
        # Not put back: the node that was killed stays away.
        output = self.output / "evacuation"
        return EvacuationReport.of(
            await play_described(stage, scenario, output, say=self.say, put_back=False)
        )
