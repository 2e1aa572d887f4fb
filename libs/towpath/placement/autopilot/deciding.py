"""Decide which jobs move now: the rules of the autopilot, as a function of what it knows.

1. Predict how it goes if nothing moves (`violations.py`).
2. Look for other places (`candidates.py`): those of the policy, as things are now and as they will be, and
   those where jobs that will break their goals move alone.
3. Gain is what such places save over the horizon: job-seconds of broken goals, and energy and bytes at their
   price in job-seconds. The cost of a move is the time that it is expected to take, as if the job broke its
   goal meanwhile. Of all places those with the largest gain less cost are best. Of their moves, those
   that gain nothing are left out.
4. The rules say if that is enough, and if it is time: a job leaves as late as is safe, because the forecast
   may change until then.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from towpath.placement.autopilot.candidates import candidates
from towpath.placement.autopilot.rules import Rules
from towpath.placement.autopilot.situation import Situation
from towpath.placement.autopilot.violations import Prediction, predict
from towpath.placement.jobs.moves import Move, NoSafeOrder, order_of_moves
from towpath.placement.jobs.policy import Policy
from towpath.placement.jobs.view import Placement


class Verdict(StrEnum):
    """The outcome of a look."""

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
    """Decisions made before. Times are seconds, by one clock."""

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
    """The outcome of a look, with the figures behind it."""

    verdict: Verdict
    moves: tuple[Move, ...] = ()
    """Wanted moves: to be done now only with the verdict `move`."""
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


def decide(situation: Situation, policy: Policy, past: Past = Past(), now_s: float = 0.0) -> Decision:
    """Return what to do. `now_s` is by the clock of `past`."""
    staying, rules = situation.staying, situation.rules
    best = None
    if staying.total_late_s or rules.kilojoule_s or rules.gigabyte_s:
        best = _best(situation, policy)
    if best is None:
        return Decision(Verdict.CONTENT, staying=staying)
    return replace(best, verdict=_verdict(best, rules, past, now_s))


def _best(situation: Situation, policy: Policy) -> Decision | None:
    """Return the moves with the largest gain less cost; None if none gains anything."""
    found = [_judged(situation, wanted) for wanted in candidates(situation, policy)]
    best = max((one for one in found if one is not None), key=_net_s, default=None)
    if best is not None and best.gain_s >= situation.rules.least_gain_s:
        best = _due_first(situation, _trimmed(situation, best))
    return best if best is not None and best.gain_s > 0 else None


def _judged(situation: Situation, wanted: Placement) -> Decision | None:
    """Return the decision for a placement, before the rules; None if moves do not lead there.

    Where the order of moves is free, jobs that are late first leave first.
    """
    staying, rules = situation.staying, situation.rules
    try:
        moves = order_of_moves(situation.view, situation.current, wanted)
    except NoSafeOrder:
        return None
    cost_s = sum(map(situation.move_s, moves))
    if not moves or math.isinf(cost_s):
        return None
    moving = predict(situation.ahead, wanted, situation.goals)
    helped = (job for job in situation.goals if moving.late_s[job] < staying.late_s[job])
    begins_s = min((staying.begin_s[job] for job in helped), default=0.0)
    due_s = max(begins_s - _lead_s(cost_s, rules), 0.0) if math.isfinite(begins_s) else 0.0
    return Decision(Verdict.MOVE, moves, staying, moving, _saved(staying, moving, rules), cost_s, due_s)


def _net_s(decision: Decision) -> float:
    return decision.gain_s - decision.cost_s


def _trimmed(situation: Situation, best: Decision) -> Decision:
    """Return the decision without the jobs that move in vain, or that make two sites swap jobs.

    Policies place all that is free, however little it gains.
    """
    current = situation.current
    while fewer := [one for each in _fewer(best) if (one := _judged(situation, {**current, **each}))]:
        found = max(fewer, key=_net_s)
        if _net_s(found) < _net_s(best) and not _swaps(best.moves):
            break
        best = found
    return best


def _due_first(situation: Situation, best: Decision) -> Decision:
    """Return the decision without the jobs that can leave later.

    They are due after the next look, which is when the first ones have moved and were measured for a time.
    """
    begins = {move.job: situation.staying.begin_s[move.job] for move in best.moves}
    lead_s = _lead_s(best.cost_s, situation.rules)
    later_s = min(begins.values()) + situation.rules.settled_s + 2 * lead_s
    early = {move.job: move.target for move in best.moves if not later_s < begins[move.job] < math.inf}
    return best if len(early) == len(begins) else _judged(situation, {**situation.current, **early}) or best


def _lead_s(cost_s: float, rules: Rules) -> float:
    """Return how long before their cause moves begin."""
    return rules.lead_factor * cost_s + rules.agreeing * rules.interval_s


def _fewer(decision: Decision) -> Iterator[dict[str, str]]:
    """Yield the new places of jobs, each time without one of them, if there are several."""
    targets = {move.job: move.target for move in decision.moves}
    for left_out in targets if len(targets) > 1 else ():
        yield {job: target for job, target in targets.items() if job != left_out}


def _saved(staying: Prediction, moving: Prediction, rules: Rules) -> float:
    late_s = staying.total_late_s - moving.total_late_s
    energy_s = rules.kilojoule_s * (staying.priced_joules - moving.priced_joules) / 1e3
    bytes_s = rules.gigabyte_s * (staying.link_bytes - moving.link_bytes) / 1e9
    return late_s + energy_s + bytes_s


def _verdict(best: Decision, rules: Rules, past: Past, now_s: float) -> Verdict:
    """Return what the rules say of the best moves, the most telling refusal first."""
    if rules.agreeing > 1 and (best.moves != past.wanted or past.agreed + 1 < rules.agreeing):
        return Verdict.UNCONFIRMED
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
