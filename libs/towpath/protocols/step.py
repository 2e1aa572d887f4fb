"""The vocabulary of the tables: actors, steps and compensations."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, TypeVar, get_type_hints

from towpath.contracts.message import Model
from towpath.contracts.migration import Held, StepCommand
from towpath.protocols.record import OperationRecord, RegistryChange

Fact = TypeVar("Fact", bound=Model)
Ask = Callable[[OperationRecord], StepCommand[Any]]
Write = Callable[[OperationRecord], RegistryChange]
Deadline = float | Callable[[OperationRecord], float]

UNDO_MUST_S = 120.0
"""Deadline of a compensation without which the job would stand still: longer than a site's restart."""

UNDO_BEST_EFFORT_S = 5.0
"""Deadline of a compensation by a party that is fenced anyway: it may be dead, and the source waits."""


class Actor(StrEnum):
    """The party that executes a step."""

    SOURCE = "source"
    TARGET = "target"
    OUTPUT = "output"
    """The agent of the site that keeps the output stream."""
    MONITOR = "monitor"
    """The service that compares two runs of a job."""
    COORDINATOR = "coordinator"
    """A change of the registry."""


@dataclass(frozen=True)
class Hold:
    """A wait of the coordinator: nothing is sent until someone finishes the operation."""

    seconds: float | None
    """Longest wait, from when the step began; None: however long it takes."""


@dataclass(frozen=True)
class Compensation:
    """Undoes a begun step, confirmed or not."""

    actor: Actor
    command: Ask
    must: bool = False
    """The job stands still without it. It is tried for longer, and its failure needs a person."""
    owed: Callable[[OperationRecord], bool] = lambda record: True
    """Tells from the steps that have begun since if there is anything to undo."""
    owed_if: str = ""
    """The same in words, for the protocol's document."""

    @property
    def deadline_s(self) -> float:
        """Seconds for which it is tried."""
        return UNDO_MUST_S if self.must else UNDO_BEST_EFFORT_S


@dataclass(frozen=True)
class Step(Generic[Fact]):
    """One row of a table. `asks` and `writes` make it from the function that makes its command."""

    name: str
    """Unique in its table; command identifiers are made from it."""
    actor: Actor
    command: Callable[[OperationRecord], StepCommand[Fact] | RegistryChange | Hold]
    """Makes the command. It depends on durable facts only, so that a repetition asks the same."""
    fact: type[Fact]
    """The actor's answer. Later steps may build on it."""
    summary: str = ""
    """One sentence for people."""
    deadline_s: Deadline = 15.0
    """Seconds until the operation is rolled back without a confirmation. Past the point of no return it goes
    on without the step. A function where it depends on the job."""
    attempt_s: float = 3.0
    """Seconds until the same command is sent again without an answer: its receiver may have died, or the
    command with its connection. A receiver that is still at work joins the repetition to its work, so this
    need not be as long as the work."""
    compensation: Compensation | None = None
    point_of_no_return: bool = False
    """Once confirmed, the operation only goes forward."""
    optional: bool = False
    """The operation goes on when the step fails."""
    endless: bool = False
    """Past the point of no return it is tried until it succeeds: without it no one publishes."""
    busy_s: float = 0.0
    """Each time the receiver answers that it is busy with what the step needs, the deadline starts again: for
    up to this many seconds altogether."""
    disturbs: bool = False
    """Once begun, the source does not go on by itself."""
    changes_hands: bool = False
    """It tells the output which owner may publish: a late repetition must find a higher epoch there."""

    def within_s(self, record: OperationRecord) -> float:
        """Return the deadline of this step in the operation, seconds."""
        return self.deadline_s(record) if callable(self.deadline_s) else self.deadline_s

    def find(self, record: OperationRecord) -> Fact | None:
        """Return the answer to this step; None if there is none.

        An older or a newer release may have written the journal, so fields that the model lacks are ignored.
        """
        written = record.facts.get(self.name)
        return None if written is None else self.fact.model_validate(written, extra="ignore")

    def fact_in(self, record: OperationRecord) -> Fact:
        """Return the answer to this step, for steps after it."""
        found = self.find(record)
        assert found is not None, f"{self.name} is not confirmed"
        return found


def asks(
    actor: Actor,
    deadline_s: Deadline = 15.0,
    attempt_s: float = 3.0,
    *,
    undone_by: Compensation | None = None,
    point_of_no_return: bool = False,
    optional: bool = False,
    endless: bool = False,
    busy_s: float = 0.0,
    disturbs: bool = False,
    changes_hands: bool = False,
) -> Callable[[Callable[[OperationRecord], StepCommand[Fact]]], Step[Fact]]:
    """Make a step of a function that makes its command.

    The function's name becomes the step's, its docstring the summary, and the answer of the command that it
    is annotated with the fact.
    """

    def step_of(command: Callable[[OperationRecord], StepCommand[Fact]]) -> Step[Fact]:
        return Step(
            name=_name_of(command),
            actor=actor,
            command=command,
            fact=get_type_hints(command)["return"].answer,
            summary=_summary_of(command),
            deadline_s=deadline_s,
            attempt_s=attempt_s,
            compensation=undone_by,
            point_of_no_return=point_of_no_return,
            optional=optional,
            endless=endless,
            busy_s=busy_s,
            disturbs=disturbs,
            changes_hands=changes_hands,
        )

    return step_of


def writes(*, point_of_no_return: bool = False) -> Callable[[Write], Step[Model]]:
    """Make a step of a function that makes a change of the registry. The coordinator takes it."""

    def step_of(change: Write) -> Step[Model]:
        return Step(
            name=_name_of(change),
            actor=Actor.COORDINATOR,
            command=change,
            fact=Model,
            summary=_summary_of(change),
            point_of_no_return=point_of_no_return,
        )

    return step_of


def holds(wait: Callable[[OperationRecord], Hold]) -> Step[Held]:
    """Make a step of a function that says how long the coordinator waits."""
    return Step(
        name=_name_of(wait), actor=Actor.COORDINATOR, command=wait, fact=Held, summary=_summary_of(wait)
    )


def _name_of(function: Callable[..., Any]) -> str:
    return function.__name__.replace("_", "-")


def _summary_of(function: Callable[..., Any]) -> str:
    return (inspect.getdoc(function) or "").split("\n\n")[0].replace("\n", " ")
