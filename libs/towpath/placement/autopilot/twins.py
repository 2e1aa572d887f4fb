"""Decide when a job gets a twin, where, and which of the two runs goes on alone.

A job that breaks its goal, or is far slower than equal jobs elsewhere, gets a second run at a site that has
room for it (IoTCloud: replicate slow tasks at run time, only where the quality of service demands it). It
ends when the first run is well again, or stays where it is faster. Unlike a move it needs no forecast: it is
cheap to be wrong.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum, auto
from statistics import median

from towpath.placement.autopilot.candidates import UNSTABLE_FROM
from towpath.placement.autopilot.situation import Situation
from towpath.placement.autopilot.violations import predict
from towpath.placement.jobs.view import MeshView

LEAST_EQUALS = 3
"""Equal jobs from which it is told which of them is slow."""


@dataclass(frozen=True)
class TwinRules:
    """Limits of twins. Times are seconds."""

    most: int = 2
    """Twins at a time."""
    agreeing: int = 2
    """Looks in a row that must find a job slow."""
    well_share: float = 0.8
    """A run is well with a delay of at most this share of the limit, and not just below it."""
    dwell_s: float = 30.0
    """The first run must be well for so long. A twin that is of no use is ended after the same time."""
    stays_s: float = 120.0
    """The job stays with its twin if only that was well for so long."""


def expected_delay_s(batch_s: float, trigger_s: float, backlog: float, events_per_s: float) -> float:
    """Return the seconds from an event to its result, for a run that is behind by `backlog` events.

    Events wait for the next micro-batch and for its end, and for those before them beyond what comes in that
    time. Infinite for a run that does nothing.
    """
    own_s = trigger_s + batch_s
    before = max(0.0, backlog - events_per_s * own_s)
    if not before:
        return own_s
    return own_s + before / events_per_s if events_per_s else math.inf


def limit_s(goal_s: float | None, straggler: float | None, equals: Sequence[float]) -> float:
    """Return the delay above which a job is slow: its goal, or that of a straggler among `equals`.

    `equals` are the delays of equal jobs, its own too. Infinite if it has no goal and too few equals.
    """
    limits = [math.inf if goal_s is None else goal_s]
    if straggler is not None and len(equals) >= LEAST_EQUALS:
        limits.append((1 + straggler) * median(equals))
    return min(limits)


def twin_place(situation: Situation, job: str, apart: Collection[str] = ()) -> str | None:
    """Return the site where a twin helps: it keeps its goal there, and makes no other job late.

    None if there is none: then all are busy, and a twin would make it worse. Not at the sites `apart`.
    """
    view, staying = situation.view, situation.staying
    others_s = staying.total_late_s - staying.late_s[job]
    found: list[tuple[float, str]] = []
    for site in view.sites:
        place = {**situation.current, job: site.name}
        if site.name in (situation.current[job], *apart) or not _has_room(situation, view, job, site.name):
            continue
        course = predict(situation.ahead, place, situation.goals)
        if course.begin_s[job] == math.inf and course.total_late_s - course.late_s[job] <= others_s:
            found.append((course.total_late_s, site.name))
    return min(found, default=(0.0, None))[1]


def _has_room(situation: Situation, view: MeshView, job: str, site: str) -> bool:
    there = [name for name, place in situation.current.items() if place == site]
    needed = sum(view.cores_of(view.job[name]) for name in (*there, job))
    return (
        view.job[job].may_run_at(site)
        and view.site[site].stability > 1 - UNSTABLE_FROM
        and needed <= situation.rules.headroom * view.site[site].cores
    )


class Ending(StrEnum):
    """The run that goes on alone."""

    SOURCE = auto()
    TARGET = auto()


@dataclass(frozen=True)
class TwinCourse:
    """The course of two runs since the twin began. Times are seconds, by one clock."""

    source_since_s: float | None = None
    """Since when the source is well."""
    target_since_s: float | None = None
    """Since when the target is well and the source is not."""
    useless_since_s: float | None = None
    """Since when the target is not well either, and no faster."""

    def seen(
        self, source_s: float, target_s: float, limit_s: float, now_s: float, rules: TwinRules
    ) -> TwinCourse:
        """Return the course after a look at the delays of both runs. Above the limit, one is slow."""
        is_well = source_s <= rules.well_share * limit_s
        helps = not is_well and target_s <= limit_s
        is_useless = not is_well and not helps and target_s >= source_s

        def since(begun_s: float | None, holds: bool) -> float | None:
            return None if not holds else now_s if begun_s is None else begun_s

        return replace(
            self,
            source_since_s=since(self.source_since_s, is_well),
            target_since_s=since(self.target_since_s, helps),
            useless_since_s=since(self.useless_since_s, is_useless),
        )

    def ending(self, now_s: float, rules: TwinRules) -> Ending | None:
        """Return which run goes on alone now; None if both do."""

        def lasts(since_s: float | None, seconds: float) -> bool:
            return since_s is not None and now_s - since_s >= seconds

        if lasts(self.source_since_s, rules.dwell_s) or lasts(self.useless_since_s, rules.dwell_s):
            return Ending.SOURCE
        return Ending.TARGET if lasts(self.target_since_s, rules.stays_s) else None
