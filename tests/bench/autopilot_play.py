"""Play a strategy in a world: what moves, which goals break, and what it takes.

The truth is computed apart from the predictions: minute by minute, with a backlog for each job. A job whose
site is down, or that cannot reach its stream, does nothing, and its work waits. Sites share their cores over
what waits. A job that moves counts as late for the seconds that its move takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Protocol

import numpy as np
from autopilot_world import (
    AIRPORTS,
    BATTERY_J,
    BROKERS,
    CHARGER_W,
    CLEAN,
    CLOUD,
    CLOUD_CORES,
    EDGE_CORES,
    GOALS,
    HOME,
    JOBS,
    MERGE,
    PLACES,
    SOLAR,
    STATE_BYTES,
    WINDOW,
    Flags,
    Floats,
    World,
    mesh,
)

from towpath.placement.jobs.evaluation import arrivals, link_bytes
from towpath.placement.jobs.moves import Move
from towpath.placement.jobs.view import MeshView, Placement

LOOK_MIN = 5
MOVE_S = (5, 11)
"""Seconds of a move, the second one excluded."""

UP, LINKED = np.ones(len(PLACES), bool), np.zeros(len(AIRPORTS), bool)
STEADY = (1.0,) * len(PLACES)


@dataclass(frozen=True)
class Moment:
    """Everything that a strategy may look at."""

    minute: int
    placement: Placement
    rates: Floats
    """Events/s of the last minutes, one for each airport."""
    up: Flags
    cut: Flags
    waiting: Mapping[str, float]
    """Job → core-seconds."""
    charge: list[tuple[float, float]]
    """Readings of the battery: seconds, share."""
    power_w: float
    """Of the site on battery, now."""


class Strategy(Protocol):
    """A way to decide."""

    def moves(self, moment: Moment) -> tuple[Move, ...]:
        """Return the moves to make now."""
        ...

    def expects(self, job: str) -> bool:
        """True if the last look saw ahead that a job will break its goal."""
        ...


@dataclass
class Outcome:
    """Figures of a play."""

    late_s: dict[str, float] = field(default_factory=lambda: dict.fromkeys(JOBS, 0.0))
    moves: int = 0
    refused: int = 0
    """Moves that could not be made: a site was down, or cut off."""
    joules: float = 0.0
    link_bytes: float = 0.0
    spells: int = 0
    """Times at which a job began to break its goal."""
    unforeseen: int = 0
    moving_s: float = 0.0
    """The part of lateness that is moves themselves."""
    returned: int = 0
    """Moves of jobs that moved less than half an hour before."""


@dataclass(frozen=True)
class Flow:
    """Constants of a placement: loads and bytes are linear in rates."""

    placement: Placement

    @cached_property
    def site(self) -> list[int]:
        """Number of each job's site."""
        return [PLACES.index(self.placement[job]) for job in JOBS]

    @cached_property
    def cores(self) -> Floats:
        """Cores that jobs need, for each event/s: rows are jobs, columns sources."""
        views = (mesh(unit, UP, LINKED, STEADY) for unit in np.eye(len(AIRPORTS)))
        return np.array([[view.cores_of(view.job[job]) for job in JOBS] for view in views]).T

    @cached_property
    def loads(self) -> Floats:
        """The same by site."""
        found = np.zeros((len(PLACES), len(AIRPORTS)))
        np.add.at(found, self.site, self.cores)
        return found

    @cached_property
    def bytes(self) -> Floats:
        """Bytes over links, for each event/s. Between a broker and its site they cost nothing."""
        views = (mesh(unit, UP, LINKED, STEADY) for unit in np.eye(len(AIRPORTS)))
        return np.array([far_bytes(view, self.placement) for view in views])

    @cached_property
    def latency_s(self) -> Mapping[str, float]:
        """Latency of each job while nothing waits."""
        return arrivals(mesh(np.full(len(AIRPORTS), 100.0), UP, LINKED, STEADY), self.placement, {})


@cache
def _flow(places: tuple[str, ...]) -> Flow:
    return Flow(dict(zip(JOBS, places, strict=True)))


def flow_of(placement: Placement) -> Flow:
    """Return the constants of a placement, which are computed once."""
    return _flow(tuple(placement[job] for job in JOBS))


def far_bytes(view: MeshView, placement: Placement) -> float:
    """Return bytes/s between airports, or to the cloud."""
    return sum(sent for (a, b), sent in link_bytes(view, placement).items() if a[:3] != b[:3])


CAPACITY = np.array([EDGE_CORES] * len(AIRPORTS) + [CLOUD_CORES])
IDLE_W, ADDED_W = np.array([8.0, 8, 8, 80]), np.array([12.0, 12, 12, 120])


class Play:
    """One strategy from the first minute to the last."""

    def __init__(self, world: World, strategy: Strategy, seed: int = 1) -> None:
        self.world, self.strategy = world, strategy
        self.outcome = Outcome()
        self.placement = dict(HOME)
        self.waiting = dict.fromkeys(JOBS, 0.0)
        self._chance = np.random.default_rng(seed)
        self._moved: dict[str, int] = {}
        self._late: set[str] = set()
        self._energy_j = BATTERY_J
        self._charge: list[tuple[float, float]] = []
        self._power_w = 0.0

    def run(self) -> Outcome:
        """Play it."""
        for minute in range(0, self.world.minutes, LOOK_MIN):
            self._look(minute)
            self._live(minute)
        return self.outcome

    def _look(self, minute: int) -> None:
        before = max(minute - LOOK_MIN, 0)
        rates = self.world.rates[:, before : max(minute, 1)].mean(axis=1)
        self._charge = [*self._charge[-11:], (60.0 * minute, self._energy_j / BATTERY_J)]
        up = self._up(minute)
        moment = Moment(
            *(minute, dict(self.placement), rates, up, self.world.cut[:, minute]),
            {job: core_s for job, core_s in self.waiting.items() if core_s > 0},
            self._charge,
            self._power_w,
        )
        for move in self.strategy.moves(moment):
            if not possible(move, moment):
                self.outcome.refused += 1
                continue
            self.placement[move.job] = move.target
            seconds = float(self._chance.integers(*MOVE_S))
            self.outcome.late_s[move.job] += seconds
            self.outcome.moving_s += seconds
            self.outcome.link_bytes += STATE_BYTES if move.job.startswith(WINDOW[:6]) else 0
            self.outcome.moves += 1
            self.outcome.returned += minute - self._moved.get(move.job, -999) < 30
            self._moved[move.job] = minute

    def _up(self, minute: int) -> Flags:
        runs = ~(self.world.failed[:, minute] | self.world.maintained[:, minute])
        if self._energy_j <= 0:
            runs[SOLAR] = False
        return np.append(runs, True)

    def _live(self, begin: int) -> None:
        """Let the minutes until the next look pass."""
        flow = flow_of(self.placement)
        end = min(begin + LOOK_MIN, self.world.minutes)
        rates = self.world.rates[:, begin:end]
        loads = flow.loads @ rates
        self.outcome.link_bytes += 60 * float(flow.bytes @ rates.sum(axis=1))
        for column, minute in enumerate(range(begin, end)):
            up = self._up(minute)
            power_w = up * (IDLE_W + ADDED_W * np.minimum(loads[:, column] / CAPACITY, 1))
            self.outcome.joules += 60 * float(power_w.sum())
            self._charge_battery(minute, float(power_w[SOLAR]))
            cut = self.world.cut[:, minute]
            smooth = up.all() and not cut.any() and (loads[:, column] <= CAPACITY).all()
            if smooth and not any(self.waiting.values()):
                self._late = set()
                continue
            self._count(self._pass(flow, rates[:, column], up, cut))

    def _charge_battery(self, minute: int, power_w: float) -> None:
        self._power_w = power_w
        gained_w = -power_w if self.world.on_battery[minute] else CHARGER_W
        self._energy_j = min(max(self._energy_j + 60 * gained_w, 0.0), BATTERY_J)

    def _pass(self, flow: Flow, rates: Floats, up: Flags, cut: Flags) -> set[str]:
        """Let a minute pass, and return the jobs that break their goals in it."""
        needs = flow.cores @ rates
        stuck: set[str] = set()
        work = np.zeros(len(PLACES))
        for number, job in enumerate(JOBS):
            self.waiting[job] += 60 * float(needs[number])
            site = flow.site[number]
            if not up[site] or (job != MERGE and _is_apart(job, PLACES[site], cut)):
                stuck.add(job)
            else:
                work[site] += self.waiting[job]
        left = 1 - np.minimum(60 * CAPACITY / np.maximum(work, 1e-12), 1)
        left[left < 1e-9] = 0
        for number, job in enumerate(JOBS):
            if job not in stuck:
                self.waiting[job] *= float(left[flow.site[number]])
        return _late(flow, stuck, left * work / CAPACITY, cut)

    def _count(self, late: set[str]) -> None:
        for job in late:
            self.outcome.late_s[job] += 60
            if job not in self._late:
                self.outcome.spells += 1
                self.outcome.unforeseen += not self.strategy.expects(job)
        self._late = late


def possible(move: Move, moment: Moment) -> bool:
    """True if a job can move now: both sites run, and are linked."""
    origin, target = PLACES.index(move.origin), PLACES.index(move.target)
    ends = {origin, target} - {len(AIRPORTS)}
    return bool(moment.up[origin] and moment.up[target] and not moment.cut[[*ends]].any())


def _is_apart(job: str, site: str, cut: Flags) -> bool:
    """True if a job's site cannot reach the broker of the job's airport."""
    airport = job[-3:]
    if site == airport:
        return False
    return bool(cut[AIRPORTS.index(airport)] or (site != CLOUD and cut[AIRPORTS.index(site)]))


def _late(flow: Flow, stuck: set[str], waits: Floats, cut: Flags) -> set[str]:
    """Return the jobs that break their goals, each if one before it does nothing, or by its latency."""
    found = set(stuck)
    merged_s = 0.0
    for number in range(len(BROKERS)):
        waited_s = 0.0
        for place, name in enumerate((CLEAN, WINDOW)):
            job = name.format(AIRPORTS[number])
            waited_s += float(waits[flow.site[2 * number + place]])
            is_dry = place == 1 and CLEAN.format(AIRPORTS[number]) in stuck
            if is_dry or waited_s + flow.latency_s[job] > GOALS[job]:
                found.add(job)
        merged_s = max(merged_s, waited_s)
        if cut[number] or {JOBS[2 * number], JOBS[2 * number + 1]} & stuck:
            found.add(MERGE)
    if merged_s + flow.latency_s[MERGE] > GOALS[MERGE]:
        found.add(MERGE)
    return found
