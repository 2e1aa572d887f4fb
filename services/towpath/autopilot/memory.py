"""Everything that the autopilot remembers. It is in the hub's events, and read back when it starts."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from nats.errors import Error as NatsError

from towpath.bus import Bus, follow_events
from towpath.bus.announcements import Announcements
from towpath.contracts.autopilot import (
    Decision,
    DecisionChanged,
    DecisionState,
    SiteWindow,
    WindowChanged,
)
from towpath.contracts.errors import TowpathError
from towpath.contracts.message import now

log = logging.getLogger(__name__)

KEPT_DECISIONS = 1000

ENDED = frozenset({DecisionState.DONE, DecisionState.FAILED, DecisionState.REFUSED, DecisionState.DROPPED})


class Memory:
    """Decisions and windows."""

    def __init__(self, announcements: Announcements) -> None:
        self._announcements = announcements
        self.decisions: dict[str, Decision] = {}
        """By identifier, the oldest first."""
        self._since: dict[str, datetime] = {}
        """Decision → since when it is in its state."""
        self._windows: dict[str, SiteWindow] = {}

    async def recall(self, bus: Bus) -> None:
        """Read what earlier autopilots remembered."""
        for kind in (DecisionChanged, WindowChanged):
            stored = follow_events(bus, from_start=True, subject=kind.wildcard(), follow=False)
            async for _, body in stored:
                self.take(kind, body)

    def take(self, kind: type[DecisionChanged | WindowChanged], body: dict[str, Any]) -> None:
        """Take in an event of the past."""
        try:
            event = kind.model_validate(body)
        except ValueError:
            return  # An older version wrote it.
        match event:
            case DecisionChanged():
                self.keep(event.now, event.at)
            case WindowChanged():
                self._keep_window(event)

    async def change(self, decision: Decision) -> Decision:
        """Store the new state of a decision, and tell."""
        self.keep(decision)
        await self._announcements.publish(DecisionChanged(decision=decision.decision, now=decision))
        return decision

    async def fail(self, decision: Decision, error: Exception) -> None:
        """Store that a decision could not be carried out, and why.

        Called for any failure: a decision that never ends would be the last one.
        """
        foreseen = isinstance(error, TowpathError | NatsError | OSError)
        log.warning("decision %s failed: %s", decision.decision, error, exc_info=not foreseen)
        failed = {"state": DecisionState.FAILED, "error": str(error) or type(error).__name__}
        await self.change(decision.model_copy(update=failed))

    def keep(self, decision: Decision, since: datetime | None = None) -> None:
        """Remember a state that is stored, or will be at once. It began at `since`, or now."""
        self.decisions[decision.decision] = decision
        self._since[decision.decision] = since or now()
        for oldest in list(self.decisions)[:-KEPT_DECISIONS]:
            del self.decisions[oldest], self._since[oldest]

    def decision(self, name: str) -> Decision:
        """Return a decision. Raises `TowpathError` if there is none."""
        if name not in self.decisions:
            raise TowpathError.unknown("decision", name, list(self.decisions)[-20:])
        return self.decisions[name]

    @property
    def open(self) -> Decision | None:
        """The one decision that has not ended, apart from twins."""
        return next(
            (
                each
                for each in reversed(self.decisions.values())
                if each.state not in ENDED and not each.is_twin
            ),
            None,
        )

    @property
    def twins(self) -> list[Decision]:
        """The twins that are proposed, or run."""
        return [each for each in self.decisions.values() if each.is_twin and each.state not in ENDED]

    async def change_window(self, window: SiteWindow, *, withdrawn: bool = False) -> None:
        """Store a window, or that it is withdrawn, and tell."""
        changed = WindowChanged(window=window.window, now=window, withdrawn=withdrawn)
        self._keep_window(changed)
        await self._announcements.publish(changed)

    def _keep_window(self, changed: WindowChanged) -> None:
        self._windows.pop(changed.window, None)
        if not changed.withdrawn:
            self._windows[changed.window] = changed.now

    def windows(self) -> list[SiteWindow]:
        """Return the windows that have not ended, the next one first."""
        present = [each for each in self._windows.values() if each.ends > now()]
        self._windows = {each.window: each for each in present}
        return sorted(present, key=lambda each: each.begins)

    def moved_at_s(self) -> Mapping[str, list[float]]:
        """Return when each job moved within the last hour, Unix seconds, the newest last."""
        moved: defaultdict[str, list[float]] = defaultdict(list)
        for each in self.decisions.values():
            begun = (each.due or each.decided).timestamp()
            if each.state in (DecisionState.DONE, DecisionState.FAILED) and begun > time.time() - 3600:
                for move in each.moves:
                    moved[move.job].append(begun)
        return moved

    def vetoed(self, within_s: float) -> frozenset[tuple[str, str]]:
        """Return job and target of the moves that people refused within the last seconds."""
        since = now().timestamp() - within_s
        return frozenset(
            (move.job, move.target)
            for each in self.decisions.values()
            if each.state is DecisionState.REFUSED and each.decided.timestamp() > since
            for move in each.moves
        )

    def failed(self, within_s: float) -> frozenset[tuple[str, str]]:
        """Return job and target of all moves of decisions that failed within the last seconds."""
        since = now() - timedelta(seconds=within_s)
        return frozenset(
            (move.job, move.target)
            for name, each in self.decisions.items()
            if each.state is DecisionState.FAILED and self._since[name] > since
            for move in each.moves
        )
