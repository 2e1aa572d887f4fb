"""The vocabulary of the tables: actors, steps, compensations, strategies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from towpath.contracts.migration import StepCommand
from towpath.protocols.record import OperationRecord, RegistryChange

Ask = Callable[[OperationRecord], StepCommand[Any]]
Action = Callable[[OperationRecord], StepCommand[Any] | RegistryChange]

UNDO_MUST_S = 120.0
"""A compensation without which the job would stand still: longer than a site takes to restart."""

UNDO_BEST_EFFORT_S = 5.0
"""A compensation of a party that is fenced anyway: it may be dead, and the source waits meanwhile."""


class Actor(StrEnum):
    """Who carries a step out."""

    SOURCE = "source"
    TARGET = "target"
    OUTPUT = "output"
    """The agent of the site that keeps the output stream."""
    MONITOR = "monitor"
    """The service that compares two runs of a job."""
    COORDINATOR = "coordinator"
    """A change of the registry."""


@dataclass(frozen=True)
class Compensation:
    """How a begun step is undone, whether it was confirmed or not."""

    actor: Actor
    command: Ask
    must: bool = False
    """Whether the job stands still without it: then it is tried long, and its failure needs a person."""
    owed: Callable[[OperationRecord], bool] = lambda record: True
    """Whether there is anything to undo, by what has begun since."""

    @property
    def deadline_s(self) -> float:
        """How long it is tried, seconds."""
        return UNDO_MUST_S if self.must else UNDO_BEST_EFFORT_S


@dataclass(frozen=True)
class Step:
    """One row of a table."""

    name: str
    """Unique in its strategy; command identifiers are made from it."""
    actor: Actor
    command: Action
    """What is asked. A function of durable facts only, so that a repetition asks the same."""
    deadline_s: float | Callable[[OperationRecord], float] = 15.0
    """Without confirmation for so long, the operation is rolled back (or, past the point of no
    return, goes on without). A function where it depends on the job."""
    attempt_s: float = 5.0
    """Without an answer for so long, the same command is sent again: its receiver may have died, or the
    command with its connection. One that is still at work joins the repetition to what it does, so this need
    not be as long as the work."""
    compensation: Compensation | None = None
    point_of_no_return: bool = False
    """Once confirmed, the operation only goes forward."""
    optional: bool = False
    """Its failure is no failure of the operation."""
    endless: bool = False
    """Past the point of no return: nobody publishes without it, so it is tried until it succeeds."""
    busy_s: float = 0.0
    """As long as its receiver answers that it is busy with what the step needs, the deadline begins anew,
    for up to so long altogether."""

    def within_s(self, record: OperationRecord) -> float:
        """The deadline of this step in the operation, seconds."""
        return self.deadline_s(record) if callable(self.deadline_s) else self.deadline_s


@dataclass(frozen=True)
class Strategy:
    """A table: its steps in order, and what the registry says after a rollback."""

    name: str
    steps: tuple[Step, ...]
    rolled_back: Callable[[OperationRecord], RegistryChange | None]

    def step(self, name: str) -> Step:
        """The row of that name. Raises `KeyError`."""
        return {step.name: step for step in self.steps}[name]


def restored(record: OperationRecord) -> RegistryChange:
    """Rolled back: the old owner, at an epoch above every epoch that was ever set.

    The epochs that the target was told of are used up, whether or not the output ever accepted them:
    it may still run under one, and must not find it accepted one day.
    """
    before = record.entry_before
    used = max(before.used_epoch, record.new_epoch, record.undo_epoch)
    entry = before.model_copy(update={"used_epoch": used})
    if record.undo_epoch != record.old_epoch:
        entry = entry.at_epoch(record.undo_epoch).model_copy(update={"resumes": record.old_epoch})
    return RegistryChange(job=record.job, entry=entry)
