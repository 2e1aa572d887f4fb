"""An operation's journal as the steps that were taken: who took each, when, and how it ended."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from towpath.contracts.commands import OperationKind, OperationView, StrategyName
from towpath.protocols.attempts import Attempt, attempts
from towpath.protocols.course import Phase
from towpath.protocols.deploy import DEPLOY
from towpath.protocols.remove import REMOVE_AND_PURGE
from towpath.protocols.step import Strategy
from towpath.protocols.strategies import MIGRATIONS
from towpath.protocols.update import UPDATE


@dataclass(frozen=True)
class TakenStep:
    """One time that a step was taken or undone, as people are shown it."""

    name: str
    actor: str | None
    """Who took it; unknown for a step of a table of earlier days."""
    phase: str
    """How it ended, or `begun` or `compensating` while it is under way."""
    begun_at: datetime
    ended_at: datetime | None
    """None while it is under way."""
    took_s: float | None
    """Seconds; None while it is under way."""
    undoing: bool
    """Whether it was a compensation."""
    detail: dict[str, Any]
    """What was confirmed, or the error."""

    @property
    def failed(self) -> bool:
        """Whether it was refused or not confirmed in time."""
        return self.phase == Phase.FAILED


def taken_steps(view: OperationView) -> list[TakenStep]:
    """The steps in the order in which they were begun."""
    table = _table(view)
    return [_taken(table, attempt) for attempt in attempts(view.journal)]


def told(detail: dict[str, Any]) -> str:
    """A journal entry's detail on one line, as far as it says something."""
    said = {name: value for name, value in detail.items() if value not in (None, [], {}, "")}
    if "reason" in said:
        said.pop("error", None)
    return ", ".join(f"{key}={json.dumps(value)}" for key, value in said.items())


def _taken(table: Strategy, attempt: Attempt) -> TakenStep:
    first, last = attempt.first, attempt.last
    end = last or first
    return TakenStep(
        name=first.step,
        actor=next((row.actor.value for row in table.steps if row.name == first.step), None),
        phase=end.phase,
        begun_at=first.at,
        ended_at=last and last.at,
        took_s=attempt.took_s,
        undoing=attempt.undoing,
        detail=end.detail,
    )


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
