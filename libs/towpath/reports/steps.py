"""An operation's journal as the steps that were taken: who took each, when, and how it ended."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from towpath.contracts.commands import OperationKind, OperationView, StrategyName
from towpath.protocols.attempts import Attempt, attempts
from towpath.protocols.course import Phase
from towpath.protocols.operations.deploy import DEPLOY
from towpath.protocols.operations.remove import REMOVE_AND_PURGE
from towpath.protocols.operations.update import ADJUST, REDIRECT, UPDATE
from towpath.protocols.step import Step, Strategy
from towpath.protocols.table import MIGRATIONS


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
    rows = _rows(view)
    return [_taken(rows, attempt) for attempt in attempts(view.journal)]


def told(detail: dict[str, Any]) -> str:
    """A journal entry's detail on one line, as far as it says something."""
    said = {name: value for name, value in detail.items() if value not in (None, [], {}, "")}
    if "reason" in said:
        said.pop("error", None)
    return ", ".join(f"{key}={json.dumps(value)}" for key, value in said.items())


def _taken(rows: list[Step], attempt: Attempt) -> TakenStep:
    first, last = attempt.first, attempt.last
    end = last or first
    return TakenStep(
        name=first.step,
        actor=next((row.actor.value for row in rows if row.name == first.step), None),
        phase=end.phase,
        begun_at=first.at,
        ended_at=last and last.at,
        took_s=attempt.took_s,
        undoing=attempt.undoing,
        detail=end.detail,
    )


def _rows(view: OperationView) -> list[Step]:
    """The steps that such an operation may have."""
    match view.kind:
        case OperationKind.DEPLOY:
            tables: tuple[Strategy, ...] = (DEPLOY,)
        case OperationKind.UPDATE:
            tables = (ADJUST, UPDATE, REDIRECT)
        case OperationKind.REMOVE:
            tables = (REMOVE_AND_PURGE,)
        case OperationKind.MIGRATE:
            tables = (MIGRATIONS[view.strategy or StrategyName.GENERAL],)
    return [row for table in tables for row in table.steps]
