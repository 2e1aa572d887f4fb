"""Read an operation's journal as steps: who took each, when, and how it ended."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from towpath.contracts.commands import OperationKind, OperationView
from towpath.protocols.attempts import Attempt, attempts
from towpath.protocols.progress import StepPhase
from towpath.protocols.step import Step
from towpath.protocols.table import tables


@dataclass(frozen=True)
class TakenStep:
    """One execution or compensation of a step, as people are shown it."""

    name: str
    actor: str | None
    """The actor. None for a step of an earlier version's table."""
    phase: str
    """Its outcome. `begun` or `compensating` while it is under way."""
    begun_at: datetime
    ended_at: datetime | None
    """None while it is under way."""
    took_s: float | None
    """Seconds it took. None while it is under way."""
    undoing: bool
    """True if it was a compensation."""
    detail: dict[str, Any]
    """The answer that confirmed it, or the error."""

    @property
    def failed(self) -> bool:
        """True if it was refused or not confirmed in time."""
        return self.phase == StepPhase.FAILED


def taken_steps(view: OperationView) -> list[TakenStep]:
    """Return the steps in the order in which they began."""
    rows = _rows(view)
    return [_taken(rows, attempt) for attempt in attempts(view.journal)]


def told(detail: dict[str, Any]) -> str:
    """Return a journal entry's detail on one line, without fields that say nothing."""
    said = {name: value for name, value in detail.items() if value not in (None, [], {}, "")}
    if "reason" in said:
        said.pop("error", None)
    return ", ".join(f"{key}={json.dumps(value)}" for key, value in said.items())


def _taken(rows: list[Step[Any]], attempt: Attempt) -> TakenStep:
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


def _rows(view: OperationView) -> list[Step[Any]]:
    """The steps that such an operation may have."""
    fitting = [t for t in tables().values() if t.kind is view.kind]
    if view.kind is OperationKind.MIGRATE and view.strategy is not None:
        fitting = [t for t in fitting if t.name == view.strategy]
    return [row for table in fitting for row in table.steps]
