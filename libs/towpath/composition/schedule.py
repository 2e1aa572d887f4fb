"""Order changes, and predict how long they take when several run at a time."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.pipeline import PlannedChange


def in_order(changes: Iterable[PlannedChange]) -> list[PlannedChange]:
    """Return the changes, each behind those it comes after. Where that leaves a choice, sort by name.

    Raises `TowpathError` (invalid) when changes wait for each other in a cycle.
    """
    known = {change.job: change for change in changes}
    waits, followers = _waiting(known)
    ready = [name for name, first in waits.items() if not first]
    heapq.heapify(ready)
    ordered: list[PlannedChange] = []
    while ready:
        name = heapq.heappop(ready)
        ordered.append(known[name])
        for follower in followers[name]:
            waits[follower].discard(name)
            if not waits[follower]:
                heapq.heappush(ready, follower)
    if len(ordered) < len(known):
        left = sorted(known.keys() - {change.job for change in ordered})
        raise TowpathError(
            ErrorCode.INVALID,
            f"the changes of {', '.join(left)} wait for each other, so that none can be first",
            field="changes",
            value=left,
            allowed="changes that do not wait for each other in a cycle",
        )
    return ordered


def makespan_s(changes: Iterable[PlannedChange], at_once: int) -> float:
    """Return the seconds until all changes are done by their `predicted_s`, when `at_once` run at a time.

    List scheduling (Graham, "Bounds on Multiprocessing Timing Anomalies", 1969): whenever a change may
    begin, the first by name of those that wait for nothing begins.

    Raises `TowpathError` (invalid) when changes wait for each other in a cycle.
    """
    ordered = {change.job: change for change in in_order(changes)}
    waits, followers = _waiting(ordered)
    ready = sorted(name for name, first in waits.items() if not first)
    running: list[tuple[float, str]] = []
    now = 0.0
    while ready or running:
        while ready and len(running) < max(at_once, 1):
            name = heapq.heappop(ready)
            heapq.heappush(running, (now + ordered[name].predicted_s, name))
        now, done = heapq.heappop(running)
        for follower in followers[done]:
            waits[follower].discard(done)
            if not waits[follower]:
                heapq.heappush(ready, follower)
    return now


def _waiting(changes: dict[str, PlannedChange]) -> tuple[dict[str, set[str]], dict[str, Sequence[str]]]:
    """Return job → the changes it still waits for, and job → the changes that wait for it."""
    waits = {name: {first for first in c.after if first in changes} for name, c in changes.items()}
    followers: dict[str, Sequence[str]] = {
        name: [other for other, first in waits.items() if name in first] for name in changes
    }
    return waits, followers
