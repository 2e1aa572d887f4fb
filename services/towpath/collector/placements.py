"""Propose where jobs should be: the present picture of the mesh, a policy, and the moves that lead there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from towpath.bus import Bus
from towpath.collector.federation import Federation
from towpath.collector.new_places import figures_of, finite, new_places, no_room
from towpath.composition.mesh_view import Picture
from towpath.contracts.commands import JobList
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.placement import (
    JobPlace,
    NewPlaces,
    PlacementProposal,
    PlaceNewJobs,
    ProposedMove,
    ProposePlacement,
)
from towpath.contracts.site import SiteSpec
from towpath.mesh.present_picture import present_jobs, present_picture
from towpath.placement.jobs.moves import Move, NoSafeOrder, order_of_moves
from towpath.placement.jobs.policy import NoFeasiblePlacement
from towpath.placement.jobs.price import price_of
from towpath.placement.jobs.view import MeshView, Placement, avoiding


class Placements:
    """Answers `ProposePlacement` and `PlaceNewJobs`."""

    def __init__(self, bus: Bus, federation: Federation, specs: Callable[[], list[SiteSpec]]) -> None:
        """`specs` returns the settings of all sites, and blocks."""
        self._bus = bus
        self._federation = federation
        self._specs = specs

    async def propose(self, command: ProposePlacement) -> PlacementProposal:
        """Return a proposal. Raises `TowpathError`: an unknown name, no room, or no answer."""
        # Here: policies need numpy, which takes 15 MB, and few meshes ask.
        from towpath.placement.jobs.policies.registry import POLICIES

        if command.policy not in POLICIES:
            raise TowpathError.unknown("policy", command.policy, POLICIES)
        jobs = await present_jobs(self._bus)
        await self._check(command, jobs)
        seen = await present_picture(
            self._bus, self._specs, self._federation.query, jobs, movable=command.jobs
        )
        current = {job.spec.name: job.site for job in jobs.jobs if job.spec.name in seen.view.job}
        # A large mesh takes seconds.
        return await asyncio.to_thread(_proposal, command, seen, current)

    async def place_new(self, command: PlaceNewJobs) -> NewPlaces:
        """Return places for new jobs. Raises `TowpathError`: no room, or no answer."""
        jobs = await present_jobs(self._bus)
        seen = await present_picture(self._bus, self._specs, self._federation.query, jobs)
        return await asyncio.to_thread(new_places, command, seen, jobs.jobs)

    async def _check(self, command: ProposePlacement, jobs: JobList) -> None:
        """Raise `TowpathError` if a job or site that it names is unknown."""
        for name in command.jobs or []:
            jobs.named(name, field="jobs")
        known = [spec.name for spec in await asyncio.to_thread(self._specs)]
        for site in command.avoid:
            if site not in known:
                raise TowpathError.unknown("site", site, known, field="avoid")


def _proposal(command: ProposePlacement, seen: Picture, current: Placement) -> PlacementProposal:
    view = seen.view
    wanted = _wanted(command, avoiding(view, command.avoid) if command.avoid else view, current)
    moves = _moves(view, current, wanted)
    return PlacementProposal(
        policy=command.policy,
        age_s=view.age_s,
        jobs=[
            JobPlace(
                job=job.name,
                current=current[job.name],
                proposed=wanted[job.name],
                cores=view.cores_of(job),
                stays=seen.stays.get(job.name),
            )
            for job in view.jobs
        ],
        current=figures_of(view, current),
        proposed=figures_of(view, wanted),
        moves=moves,
    )


def _wanted(command: ProposePlacement, view: MeshView, current: Placement) -> Placement:
    """Return the places that the policy wants. Raises `TowpathError`."""
    from towpath.placement.jobs.policies.registry import policy

    given = {"weight": command.weight, "beta": command.beta}
    try:
        chosen = policy(command.policy, **{name: each for name, each in given.items() if each is not None})
    except ValueError as error:
        known = "weight for energy, beta for quality"
        said = next(name for name, each in given.items() if each is not None)
        raise TowpathError(
            ErrorCode.INVALID, str(error), field=said, value=given[said], allowed=known
        ) from error
    try:
        return chosen.place(view) if view.jobs else current
    except NoFeasiblePlacement as error:
        raise no_room(error) from error


def _moves(view: MeshView, current: Placement, wanted: Placement) -> list[ProposedMove]:
    try:
        return [_move(view, each) for each in order_of_moves(view, current, wanted)]
    except NoSafeOrder as error:
        raise TowpathError(
            ErrorCode.NOT_ALLOWED, str(error), field="jobs", value=error.jobs, allowed="room for one of them"
        ) from error


def _move(view: MeshView, move: Move) -> ProposedMove:
    price = price_of(view, [move])
    return ProposedMove(
        job=move.job,
        origin=move.origin,
        target=move.target,
        temporary=move.temporary,
        state_bytes=price.state_bytes,
        transfer_s=finite(price.seconds),
    )
