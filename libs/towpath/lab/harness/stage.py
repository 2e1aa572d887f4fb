"""A mesh for a trial: started with given sites and settings, watched, and stopped whatever happens."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from nats.errors import Error as NatsError

from towpath.bus import Bus
from towpath.contracts.autopilot import AutopilotMode, AutopilotSpec
from towpath.contracts.commands import JobView, ListJobs, ListSites
from towpath.contracts.credential import Credential
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import JobState, ResolvedOutput
from towpath.contracts.scenario import ScenarioMesh
from towpath.contracts.site import (
    Durability,
    EngineSpec,
    FaultSettings,
    MeshSpec,
    SiteSpec,
    SiteState,
    SiteStatus,
)
from towpath.contracts.tls import TlsSpec
from towpath.mesh import lifecycle
from towpath.mesh.home import Home
from towpath.mesh.names import is_engine_process
from towpath.mesh.service_table import processes_of
from towpath.mesh.state import MeshState
from towpath.processes import find
from towpath.streams.stream_view import stream_view
from towpath.tasks import to_the_end

if TYPE_CHECKING:
    from towpath.lab.emulation.emulation import Emulation

ENGINE = EngineSpec(spark_master="local[2]", memory="640m", state_memory_mb=64)
"""Small: several engines share a machine, and together with all else they stay well inside 12 GiB."""

UP_S = 240.0
"""Seconds for all sites to start: more than twice what four engines need on two quiet cores."""

ASK_S, ATTEMPT_S = 6.0, 2.0
LOOK_EVERY_S = 0.3


Say = Callable[[str], None]
"""Shows people in a few words what is under way."""


def quiet(text: str) -> None:
    """Say nothing."""


@dataclass
class Stage:
    """A mesh that is up, and two connections to its hub."""

    home: Home
    mesh: MeshState
    bus: Bus
    """With the operator's rights: commands the coordinator, hears everything."""
    prompter: Bus
    """With the coordinator's rights: repeats its commands, hears the replies to it."""
    emulation: Emulation | None = None
    """Set if the sites are nodes of an emulated topology."""

    async def connected(self, name: str) -> Bus:
        """Open a further connection with the operator's rights. Raises `TowpathError`."""
        return await connection_to(self.mesh, self.mesh.operator, name)

    async def ask_jobs(self) -> list[JobView]:
        """Return all jobs. Raises `TowpathError` if the coordinator does not answer."""
        return (await self.bus.request(ListJobs(), deadline_s=ASK_S, attempt_s=ATTEMPT_S)).jobs

    async def find_job(self, name: str) -> JobView | None:
        """Return a job; None if there is none of this name. Raises as `ask_jobs`."""
        return next((view for view in await self.ask_jobs() if view.spec.name == name), None)

    async def ask_job(self, name: str) -> JobView:
        """Return a job. Raises `TowpathError` if there is none of this name, or no answer."""
        if (view := await self.find_job(name)) is None:
            raise TowpathError(ErrorCode.UNKNOWN_JOB, "the job is not there", field="job", value=name)
        return view

    async def ask_sites(self) -> list[SiteStatus]:
        """Return all sites. Raises `TowpathError` if the coordinator does not answer."""
        return (await self.bus.request(ListSites(), deadline_s=ASK_S, attempt_s=ATTEMPT_S)).sites

    async def is_missed(self, site: str) -> bool:
        """Tell if the coordinator considers a site down. Raises `TowpathError` if it does not answer."""
        return any(each.site == site and each.state is SiteState.DOWN for each in await self.ask_sites())

    async def accepted_epochs(self, output: ResolvedOutput) -> list[int]:
        """Return the epochs that a job's output accepts. Raises `TimeoutError` if its site is away."""
        view = await stream_view(self.bus.connection, output.site, output.stream, timeout_s=ATTEMPT_S)
        return [] if view is None else view.epochs

    async def until_settled(self, job: str | None, within_s: float) -> JobView | None:
        """Wait until everything runs, and exactly one site owns the job. Return the job then.

        Raises `TowpathError` (deadline) with what is missing.
        """
        return await self._until(partial(self._standing, job), within_s)

    async def until_gone(self, job: str, within_s: float) -> None:
        """Wait until everything runs, and no site has the job. Raises `TowpathError` as `until_settled`."""
        await self._until(partial(self._without, job), within_s)

    async def _until(
        self, look: Callable[[float], Awaitable[tuple[JobView | None, list[str]]]], within_s: float
    ) -> JobView | None:
        loop = asyncio.get_running_loop()
        begun, end = time.time(), loop.time() + within_s
        while True:
            try:
                view, why_not = await look(begun)
            except (TowpathError, TimeoutError, NatsError) as error:
                view, why_not = None, [str(error)]
            if not why_not:
                return view
            if loop.time() > end:
                raise TowpathError(ErrorCode.DEADLINE, f"after {within_s:g} s: {'; '.join(why_not)}")
            await asyncio.sleep(LOOK_EVERY_S)

    async def _up(self, since: float) -> tuple[list[SiteStatus], list[str]]:
        """Return the sites, and what does not run."""
        missing = await asyncio.to_thread(self.not_running)
        if missing:
            return [], [f"{name} does not run" for name in missing]
        absent = self.absent()
        sites = [site for site in await self.ask_sites() if site.site not in absent]
        why_not = [_trouble(site) for site in sites if site.state is not SiteState.UP]
        return sites, why_not + [f"{s.site} has not been heard" for s in sites if s.at.timestamp() < since]

    async def _without(self, job: str, since: float) -> tuple[None, list[str]]:
        sites, why_not = await self._up(since)
        if not why_not and await self.find_job(job):
            why_not = [f"the registry has {job}, which was removed"]
        having = (each.site for each in sites if any(status.job == job for status in each.jobs))
        return None, why_not + [f"{site} has {job}, which was removed" for site in having]

    async def _standing(self, job: str | None, since: float) -> tuple[JobView | None, list[str]]:
        sites, why_not = await self._up(since)
        if job is None or why_not:
            return None, why_not
        view = await self.find_job(job)
        if view is None:
            return None, [f"the registry does not know {job}"]
        epochs = await self.accepted_epochs(view.output)
        return view, ownership_faults(view, sites, epochs)

    def absent(self) -> set[str]:
        """Return the sites that are not meant to be up now."""
        return self.emulation.away if self.emulation else set()

    def not_running(self) -> list[str]:
        """Return the processes that should run here and do not. Blocks.

        Engines run where jobs are. Their sites say how they are.
        """
        if self.home.own_commands.exists():
            return []  # Nor can processes in containers be seen from here.
        names = [
            name for name in processes_of(self.mesh.spec, self.mesh.sites_here) if not is_engine_process(name)
        ]
        return [name for name in names if find(self.home.run, name) is None]


def ownership_faults(view: JobView, sites: list[SiteStatus], accepted: list[int]) -> list[str]:
    """Return how registry, heartbeats and output stream disagree on the one owner of a job."""
    faults = [f"operation {view.operation} is under way"] if view.operation else []
    if accepted != [view.epoch]:
        faults.append(f"the output accepts epochs {accepted}, the registry says {view.epoch}")
    for site in sites:
        status = next((s for s in site.jobs if s.job == view.spec.name), None)
        if site.site != view.site:
            if status is not None and status.state is not JobState.STANDBY:
                faults.append(f"{site.site} has the job, too ({status.state})")
        elif status is None or status.state is not JobState.RUNNING or status.epoch != view.epoch:
            how = f"{status.state} at epoch {status.epoch}" if status else "unknown"
            faults.append(f"at its owner {site.site} the job is {how}")
    return faults


def _trouble(site: SiteStatus) -> str:
    return f"{site.site} is {site.state}" + (f": {site.error}" if site.error else "")


def small_mesh(
    names: Sequence[str],
    *,
    emulate_links: bool = True,
    durability: Durability = Durability.FAST,
    autopilot: AutopilotMode = AutopilotMode.OFF,
    encrypted: bool = False,
) -> MeshSpec:
    """Return a mesh of sites with small engines and these names. It admits fault rules."""
    return MeshSpec(
        sites=[SiteSpec(name=name, engine=ENGINE, durability=durability) for name in names],
        emulate_links=emulate_links,
        faults=FaultSettings(enabled=True),
        autopilot=AutopilotSpec(mode=autopilot),
        tls=TlsSpec(enabled=encrypted or None),
    )


def mesh_for(needs: ScenarioMesh) -> MeshSpec:
    """Return the mesh of processes that scenarios need."""
    return small_mesh(
        needs.sites,
        emulate_links=needs.emulate_links,
        durability=needs.durability,
        autopilot=needs.autopilot,
        encrypted=needs.encrypted,
    )


@asynccontextmanager
async def stage(home: Home, spec: MeshSpec, *, say: Say = quiet, keep: bool = False) -> AsyncIterator[Stage]:
    """Start a mesh under `home`, after deleting what is there. Unless `keep`, it is stopped in the end.

    `say` shows people what is under way. Raises `TowpathError` if the mesh does not come up.
    """
    begun = time.monotonic()
    names = ", ".join(site.name for site in spec.sites)
    say(f"starting {names}")
    await asyncio.to_thread(_clear, home)
    try:
        await asyncio.to_thread(lifecycle.up, home, spec)
        async with standing(home) as up:
            say(f"up after {time.monotonic() - begun:.0f} s: {names}")
            yield up
    finally:
        if not keep:
            # Even if this task was cancelled.
            await to_the_end(asyncio.to_thread(lifecycle.down, home))


@dataclass
class Stages:
    """Stages for many trials: a new one each time a trial has left the old one broken."""

    home: Home
    spec: MeshSpec
    say: Say = quiet
    restarts: int = 0
    """Restarts of the mesh."""

    async def until_empty(self, left: Sequence[Any]) -> AsyncGenerator[Stage, None]:
        """Yield stages until nothing is left to play. Close the iterator to end early.

        Raises `TowpathError` if a mesh does not come up.
        """
        while left:
            async with stage(self.home, self.spec, say=self.say) as up:
                yield up
            if left:
                self.restarts += 1
                await asyncio.to_thread(self._keep_logs)

    def _keep_logs(self) -> None:
        """Keep the logs of the broken mesh, before the next one takes its place."""
        # A number that is free: a drill that goes on keeps the logs of before.
        names = (self.home.root.parent / f"logs-of-broken-mesh-{number}" for number in count(1))
        self.home.logs.rename(next(path for path in names if not path.exists()))


@asynccontextmanager
async def standing(home: Home) -> AsyncIterator[Stage]:
    """Yield the mesh that runs under `home`, once everything is up. Raises `TowpathError`."""
    async with connected_stage(home) as up:
        await up.until_settled(None, UP_S)
        yield up


@asynccontextmanager
async def connected_stage(home: Home, emulation: Emulation | None = None) -> AsyncIterator[Stage]:
    """Connect to the mesh that runs under `home`, whatever its state. Raises `TowpathError`."""
    mesh = await asyncio.to_thread(MeshState.load, home)
    async with (
        await connection_to(mesh, mesh.operator, "laboratory") as bus,
        await connection_to(mesh, mesh.login("coordinator"), "laboratory prompter") as prompter,
    ):
        yield Stage(home, mesh, bus, prompter, emulation)


async def connection_to(mesh: MeshState, credential: Credential, name: str) -> Bus:
    """Connect to a mesh's hub with these rights. Raises `TowpathError`."""
    user, password, tls = credential.user, credential.password, mesh.hub_tls()
    return await Bus.connect(mesh.hub_url, user, password, name=name, within_s=UP_S, tls=tls)


def _clear(home: Home) -> None:
    lifecycle.down(home)
    shutil.rmtree(home.root, ignore_errors=True)
