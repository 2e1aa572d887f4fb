"""The demonstration on a mesh of containers: the main job moves, then a site is killed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from towpath.contracts.commands import StrategyName
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import Model
from towpath.contracts.topology import Topology
from towpath.lab.containers import control
from towpath.lab.containers.projects import until_healthy
from towpath.lab.demonstration.evacuation import Evacuation, EvacuationReport
from towpath.lab.demonstration.pipeline import CLOUD, EDGES, MOVING_JOB
from towpath.lab.demonstration.report import DemonstrationReport
from towpath.lab.demonstration.run import Demonstration, DemonstrationOptions
from towpath.lab.emulation.project import Project, check_images
from towpath.lab.harness.stage import connected_stage
from towpath.mesh.home import Home
from towpath.tasks import to_the_end

UP_S = 360.0
"""Seconds for all engines to answer: one starts in ten seconds, several on a busy machine in minutes."""

HEALTHY_S = 120.0
"""Seconds for health checks to notice it."""

MOVES_FROM = MOVING_JOB.rsplit("-", 1)[1]

Tell = Callable[[str], None]


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

    home: Home
    topology: Topology
    """Its nodes are airports, with that of the main job, and the cloud."""
    tell: Tell
    events: int = 9000
    """Departures of each airport."""
    rate: float = 150.0
    """Events per second at each airport."""
    tag: str = "local"
    keep: bool = False
    """Leave everything running afterwards."""

    def __post_init__(self) -> None:
        """Choose the site that is killed. Raises `TowpathError` for a topology that does not fit."""
        names = {node.name for node in self.topology.nodes}
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
        self.project = Project(self.home)

    async def run(self) -> ContainersReport:
        """Run everything in order, and remove it in the end. Raises `TowpathError`."""
        begun = time.monotonic()
        await asyncio.to_thread(check_images, self.tag)
        await to_the_end(asyncio.to_thread(self.project.remove))
        try:
            await self._up()
            up_s = time.monotonic() - begun
            report = await self._demonstrate(round(up_s, 1))
        finally:
            down_s = 0.0 if self.keep else await self._down()
        seconds = round(time.monotonic() - begun, 1)
        return report.model_copy(update={"down_s": round(down_s, 1), "seconds": seconds})

    async def _up(self) -> None:
        self.tell("starting containers")
        # A thread that is not awaited would go on making files that are about to be removed.
        await to_the_end(asyncio.to_thread(self.project.write, self.topology, self.tag))
        await to_the_end(asyncio.to_thread(self._start))
        self.tell("waiting for engines")
        async with connected_stage(self.home) as stage:
            try:
                await stage.until_settled(None, UP_S)
            except TowpathError as error:
                said = await asyncio.to_thread(self.project.troubles)
                message = "; ".join([error.detail.message, *said])
                raise TowpathError.of(error.detail.model_copy(update={"message": message})) from error
        await asyncio.to_thread(until_healthy, self.project.name, HEALTHY_S)
        self.tell("all sites are up, all containers healthy")

    def _start(self) -> None:
        """Start the containers of services, then those of sites."""
        self.project.create()
        containers = self.project.containers()
        for node in self.topology.nodes:
            control.start(containers[node.name])

    async def _demonstrate(self, up_s: float) -> ContainersReport:
        options = DemonstrationOptions(self.events, self.edges, self.rate, strategy=StrategyName.HANDOVER)
        async with connected_stage(self.home) as stage:
            demonstration = Demonstration(stage, options, self.tell)
            outcome = await demonstration.run()
            evacuation = Evacuation(
                demonstration,
                self._kill,
                devices=MOVES_FROM,
                source=self.killed,
                target=CLOUD,
                events=min(self.events, 4000),
                rate=self.rate,
            )
            left = await evacuation.run()
        return ContainersReport(up_s=up_s, main=outcome.report, evacuation=left)

    async def _kill(self) -> None:
        """Kill the container of the site, with its server, its engine and its agent."""
        containers = await asyncio.to_thread(self.project.containers)
        await asyncio.to_thread(control.kill, containers[self.killed])

    async def _down(self) -> float:
        self.tell("taking everything away")
        begun = time.monotonic()
        await to_the_end(asyncio.to_thread(self.project.remove))
        return time.monotonic() - begun
