"""Propose where jobs should be: the present picture of the mesh, a policy, and the moves that lead there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import timedelta

from towpath.bus import Bus
from towpath.collector.federation import Federation
from towpath.composition.mesh_view import NEWEST, RATES, Measurements, Picture, picture
from towpath.contracts.commands import JobList, ListJobs, ListSites
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import now
from towpath.contracts.metrics import MAX_POINTS, QueryMetrics
from towpath.contracts.pipeline_commands import ListPipelines
from towpath.contracts.placement import (
    JobPlace,
    PlacementFigures,
    PlacementProposal,
    ProposedMove,
    ProposePlacement,
)
from towpath.contracts.site import SiteSpec, SiteState
from towpath.placement.jobs.evaluation import evaluate
from towpath.placement.jobs.moves import Move, NoSafeOrder, order_of_moves
from towpath.placement.jobs.policy import NoFeasiblePlacement
from towpath.placement.jobs.price import price_of
from towpath.placement.jobs.view import MeshView, Placement, avoiding

ASK_S = 5.0
"""Deadline of a question to the coordinator."""

RATES_S, STEP_S = 300.0, 60.0
"""Rates and CPU time are means of so many seconds, because a micro-batch takes much at once."""


class Placements:
    """Answers `ProposePlacement`."""

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
        jobs = await self._bus.request(ListJobs(), deadline_s=ASK_S)
        seen = await self._picture(command, jobs)
        current = {job.spec.name: job.site for job in jobs.jobs if job.spec.name in seen.view.job}
        # A large mesh takes seconds.
        return await asyncio.to_thread(_proposal, command, seen, current)

    async def _picture(self, command: ProposePlacement, jobs: JobList) -> Picture:
        for name in command.jobs or []:
            jobs.named(name, field="jobs")
        statuses = (await self._bus.request(ListSites(), deadline_s=ASK_S)).sites
        pipelines = (await self._bus.request(ListPipelines(), deadline_s=ASK_S)).pipelines
        up = {status.site for status in statuses if status.state is not SiteState.DOWN}
        specs = await asyncio.to_thread(self._specs)
        for site in command.avoid:
            if site not in (known := [spec.name for spec in specs]):
                raise TowpathError.unknown("site", site, known, field="avoid")
        described = {job.name: job for view in pipelines for job in view.spec.jobs}
        sites = [spec for spec in specs if spec.name in up]
        return picture(sites, jobs.jobs, described, await self._measured(), time.time(), command.jobs)

    async def _measured(self) -> Measurements:
        since = now() - timedelta(seconds=RATES_S)
        newest = QueryMetrics(metrics=[*NEWEST], limit=MAX_POINTS)
        rates = QueryMetrics(metrics=[*RATES], since=since, step_s=STEP_S, limit=MAX_POINTS)
        found = await asyncio.gather(*map(self._federation.query, (newest, rates)))
        return Measurements(series for each in found for series in each.series)


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
        current=_figures(view, current),
        proposed=_figures(view, wanted),
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
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            str(error),
            field="jobs",
            value=error.job,
            allowed="jobs that need less, or sites that have more",
        ) from error


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
        transfer_s=price.seconds,
    )


def _figures(view: MeshView, placement: Placement) -> PlacementFigures:
    found = evaluate(view, placement)
    return PlacementFigures(
        latency_s=found.latency_s,
        power_w=found.power_w,
        checked_share=found.checked_share,
        bytes_per_s=sum(found.link_bytes_per_s.values()),
        shortages=[str(each) for each in found.shortages],
    )
