"""Foresee where a vehicle will lose its link: where it did on its last passages of the same place.

Buses, trains and ferries repeat their ways. So no map of coverage is needed: what followed when the vehicle
was here before, going the same way, will follow again. Passages that differ in speed make the gap longer.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

NEAR_M = 250.0
"""A passage comes so near: positions are 10 m wrong in a street, and 100 m in a valley."""

STANDS_M = 15.0
"""Positions of a vehicle that stands differ by so much."""

WAY_M = 50.0
"""It went the same way if the last so many metres had about the same direction."""

SAME_WAY = 0.5
"""Least cosine between two directions that are the same: they differ by 60 degrees at most."""

APART_S = 300.0
"""Positions of the last so many seconds belong to the present passage."""

PASSAGES = 5
"""The last so many passages vote."""

AGREEING = 0.5
"""Share of the passages that must have had no link."""

STALE_S = 60.0
"""An older position says nothing about where the vehicle is now."""

UNSEEN_S = 600.0
"""Between two positions with so much time in between, its way is not known."""

_EARTH_M = 6_371_000.0


@dataclass(frozen=True)
class Fix:
    """A position of a vehicle: Unix seconds, degrees north and east."""

    at_s: float
    latitude: float
    longitude: float


@dataclass(frozen=True)
class Gap:
    """A time without a link, seconds. From now on, or Unix seconds."""

    begin_s: float
    end_s: float


@dataclass(frozen=True)
class _Point:
    """A position in metres east and north of the present one."""

    at_s: float
    x: float
    y: float

    def distance_m(self, other: _Point) -> float:
        return math.hypot(other.x - self.x, other.y - self.y)


def gaps_ahead(track: Sequence[Fix], gaps: Sequence[Gap], now_s: float, horizon_s: float) -> list[Gap]:
    """Return the gaps that are to be expected within the horizon, seconds from now.

    `track` has the vehicle's positions by time, `gaps` its times without a link, both in Unix seconds.
    """
    if not track or now_s - track[-1].at_s > STALE_S:
        return []
    points = _without_standing(_projected(track))
    passages = _passages(points)[-PASSAGES:]
    arrived_s = points[-2 if _stands(points) else -1].at_s
    elapsed_s = now_s - arrived_s
    votes = [_following(gaps, passage_s + elapsed_s, horizon_s) for passage_s in passages]
    return _agreed(votes)


def _projected(track: Sequence[Fix]) -> list[_Point]:
    """Return the track as points of a plane. Within a hundred kilometres that is exact enough."""
    here = track[-1]
    east_m = math.radians(1) * _EARTH_M * math.cos(math.radians(here.latitude))
    north_m = math.radians(1) * _EARTH_M
    return [
        _Point(fix.at_s, (fix.longitude - here.longitude) * east_m, (fix.latitude - here.latitude) * north_m)
        for fix in track
    ]


def _without_standing(points: Sequence[_Point]) -> list[_Point]:
    """Leave out points between the arrival at a place and the departure. Where it stands now, keep both."""
    kept: list[_Point] = []
    for point in points:
        stands = len(kept) >= 2 and max(map(point.distance_m, kept[-2:])) < STANDS_M
        if stands:
            kept[-1] = point
        else:
            kept.append(point)
    return kept


def _stands(points: Sequence[_Point]) -> bool:
    return len(points) >= 2 and points[-2].distance_m(points[-1]) < STANDS_M


def _passages(points: Sequence[_Point]) -> list[float]:
    """Return when the vehicle passed the newest point before, going the same way, Unix seconds.

    If it stands there now, its arrivals count; else its departures, which are not too late.
    """
    here = points[-1]
    way = _way(points, len(points) - 1)
    if way is None:
        return []
    found: list[list[tuple[float, float]]] = []
    """Distances and times of each passage."""
    follows = False
    for number, (a, b) in enumerate(pairwise(points), 1):
        if b.at_s > here.at_s - APART_S:
            break
        distance_m, at_s = _nearest(a, b, here)
        is_near = distance_m <= NEAR_M and b.at_s - a.at_s <= UNSEEN_S
        # Only where it is near: a track has thousands of points.
        came = _way(points, number) if is_near else None
        is_passage = came is not None and came[0] * way[0] + came[1] * way[1] >= SAME_WAY
        if is_passage and not follows:
            found.append([])
        if is_passage:
            found[-1].append((distance_m, at_s))
        follows = is_passage
    pick = min if _stands(points) else max
    return [
        pick(at_s for distance_m, at_s in passage if distance_m <= min(passage)[0] + STANDS_M)
        for passage in found
    ]


def _way(points: Sequence[_Point], number: int) -> tuple[float, float] | None:
    """Return the direction in which the vehicle came to a point; None if it has not moved before."""
    to = points[number]
    for origin in reversed(points[:number]):
        if (length_m := origin.distance_m(to)) >= WAY_M:
            return (to.x - origin.x) / length_m, (to.y - origin.y) / length_m
    return None


def _nearest(a: _Point, b: _Point, here: _Point) -> tuple[float, float]:
    """Return how near the way from one point to the next comes to `here`, metres, and when."""
    dx, dy = b.x - a.x, b.y - a.y
    length2 = dx * dx + dy * dy
    share = ((here.x - a.x) * dx + (here.y - a.y) * dy) / length2 if length2 else 0.0
    share = min(max(share, 0.0), 1.0)
    at = _Point(a.at_s + share * (b.at_s - a.at_s), a.x + share * dx, a.y + share * dy)
    return at.distance_m(here), at.at_s


def _following(gaps: Iterable[Gap], from_s: float, horizon_s: float) -> list[Gap]:
    """Return the gaps that came within the horizon after a time, in seconds from then."""
    moved = (Gap(gap.begin_s - from_s, gap.end_s - from_s) for gap in gaps)
    return [
        Gap(max(gap.begin_s, 0.0), gap.end_s) for gap in moved if gap.end_s > 0 and gap.begin_s < horizon_s
    ]


def _agreed(votes: Sequence[Sequence[Gap]]) -> list[Gap]:
    """Return the gaps that enough passages had: from the first lost link to the last one that came back."""
    needed = AGREEING * len(votes)
    all_gaps = [gap for vote in votes for gap in vote]
    found: list[Gap] = []
    for begin_s in sorted({gap.begin_s for gap in all_gaps}):
        if sum(any(gap.begin_s <= begin_s < gap.end_s for gap in vote) for vote in votes) < needed:
            continue
        at_once = [gap for gap in all_gaps if gap.begin_s <= begin_s < gap.end_s]
        agreed = Gap(min(gap.begin_s for gap in at_once), max(gap.end_s for gap in at_once))
        if found and agreed.begin_s <= found[-1].end_s:
            found[-1] = Gap(min(found[-1].begin_s, agreed.begin_s), max(found[-1].end_s, agreed.end_s))
        else:
            found.append(agreed)
    return found
