"""Strategies that are compared: never, a threshold, and the autopilot with three kinds of foresight."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from autopilot_play import ADDED_W, CAPACITY, IDLE_W, LOOK_MIN, STEADY, Moment, flow_of, possible
from autopilot_world import (
    AIRPORTS,
    BATTERY_J,
    CHARGER_W,
    CLEAN,
    CLOUD,
    DAY_MIN,
    EDGE_CORES,
    GOALS,
    JOBS,
    MERGE,
    PLACES,
    SOLAR,
    WINDOW,
    Flags,
    Floats,
    World,
    mesh,
)

from towpath.placement.autopilot.deciding import Decision, Past, Verdict, decide
from towpath.placement.autopilot.forecasts import empty_in_s, forecast_rates
from towpath.placement.autopilot.outlook import Cause, Outlook, Phase, Window, outlook
from towpath.placement.autopilot.rules import Rules
from towpath.placement.autopilot.situation import Situation
from towpath.placement.data.node_history import NodeHistory, availability
from towpath.placement.jobs.moves import Move
from towpath.placement.jobs.policies.performance import latency_first
from towpath.placement.jobs.policy import NoFeasiblePlacement
from towpath.placement.jobs.scores import Scorer
from towpath.placement.jobs.search import Search
from towpath.placement.jobs.view import MeshView, Placement

RULES = Rules(horizon_s=1800, interval_s=60 * LOOK_MIN, agreeing=1, rest_s=900, kilojoule_s=1)
STEP_MIN = 15
HISTORY_MIN = 7 * DAY_MIN
CONTENT_MIN = 25
"""A look that wants no moves is good for as long, unless a site, a link or a backlog changes."""
MOVE_S = 7.5
AWAY_ABOVE, BACK_BELOW = 0.9, 0.5


class Never:
    """No job moves."""

    def moves(self, moment: Moment) -> tuple[Move, ...]:
        """Return none."""
        return ()

    def expects(self, job: str) -> bool:
        """See nothing ahead."""
        return False


class Threshold(Never):
    """A job leaves a site that is loaded now, and comes back when the site has room."""

    def moves(self, moment: Moment) -> tuple[Move, ...]:
        """Return at most one move for each airport."""
        loads = flow_of(moment.placement).cores @ moment.rates
        job_load = dict(zip(JOBS, loads.tolist(), strict=True))
        found: list[Move] = []
        for airport in AIRPORTS:
            jobs = [name.format(airport) for name in (CLEAN, WINDOW)]
            here = [job for job in jobs if moment.placement[job] == airport]
            away = [job for job in jobs if moment.placement[job] == CLOUD]
            load = sum(job_load[job] for job in here) / EDGE_CORES
            if load > AWAY_ABOVE:
                found.append(Move(here[0], airport, CLOUD))
            elif load < BACK_BELOW and away and load + job_load[away[-1]] / EDGE_CORES < AWAY_ABOVE:
                found.append(Move(away[-1], CLOUD, airport))
        return tuple(move for move in found if possible(move, moment))


@dataclass
class Exhaustive:
    """The placement that `performance` looks for, by trying all; views that are nearly the same share it."""

    name: ClassVar[str] = "exhaustive"
    summary: ClassVar[str] = "least latency, all placements tried"

    known: dict[object, Placement | None] = field(default_factory=dict[object, "Placement | None"])

    def place(self, view: MeshView, seed: int = 0) -> Placement:
        """Return the fastest placement, for rates rounded up to 25 events/s."""
        sources = tuple(
            replace(source, events_per_s=25.0 * np.ceil(source.events_per_s / 25 - 1e-9))
            for source in view.sources
        )
        key = (
            tuple(source.events_per_s for source in sources),
            tuple(site.cores for site in view.sites),
            tuple((link.origin, link.target) for link in view.links),
            view.jobs,
        )
        if key not in self.known:
            self.known[key] = self._place(replace(view, sources=sources))
        found = self.known[key]
        if found is None:
            raise NoFeasiblePlacement(MERGE, "cores", "all placements were tried", proven=True)
        return found

    def _place(self, view: MeshView) -> Placement | None:
        scorer = Scorer(view)
        if not all(len(options) for options in scorer.options):
            return None
        every = np.stack(np.meshgrid(*scorer.options, indexing="ij"), axis=-1)
        row, key = Search(scorer, latency_first).best(every.reshape(-1, len(scorer.options)))
        return None if key[0] > 0 else scorer.placement(row)


class Autopilot:
    """The decisions of `towpath.placement.autopilot`. This one takes it that all stays as it is."""

    def __init__(self, world: World, policy: Exhaustive, rules: Rules = RULES) -> None:
        self.world, self.policy, self.rules = world, policy, rules
        self.past = Past()
        self.last = Decision(Verdict.CONTENT)
        self._looked = (-CONTENT_MIN, b"", b"")

    def moves(self, moment: Moment) -> tuple[Move, ...]:
        """Decide."""
        if not self._is_due(moment):
            return ()
        now_s = 60.0 * moment.minute
        ahead = self.outlook(moment)
        situation = Situation(
            *(ahead, moment.placement, GOALS, self.rules),
            move_s=lambda move: MOVE_S if possible(move, moment) else np.inf,
        )
        self.last = decide(situation, self.policy, self.past, now_s)
        self.past = self.last.remembered(self.past)
        self._looked = (moment.minute, bytes(moment.up), bytes(moment.cut))
        if self.last.verdict is not Verdict.MOVE:
            return ()
        moved = {job: times for job, times in self.past.moved_at_s.items() if times[-1] > now_s - 3600}
        for move in self.last.moves:
            moved[move.job] = [*moved.get(move.job, ()), now_s]
        self.past = replace(self.past, moved_at_s=moved)
        return self.last.moves

    def _is_due(self, moment: Moment) -> bool:
        """True if something has changed since the last look, or is to be moved, or enough time has passed."""
        minute, *known = self._looked
        is_same = known == [bytes(moment.up), bytes(moment.cut)] and not moment.waiting
        is_content = self.last.staying is not None and not self.last.staying.total_late_s
        is_content &= self.last.verdict in (Verdict.CONTENT, Verdict.TOO_DEAR)
        return not (is_same and is_content and moment.minute - minute < CONTENT_MIN)

    def expects(self, job: str) -> bool:
        """True if the last prediction has the job late."""
        last = self.last.moving if self.last.verdict is Verdict.MOVE else self.last.staying
        return last is not None and last.late_s.get(job, 0.0) > 0

    def outlook(self, moment: Moment) -> Outlook:
        """Return what is expected: here only what is announced."""
        view = mesh(moment.rates, moment.up, moment.cut, STEADY)
        return outlook(
            *(view, self.rules.horizon_s, {}, 60.0 * STEP_MIN),
            windows=self.announced(moment.minute),
            waiting=moment.waiting,
        )

    def announced(self, minute: int) -> list[Window]:
        """Return the maintenance of sites."""
        return windows(self.world.maintained, minute, self.rules.horizon_s)


class Forecasting(Autopilot):
    """It forecasts rates, batteries and failures from what it saw, and expects the upper course of rates."""

    def __init__(self, world: World, policy: Exhaustive, rules: Rules = RULES, upper: bool = True) -> None:
        super().__init__(world, policy, rules)
        self.upper = upper
        self._forecast_at = -STEP_MIN
        self._courses: dict[str, tuple[float, ...]] = {}
        self._failed_s: list[list[float]] = [[] for _ in AIRPORTS]
        self._back_s: list[list[float]] = [[] for _ in AIRPORTS]

    def outlook(self, moment: Moment) -> Outlook:
        """Return what is expected from history."""
        now_s = 60.0 * moment.minute
        if moment.minute >= self._forecast_at + STEP_MIN:
            self._forecast_at = moment.minute
            self._courses = {airport: self._course(number, moment) for number, airport in enumerate(AIRPORTS)}
        steady = (*(self._steady(number, moment) for number in range(len(AIRPORTS))), 1.0)
        known = self.announced(moment.minute)
        empty_s = empty_in_s(moment.charge, now_s)
        if moment.up[SOLAR] and empty_s < self.rules.horizon_s:
            known.append(Window(PLACES[SOLAR], Cause.BATTERY, empty_s, np.inf))
        view = mesh(moment.rates, moment.up, moment.cut, steady)
        return outlook(
            *(view, self.rules.horizon_s, self._courses, 60.0 * STEP_MIN, known, moment.waiting),
        )

    def _course(self, number: int, moment: Moment) -> tuple[float, ...]:
        """Forecast from the last week, in steps of a quarter of an hour."""
        first = max(0, moment.minute - HISTORY_MIN)
        seen = self.world.rates[number, first : moment.minute]
        if len(seen) < STEP_MIN:
            return (float(moment.rates[number]),)
        values = seen[: len(seen) // STEP_MIN * STEP_MIN].reshape(-1, STEP_MIN).mean(axis=1)
        times = 60.0 * (first + STEP_MIN * np.arange(1, len(values) + 1))
        steps = int(self.rules.horizon_s / 60 / STEP_MIN)
        history = np.column_stack([times, values])
        found = forecast_rates(history, 60.0 * moment.minute, 60.0 * STEP_MIN, steps, 86_400)  # pyright: ignore
        return found.upper if self.upper else found.mean

    def _steady(self, number: int, moment: Moment) -> float:
        """Return the availability of a site, from failures in the minutes since the last look, too."""
        for minute in range(max(1, self._looked[0] + 1), moment.minute + 1):
            before, now = self.world.failed[number, minute - 1], self.world.failed[number, minute]
            if now and not before:
                self._failed_s[number].append(60.0 * minute)
            elif before and not now:
                self._back_s[number].append(60.0 * minute)
        day_s = 60.0 * (moment.minute - DAY_MIN)
        failed = [at_s for at_s in self._failed_s[number] if at_s > day_s]
        if not failed:
            return 1.0
        history = NodeHistory(0.0, tuple(failed), tuple(s for s in self._back_s[number] if s > day_s))
        return round(availability(history, 60.0 * moment.minute), 3)


class Oracle(Autopilot):
    """It knows the future."""

    def outlook(self, moment: Moment) -> Outlook:
        """Return what will be."""
        span = slice(moment.minute, moment.minute + int(self.rules.horizon_s / 60))
        rates, cut = self.world.rates[:, span], self.world.cut[:, span]
        up = np.vstack([~(self.world.maintained | self.world.failed)[:, span], np.ones(rates.shape[1], bool)])
        up[SOLAR, self._empty_min(moment, rates) :] = False
        kinds = [bytes(column) for column in np.vstack([up, cut]).T]
        edges = [m for m in range(len(kinds)) if m % STEP_MIN == 0 or kinds[m] != kinds[m - 1]]
        phases = tuple(
            Phase(60.0 * (to - at), mesh(rates[:, at:to].mean(axis=1), up[:, at], cut[:, at], STEADY))
            for at, to in itertools.pairwise([*edges, len(kinds)])
        )
        return Outlook(phases, moment.waiting)

    def _empty_min(self, moment: Moment, rates: Floats) -> int:
        """Return when the battery will be empty if nothing moves."""
        loads = np.minimum((flow_of(moment.placement).loads[SOLAR] @ rates) / CAPACITY[SOLAR], 1)
        power_w = IDLE_W[SOLAR] + ADDED_W[SOLAR] * loads
        dark = self.world.on_battery[moment.minute : moment.minute + len(power_w)]
        left = moment.charge[-1][1] * BATTERY_J + 60 * np.cumsum(np.where(dark, -power_w, CHARGER_W))
        empty = np.flatnonzero(left <= 0)
        return int(empty[0]) if len(empty) else len(left)


def windows(down: Flags, minute: int, horizon_s: float) -> list[Window]:
    """Return the windows without a site in a time from now."""
    found: list[Window] = []
    ahead = down[:, minute : minute + int(horizon_s / 60)]
    for number in np.flatnonzero(ahead.any(axis=1)).tolist():
        edges = np.flatnonzero(np.diff(ahead[number], prepend=False, append=False)).tolist()
        for begin, end in zip(edges[::2], edges[1::2], strict=True):
            found.append(Window(PLACES[number], Cause.DOWN, 60.0 * begin, 60.0 * end))
    return found
