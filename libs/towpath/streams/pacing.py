"""Decide when a query plans its next micro-batch: as soon as it is due, and there are events.

Spark's own trigger starts micro-batches at whole multiples of an interval. So all jobs of a machine start at
the same moment, and a job that reads what another one publishes waits almost an interval more for it. Here a
micro-batch is due an interval after the last one began, and then starts as soon as there are events. So a
pipeline passes events on as soon as it has them, with as many micro-batches as before, and a few more after a
start.

Micro-batches that are windows of processing time begin at multiples of the interval, with or without events.
Spark's trigger waits for such a moment by a clock that people set: after an hour ahead, it stood still for an
hour.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

Backlog: TypeAlias = Callable[[], int]
"""Events of a source behind those that it has planned; 0 if there are too few for a micro-batch."""

GRACE_S = 1.0
"""Usual longest time that a micro-batch waits for events once it is due. Spark may then run one without
events, to close windows, as it does with a trigger of its own."""
LEAST_GRACE_S = 0.2
"""The same where micro-batches are due at once. It spares idle planning."""
LONGEST_GRACE_S = 10.0
"""As long as no events come, the wait doubles each time, up to this: Spark has closed its windows by then."""

MOST_DOUBLINGS = 8

LOOK_S = 0.25
"""Between two looks whether the query is paused."""

HOLD_S = 5.0
"""Longest time that planning waits for the end of a paused run. A halt that sees it wait ends the run within
milliseconds. One in another process does not see it, and gives the micro-batch under way at least 10 s."""

SHARES_AFTER_START = (0.0, 0.25, 0.5)
"""Shares of the interval between the first micro-batches of a run. The second one follows at once, because
only it publishes windows that the first one closed. A window that ends soon after is published soon, too."""

LEAST_PAUSE_S = 0.01
LEAST_LONGEST_PAUSE_S = 0.1
SHARE_OF_SILENCE = 0.1
"""A pause between two questions for events, in proportion to how long none came. So events wait at most a
tenth longer than they took to come, and a silent stream is seldom asked."""

BURST_LOOK = 0.05
"""Share of the interval between two looks whether results of another job still come. It publishes those of a
micro-batch at once, so a silence of this length is their end."""
LONGEST_BURST = 0.2
"""Share of the interval for which results may still come. Without this wait, a micro-batch that starts with
the first result would leave the others to the next one."""


class Pace:
    """Paces one run of one query, for all of its sources. Spark asks them one after the other."""

    def __init__(
        self,
        trigger_s: float,
        *,
        bursts: bool = False,
        aligned: bool = False,
        patient: bool = False,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """Start micro-batches at least `trigger_s` seconds apart. `bursts`: other jobs publish the events.

        With `aligned`, start them at multiples of `trigger_s`, by the wall clock. With `patient`, wait long
        for events: nothing is left to close without them.
        """
        self.trigger_s = trigger_s
        self._bursts = bursts
        self._aligned = aligned
        self._patient = patient
        self._clock = clock
        self._wall_clock = wall_clock
        self._window = self._present_window() if aligned else 0.0
        """Number of the interval in which the last micro-batch began, since 1970."""
        self._changed = threading.Condition()
        self._backlogs: dict[str, Backlog] = {}
        self._asked: set[str] = set()
        """Sources that have planned for the present micro-batch."""
        self._behind = False
        """True if the present micro-batch leaves events to the next."""
        self._began_at: float | None = None
        """Beginning of the last micro-batch that had events."""
        self._number = 0
        """Of that micro-batch, in this run."""
        self._has_events = False
        """True if the present micro-batch has events, as far as it is planned."""
        self._silent_since = clock()
        self._in_vain = 0
        """Number of plannings without events since the last ones."""
        self._is_over = False
        self.is_waiting = False
        """True while a source waits, and nothing is planned."""

    @property
    def grace_s(self) -> float:
        """Seconds that a micro-batch which is due waits for events."""
        if self._patient:
            return LONGEST_GRACE_S
        first_s = min(max(self.trigger_s / 2, LEAST_GRACE_S), GRACE_S)
        return min(first_s * 2 ** min(self._in_vain, MOST_DOUBLINGS), LONGEST_GRACE_S)

    def await_turn(self, source: str, backlog: Backlog, paused: Callable[[], bool]) -> None:
        """Wait until `source` is to plan. Only the first source of a micro-batch waits: for any of them.

        The first micro-batch of a run does not wait. Returns without events when none came for a while.

        While the query is paused, each source waits for the end of the run. If it returned, Spark could begin
        a micro-batch without events, to close windows, and be stopped in the middle of it.
        """
        self._backlogs[source] = backlog
        if source in self._asked:
            self._asked.clear()
            with self._waiting():
                (self._wait_for_multiple if self._aligned else self._wait)(paused)
            self._behind = self._has_events = False
        self._asked.add(source)
        # The last look comes after `is_waiting` is unset. So if a halt has seen it set, this sees the pause.
        if paused():
            with self._waiting():
                self._rest(HOLD_S, lambda: False)

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        self.is_waiting = True
        try:
            yield
        finally:
            self.is_waiting = False

    def _wait(self, paused: Callable[[], bool]) -> None:
        """Wait until the next micro-batch is due, and then a while for events."""
        ask_at = self._due_at()
        patient_until = max(self._clock(), ask_at) + self.grace_s
        whole_at, before = math.inf, 0
        while not self._is_over and not paused():
            now = self._clock()
            if now >= ask_at:
                if before == 0 and now >= patient_until:
                    self._in_vain += 1
                    break  # Planning asks once more.
                backlog = sum(events() for events in self._backlogs.values())
                if backlog == 0:
                    ask_at = min(now + self._pause_s(now), patient_until)
                else:
                    whole_at = min(whole_at, now + LONGEST_BURST * self.trigger_s if self._bursts else now)
                    if backlog == before or now >= whole_at:
                        break
                    before, ask_at = backlog, min(now + BURST_LOOK * self.trigger_s, whole_at)
            with self._changed:
                self._changed.wait(min(ask_at - now, LOOK_S))

    def _wait_for_multiple(self, paused: Callable[[], bool]) -> None:
        """Wait until the next multiple of the interval, unless one has passed since the last micro-batch.

        A wall clock that is set meanwhile makes the wait no longer.
        """
        is_due = self._present_window() != self._window
        left_s = 0.0 if is_due else self.trigger_s - self._wall_clock() % self.trigger_s + LEAST_PAUSE_S
        self._rest(left_s, paused)
        self._window = self._present_window()

    def _rest(self, seconds: float, ended: Callable[[], bool]) -> None:
        end = self._clock() + seconds
        while not self._is_over and not ended() and (now := self._clock()) < end:
            with self._changed:
                self._changed.wait(min(end - now, LOOK_S))

    def _present_window(self) -> float:
        return self._wall_clock() // self.trigger_s

    def planned(self, source: str, backlog: Backlog, *, some: bool, all_of_it: bool) -> None:
        """Note what a source planned: `some` events or none, `all_of_it` that there were or not.

        `backlog` is of those behind. What is left is planned as soon as this micro-batch has ended, because
        the job is behind.
        """
        self._backlogs[source] = backlog
        if some:
            self._number += not self._has_events
            self._has_events = True
            self._in_vain = 0
            self._began_at = self._silent_since = self._clock()
        self._behind = self._behind or not all_of_it

    def end(self) -> None:
        """End the wait of a source whose run is over."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def _due_at(self) -> float:
        if self._began_at is None:
            return self._clock()
        if self._behind:
            return self._began_at
        is_early = self._number <= len(SHARES_AFTER_START)
        return self._began_at + self.trigger_s * (SHARES_AFTER_START[self._number - 1] if is_early else 1.0)

    def _pause_s(self, now: float) -> float:
        longest = max(self.trigger_s / 2, LEAST_LONGEST_PAUSE_S)
        return min(max(SHARE_OF_SILENCE * (now - self._silent_since), LEAST_PAUSE_S), longest)


_paces: dict[str, Pace] = {}


def pace_of(query: str, trigger_s: float, *, bursts: bool, aligned: bool, patient: bool) -> Pace:
    """Return the pace of a query of this process, by a name that no other query has."""
    if query not in _paces:
        _paces[query] = Pace(trigger_s, bursts=bursts, aligned=aligned, patient=patient)
    return _paces[query]


def forget_pace(query: str) -> None:
    """Forget the pace of a run that has ended."""
    pace = _paces.pop(query, None)
    if pace is not None:
        pace.end()


def is_waiting(query: str) -> bool:
    """True if a source of the query waits for its next micro-batch, in this process."""
    pace = _paces.get(query)
    return pace is not None and pace.is_waiting
