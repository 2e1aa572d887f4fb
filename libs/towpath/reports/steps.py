"""An operation's journal as the steps that were taken: who took each, when, and how it ended."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from towpath.contracts.commands import JournalEntry, OperationKind, OperationView, StrategyName
from towpath.protocols.course import Phase
from towpath.protocols.deploy import DEPLOY
from towpath.protocols.remove import REMOVE_AND_PURGE
from towpath.protocols.step import Strategy
from towpath.protocols.strategies import MIGRATIONS
from towpath.protocols.update import UPDATE

BEGINNINGS = frozenset({Phase.BEGUN, Phase.COMPENSATING})
"""Phases that another line of the journal ends."""


@dataclass(frozen=True)
class TakenStep:
    """One time that a step was taken or undone."""

    name: str
    actor: str | None
    """Who took it; unknown for a step of a table of earlier days."""
    phase: str
    """How it ended, or `begun` or `compensating` while it is under way."""
    begun_at: datetime
    ended_at: datetime | None
    """None while it is under way."""
    detail: dict[str, Any]
    """What was confirmed, or the error."""

    @property
    def took_s(self) -> float | None:
        """Seconds; None while it is under way."""
        return None if self.ended_at is None else (self.ended_at - self.begun_at).total_seconds()

    @property
    def undoing(self) -> bool:
        """Whether it was a compensation."""
        return self.phase in (Phase.COMPENSATING, Phase.COMPENSATED) or "undo" in self.detail

    @property
    def failed(self) -> bool:
        """Whether it was refused or not confirmed in time."""
        return self.phase == Phase.FAILED


def taken_steps(view: OperationView) -> list[TakenStep]:
    """The steps in the order in which they were begun."""
    table = _table(view)
    return [_taken(table, first, last) for first, last in _pairs(view.journal)]


def told(detail: dict[str, Any]) -> str:
    """A journal entry's detail on one line, as far as it says something."""
    said = {name: value for name, value in detail.items() if value not in (None, [], {}, "")}
    if "reason" in said:
        said.pop("error", None)
    return ", ".join(f"{key}={json.dumps(value)}" for key, value in said.items())


def _taken(table: Strategy, first: JournalEntry, last: JournalEntry | None) -> TakenStep:
    end = last or first
    actor = next((row.actor.value for row in table.steps if row.name == first.step), None)
    return TakenStep(first.step, actor, end.phase, first.at, last and last.at, end.detail)


def _pairs(journal: Sequence[JournalEntry]) -> list[tuple[JournalEntry, JournalEntry | None]]:
    """Each beginning with what ended it: None while it is under way. A repeated beginning counts once."""
    pairs: list[tuple[JournalEntry, JournalEntry | None]] = []
    for entry in journal:
        open_for = pairs[-1][0] if pairs and pairs[-1][1] is None else None
        if open_for is None or open_for.step != entry.step:
            pairs.append((entry, None if entry.phase in BEGINNINGS else entry))
        elif entry.phase not in BEGINNINGS:
            pairs[-1] = (open_for, entry)
    return pairs


def _table(view: OperationView) -> Strategy:
    match view.kind:
        case OperationKind.DEPLOY:
            return DEPLOY
        case OperationKind.UPDATE:
            return UPDATE
        case OperationKind.REMOVE:
            return REMOVE_AND_PURGE
        case OperationKind.MIGRATE:
            return MIGRATIONS[view.strategy or StrategyName.GENERAL]
