"""Order the moves from one placement to another so that no site is overloaded on the way.

A job that moves live occupies its new site while it still runs at the old one. So a move is possible when the
new site has room for the job beside all that is there. Jobs move one after the other.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from towpath.placement.jobs.evaluation import TOLERANCE
from towpath.placement.jobs.view import MeshView, Placement

MOST_PLACEMENTS = 20_000
"""Placements on the way that are looked at before the search gives up."""


@dataclass(frozen=True)
class Move:
    """A job changes its site."""

    job: str
    origin: str
    target: str
    temporary: bool = False
    """True if the job moves on later: it makes room."""


class NoSafeOrder(ValueError):
    """No order of moves avoids an overload."""

    def __init__(self, jobs: list[str], proven: bool) -> None:
        self.jobs = jobs
        self.proven = proven
        """True if there is no order. False if none was found among `MOST_PLACEMENTS`."""
        super().__init__(
            f"jobs {', '.join(jobs)} cannot move one after the other: a site would be overloaded on the way; "
            "stop one of them first, or free cores or memory at a site that may run one of them"
        )


def order_of_moves(view: MeshView, current: Placement, wanted: Placement) -> tuple[Move, ...]:
    """Return moves that lead from one placement to another. Only jobs whose place changes move.

    Each job moves straight to its place if an order allows that; otherwise some wait at a temporary site
    that may run them. Then the number of moves is the least. Raise `NoSafeOrder` if there is no order.
    """
    rooms = _Rooms(view)
    straight = _straight(rooms, current, wanted)
    return _shortest(rooms, current, wanted) if straight is None else straight


class _Rooms:
    """The needs of jobs and the room of sites."""

    def __init__(self, view: MeshView) -> None:
        self.view = view
        self._needs = {job.name: (view.cores_of(job), job.memory_mb) for job in view.jobs}

    def has_room(self, places: Placement, job: str, site: str) -> bool:
        """True if a job may move to a site as jobs are placed now."""
        there = [self._needs[other] for other, place in places.items() if place == site]
        limits = self.view.site[site].cores, self.view.site[site].memory_mb
        return self.view.job[job].may_run_at(site) and all(
            sum(needs[kind] for needs in there) + self._needs[job][kind] <= limit + TOLERANCE
            for kind, limit in enumerate(limits)
        )


def _straight(rooms: _Rooms, current: Placement, wanted: Placement) -> tuple[Move, ...] | None:
    """Return moves straight to the final places; None if that leads to a standstill.

    A move to a final place only frees room that others may need, so the order among possible ones is free.
    """
    places = dict(current)
    moves: list[Move] = []
    left = _changing(rooms.view, current, wanted)
    while left:
        job = next((one for one in left if rooms.has_room(places, one, wanted[one])), None)
        if job is None:
            return None
        moves.append(Move(job, places[job], wanted[job]))
        places[job] = wanted[job]
        left.remove(job)
    return tuple(moves)


def _shortest(rooms: _Rooms, current: Placement, wanted: Placement) -> tuple[Move, ...]:
    """Return the least number of moves, by breadth-first search over placements."""
    jobs = _changing(rooms.view, current, wanted)
    final = tuple(wanted[job] for job in jobs)
    begin = tuple(current[job] for job in jobs)
    came: dict[tuple[str, ...], tuple[tuple[str, ...], Move] | None] = {begin: None}
    queue = deque([begin])
    while queue and len(came) <= MOST_PLACEMENTS:
        state = queue.popleft()
        if state == final:
            return tuple(_way(came, state))
        places = {**current, **dict(zip(jobs, state, strict=True))}
        for number, job in enumerate(jobs):
            for site in (final[number], *rooms.view.site):
                following = (*state[:number], site, *state[number + 1 :])
                if following not in came and rooms.has_room(places, job, site):
                    came[following] = state, Move(job, state[number], site, site != final[number])
                    queue.append(following)
    raise NoSafeOrder(jobs, proven=not queue)


def _way(
    came: dict[tuple[str, ...], tuple[tuple[str, ...], Move] | None], state: tuple[str, ...]
) -> list[Move]:
    moves: list[Move] = []
    while (step := came[state]) is not None:
        state, move = step
        moves.append(move)
    return moves[::-1]


def _changing(view: MeshView, current: Placement, wanted: Placement) -> list[str]:
    return [job.name for job in view.jobs if current[job.name] != wanted[job.name]]
