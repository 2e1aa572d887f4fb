"""Decide which jobs move now: the rules of the autopilot, as a function of what it knows.

1. Predict how it goes if nothing moves (`violations.py`).
2. Ask the policy for places: as things are now, and as they will be; with all jobs free to move, and only
   with those that will break their goals.
3. Gain is what such places save over the horizon: job-seconds of broken goals, and energy and bytes at their
   price in job-seconds. The cost of a move is the time that it is expected to take, as if the job broke its
   goal meanwhile. Of all places those with the largest gain less cost are best.
4. The rules say if that is enough, and if it is time: a job leaves as late as is safe, because the forecast
   may change until then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from towpath.placement.autopilot.outlook import Outlook
from towpath.placement.autopilot.rules import Rules
from towpath.placement.autopilot.violations import Prediction, predict
from towpath.placement.jobs.moves import Move, NoSafeOrder, order_of_moves
from towpath.placement.jobs.policy import NoFeasiblePlacement, Policy
from towpath.placement.jobs.view import MeshView, Placement, avoiding

UNSTABLE_FROM = 0.02
"""Share of time in which a site is expected to be down, from which no job is placed there."""


class Verdict(StrEnum):
    """Outcome of a look."""

    MOVE = "move"
    CONTENT = "content"
    """Nothing is gained by moving."""
    TOO_DEAR = "too-dear"
    """Moves cost more than they gain, by the rules."""
    TOO_EARLY = "too-early"
    """The moves are due later."""
    UNCONFIRMED = "unconfirmed"
    """The look before wanted other moves."""
    RESTING = "resting"
    """A job has moved lately."""
    SWAP = "swap"
    """Two sites would swap jobs."""
    BUDGET = "budget"
    """There were enough moves in this hour."""
    VETOED = "vetoed"
    """People refused these moves lately."""


@dataclass(frozen=True)
class Past:
    """Memory of earlier decisions. Times are seconds, by one clock."""

    moved_at_s: Mapping[str, Sequence[float]] = field(default_factory=dict[str, Sequence[float]])
    """Job → times at which it moved, the newest last."""
    wanted: tuple[Move, ...] = ()
    """Moves that the last look wanted, whatever the rules said."""
    agreed: int = 0
    """Looks in a row that wanted them."""
    vetoed: frozenset[tuple[str, str]] = frozenset()
    """Job and target of moves that people refused lately."""


@dataclass(frozen=True)
class Decision:
    """Outcome of a look, with the figures behind it."""

    verdict: Verdict
    moves: tuple[Move, ...] = ()
    """Moves that it wants. Only with the verdict `move` they are to be made now."""
    staying: Prediction | None = None
    moving: Prediction | None = None
    gain_s: float = 0.0
    """Job-seconds saved, with energy and bytes at their price."""
    cost_s: float = 0.0
    """Job-seconds that the moves are expected to take."""
    due_s: float = 0.0
    """Seconds from now at which the moves are due."""

    def remembered(self, past: Past) -> Past:
        """Return the past for the next look."""
        same = bool(self.moves) and self.moves == past.wanted
        agreed = past.agreed + 1 if same else min(len(self.moves), 1)
        return replace(past, wanted=self.moves, agreed=agreed)


def decide(
    ahead: Outlook,
    current: Placement,
    goals: Mapping[str, float],
    policy: Policy,
    rules: Rules,
    past: Past = Past(),
    now_s: float = 0.0,
    move_s: Callable[[Move], float] = lambda move: 5.0,
) -> Decision:
    """Return what to do.

    `goals` has for each job the seconds that its latency may take. `move_s` returns how long a move is
    expected to take. `now_s` is by the clock of `past`.
    """
    staying = predict(ahead, current, goals)
    if not staying.total_late_s and not rules.kilojoule_s and not rules.gigabyte_s:
        return Decision(Verdict.CONTENT, staying=staying)
    best = _best(ahead, current, goals, policy, rules, staying, move_s)
    if best is None:
        return Decision(Verdict.CONTENT, staying=staying)
    return replace(best, verdict=_verdict(best, rules, past, now_s))


def _best(
    ahead: Outlook,
    current: Placement,
    goals: Mapping[str, float],
    policy: Policy,
    rules: Rules,
    staying: Prediction,
    move_s: Callable[[Move], float],
) -> Decision | None:
    """Return the moves with the largest gain less cost; None if none gains anything."""
    found: list[Decision] = []
    for wanted in _candidates(ahead, current, policy, rules, staying):
        try:
            moves = order_of_moves(ahead.phases[0].view, current, wanted)
        except NoSafeOrder:
            continue
        moving = predict(ahead, wanted, goals)
        gain_s = _saved(staying, moving, rules)
        cost_s = sum(map(move_s, moves))
        lead_s = rules.lead_factor * cost_s + rules.agreeing * rules.interval_s
        begins_s = staying.begins_s if math.isfinite(staying.begins_s) else 0.0
        due_s = max(begins_s - lead_s, 0.0)
        found.append(Decision(Verdict.MOVE, moves, staying, moving, gain_s, cost_s, due_s))
    best = max(found, key=lambda one: one.gain_s - one.cost_s, default=None)
    return best if best is not None and best.gain_s > 0 else None


def _candidates(
    ahead: Outlook, current: Placement, policy: Policy, rules: Rules, staying: Prediction
) -> Iterator[Placement]:
    """Yield placements that differ from the current one, each once."""
    late = {job for job, seconds in staying.late_s.items() if seconds > 0}
    seen = [dict(current)]
    for view in _views(ahead, rules):
        for free in ({*current}, late):
            try:
                wanted = {**policy.place(_pinned(view, current, free))}
            except NoFeasiblePlacement:
                continue
            if wanted not in seen:
                seen.append(wanted)
                yield wanted


def _views(ahead: Outlook, rules: Rules) -> Iterator[MeshView]:
    """Yield the views for which places are looked for, once with all sites and once without those that fail.

    They are the present one, and of phases with the same sites and links the one with the most work.
    """
    busiest: dict[tuple[object, ...], MeshView] = {}
    for view in (phase.view for phase in ahead.phases):
        known = busiest.get(key := (view.sites, view.links))
        if known is None or _needed(view) > _needed(known):
            busiest[key] = view
    failing = _failing(ahead)
    for view in (ahead.phases[0].view, *busiest.values()):
        usable = _within(view, rules)
        yield usable
        if failing:
            yield avoiding(usable, failing)


def _needed(view: MeshView) -> float:
    return sum(map(view.cores_of, view.jobs))


def _failing(ahead: Outlook) -> set[str]:
    """Return the sites that do not run in some phase, lose their last link, or may fail."""
    now = _linked(ahead.phases[0].view)
    found: set[str] = set()
    for phase in ahead.phases:
        found |= now - _linked(phase.view)
        found |= {
            site.name for site in phase.view.sites if not site.cores or site.stability <= 1 - UNSTABLE_FROM
        }
    return found


def _linked(view: MeshView) -> set[str]:
    return {end for link in view.links for end in (link.origin, link.target)}


def _within(view: MeshView, rules: Rules) -> MeshView:
    """Return the view with only the share of cores that jobs may use."""
    return replace(view, sites=tuple(replace(site, cores=site.cores * rules.headroom) for site in view.sites))


def _pinned(view: MeshView, current: Placement, free: set[str]) -> MeshView:
    """Return the view with all other jobs where they are."""
    jobs = (job if job.name in free else replace(job, pinned=current[job.name]) for job in view.jobs)
    return replace(view, jobs=tuple(jobs))


def _saved(staying: Prediction, moving: Prediction, rules: Rules) -> float:
    late_s = staying.total_late_s - moving.total_late_s
    energy_s = rules.kilojoule_s * (staying.joules - moving.joules) / 1e3
    bytes_s = rules.gigabyte_s * (staying.link_bytes - moving.link_bytes) / 1e9
    return late_s + energy_s + bytes_s


def _verdict(best: Decision, rules: Rules, past: Past, now_s: float) -> Verdict:
    """Return what the rules say of the best moves, the most telling refusal first."""
    if any((move.job, move.target) in past.vetoed for move in best.moves):
        return Verdict.VETOED
    if best.gain_s < max(rules.gain_factor * best.cost_s, rules.least_gain_s):
        return Verdict.TOO_DEAR
    if _swaps(best.moves):
        return Verdict.SWAP
    times = [at_s for each in past.moved_at_s.values() for at_s in each if at_s > now_s - 3600]
    if len(times) + len(best.moves) > rules.moves_per_hour:
        return Verdict.BUDGET
    if any(_rests(move.job, best, rules, past, now_s) for move in best.moves):
        return Verdict.RESTING
    if best.due_s > 0:
        return Verdict.TOO_EARLY
    if rules.agreeing > 1 and (best.moves != past.wanted or past.agreed + 1 < rules.agreeing):
        return Verdict.UNCONFIRMED
    return Verdict.MOVE


def _swaps(moves: Iterable[Move]) -> bool:
    """True if two sites would swap jobs."""
    ways = {(move.origin, move.target) for move in moves if not move.temporary}
    return any((target, origin) in ways for origin, target in ways)


def _rests(job: str, best: Decision, rules: Rules, past: Past, now_s: float) -> bool:
    """True if a job moved lately, and would keep its goal where it is."""
    times = past.moved_at_s.get(job, ())
    is_late = best.staying is not None and best.staying.late_s.get(job, 0.0) > 0
    return bool(times) and now_s - times[-1] < rules.rest_s and not is_late
