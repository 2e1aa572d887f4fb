"""Surveys what exists in the mesh at the moment, so that rules can be checked."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from towpath.bus import Bus
from towpath.containers.daemon import daemon
from towpath.containers.daemon import listed as listed_containers
from towpath.containers.running import own_id
from towpath.contracts.commands import ListJobs
from towpath.contracts.errors import TowpathError
from towpath.contracts.faults import OnTarget, Rule, TargetKind
from towpath.lab.faults.world import World
from towpath.lab.guard.process import guard_name
from towpath.mesh.home import Home
from towpath.mesh.names import SUPERVISOR
from towpath.mesh.service_table import processes_of
from towpath.mesh.state import MeshState
from towpath.processes import listed

log = logging.getLogger(__name__)

JOBS_S = 2.0
"""For the coordinator's answer. It may be what is broken on purpose."""

DOCKER_S = 2
"""For the answer of Docker's daemon, where there is one."""


class MeshSurvey:
    """Looks at the mesh."""

    def __init__(self, home: Home, bus: Bus) -> None:
        self._home = home
        self._bus = bus
        self._jobs: list[str] = []
        """As last known: a coordinator that is away forgets none."""

    async def mesh(self) -> MeshState:
        """Return the mesh as it is saved now. Raises `TowpathError`."""
        return await asyncio.to_thread(MeshState.load, self._home)

    async def world(self, rules: Iterable[Rule]) -> World:
        """Return what exists, as far as these rules are about it."""
        rules = list(rules)
        mesh = await self.mesh()
        if any(rule.where.job is not None for rule in rules):
            named = {rule.where.job for rule in rules if rule.where.job is not None}
            await self._ask_for_jobs(named)
        about_containers = any(_target(rule) is TargetKind.CONTAINER for rule in rules)
        return await asyncio.to_thread(self._look, mesh, about_containers)

    async def everything(self) -> World:
        """Return what exists."""
        await self._ask_for_jobs(frozenset())
        return await asyncio.to_thread(self._look, await self.mesh(), True)

    def running(self, world: World) -> World:
        """Return the same with only those processes that run now and carry rules out. Blocks for a moment."""
        running = (record.name for record in listed(self._home.run) if record.process is not None)
        able = (name for name in running if name != SUPERVISOR and not name.endswith(guard_name("")))
        return replace(world, processes=frozenset(able))

    async def _ask_for_jobs(self, named: Iterable[str]) -> None:
        """Take `named` for jobs when the coordinator does not say."""
        try:
            jobs = (await self._bus.request(ListJobs(), deadline_s=JOBS_S)).jobs
            self._jobs = [job.spec.name for job in jobs]
        except TowpathError as error:
            log.warning("which jobs there are is not known: %s", error)
            self._jobs = sorted({*self._jobs, *named})

    def _look(self, mesh: MeshState, about_containers: bool) -> World:
        sites = sorted(mesh.sites)
        known = {record.name for record in listed(self._home.run)}
        # Also while one of them is just restarting.
        expected = {SUPERVISOR, *processes_of(mesh.spec, mesh.sites_here)}
        return World(
            sites=frozenset(sites),
            processes=frozenset(known | expected),
            links=frozenset(sites) if mesh.spec.emulate_links else frozenset(),
            jobs=frozenset(self._jobs),
            **(_containers() if about_containers else {}),
        )


def _target(rule: Rule) -> TargetKind | None:
    return rule.event.target if isinstance(rule.event, OnTarget) else None


def _containers() -> dict[str, Any]:
    """Return a world's fields about containers: which there are, on which networks, or why none is known."""
    try:
        with daemon(answer_s=DOCKER_S) as docker:
            found = listed_containers(docker)
        own = own_id()
    except TowpathError as error:
        return {"without_daemon": error.detail}
    networks = {each.name: each.networks for each in found}
    own_name = next((each.name for each in found if each.id == own), None)
    return {"containers": frozenset(networks), "networks": networks, "own_container": own_name}
