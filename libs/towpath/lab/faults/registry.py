"""Base classes of faults, and the registry of all.

A fault is a class in a file of its own under `towpath.lab.faults.faults`, decorated with `@fault("name", …)`.
Its base classes say what it can be done to; its parameters are what a rule may set.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, ClassVar, TypeVar

import psutil
from pydantic import BaseModel

from towpath.contracts.faults import AtPoint, RuleEvent, TargetKind
from towpath.contracts.links import LinkConditions
from towpath.contracts.message import Model
from towpath.descriptors import Descriptors
from towpath.hooks.points import Items

T = TypeVar("T")
FaultT = TypeVar("FaultT", bound="type[Fault]")

POINT = "point"
"""The kind of event that is no target."""


class NoParameters(Model):
    """A fault without parameters."""


class Fault(ABC):
    """One action of one loaded rule in one process."""

    name: ClassVar[str]
    parameters_type: ClassVar[type[BaseModel]] = NoParameters
    """The parameters that a rule may set."""
    applies_to: ClassVar[frozenset[str]] = frozenset()
    """Kinds of events: `point`, kinds of targets. Base classes add theirs."""

    def __init__(self, parameters: Any, random: Random) -> None:
        self.parameters = parameters
        self.random = random
        """Seeded by the rule: all that is left to chance comes from here."""

    @classmethod
    def meaning(cls) -> str:
        """Return what it does, in one line for users: its docstring."""
        return " ".join((cls.__doc__ or "").split())

    @classmethod
    def expressions(cls, parameters: Any) -> Sequence[str]:
        """Return the expressions among the parameters, such as `size(payload)`."""
        return ()


@dataclass(frozen=True)
class Measurement:
    """One measurement of an instrumentation rule."""

    name: str
    value: float
    labels: Mapping[str, str]
    entity: str | None = None
    """The thing that was measured; null: the process."""


class PointFault(Fault):
    """Holds up, changes or refuses what passes a named point."""

    applies_to = frozenset({POINT})

    def wait_s(self, hits: int) -> float:
        """Return how long everything that passes is held up for so many hits, seconds."""
        return 0.0

    def change(self, items: Sequence[T], hits: Sequence[int], access: Items[T]) -> Sequence[T]:
        """Return what passes instead of `items`. `hits` are the places, ascending, that the rule is about.

        The code at the point sees an `InjectedFault` that this raises.
        """
        return items

    measures: ClassVar[bool] = False
    """True if `measured` is to be asked for each hit."""

    def measured(self, evaluate: Callable[[str], Any]) -> Sequence[Measurement]:
        """Return metrics of one hit; `evaluate` gives the value of an expression for it."""
        return ()


@dataclass
class Target:
    """The target of a fault outside code."""

    kind: TargetKind
    name: str
    processes: Callable[[], list[psutil.Process]]
    """The process of that name and, of an engine, its whole family; of a machine all of them. None while it
    does not run."""
    restart: Callable[[], None] | None = None
    """Ends the process in good order, so that its supervisor restarts it."""
    directory: str | None = None
    """Where the scope keeps its data: for faults of disks."""
    cut_power: Callable[[bool], None] | None = None
    """Kills all of a machine, takes all that it stored if told so, and lets it start again."""
    let_start: Callable[[], None] | None = None
    """Lets a machine start again whose power was cut by a process that died meanwhile."""
    remembered: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The target's state before, as the fault's `remember` has returned it."""


class StrikingFault(Fault):
    """Done once, with nothing to undo: a supervisor restarts its processes."""

    @abstractmethod
    def strike(self, target: Target) -> None:
        """Do it; blocks for a moment at most."""

    def finish(self, target: Target) -> None:
        """Make it whole when `strike` failed, or was cut short with the process that called it. Harmless when
        nothing is missing."""


class HeldFault(Fault):
    """Lasts until it is released. What it holds must also end, or be found again by `release` in another
    process, when the process that holds it is killed."""

    def remember(self, target: Target, known: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the target's state without this fault, as `release` needs it; plain JSON. It is written
        down before each `hold`, and both find it in `target.remembered`.

        `known` is what was written down before, by this rule or, at its first look, by others with the same
        fault on the same target. What is raised here keeps it from being held.
        """
        return known

    @abstractmethod
    def hold(self, target: Target) -> None:
        """Begin, or hold on: called again about four times a second, also for processes that came since."""

    @abstractmethod
    def release(self, target: Target) -> None:
        """End it. Harmless when it does not hold; also called for what an earlier process held."""


class LinkFault(Fault):
    """Makes a link worse for as long as its rule holds."""

    applies_to = frozenset({TargetKind.LINK.value})

    @abstractmethod
    def worsen(self, conditions: LinkConditions) -> LinkConditions:
        """Return the conditions with this fault added."""


FAULTS = Descriptors[type[Fault]]("fault", ["towpath.lab.faults.faults"])


def fault(name: str, parameters: type[BaseModel] = NoParameters) -> Callable[[FaultT], FaultT]:
    """Register a fault under the name that actions give. What it applies to is the union of its bases'."""

    def register(kind: FaultT) -> FaultT:
        kind.name, kind.parameters_type = name, parameters
        kind.applies_to = frozenset[str]().union(
            *(base.__dict__.get("applies_to", ()) for base in kind.__mro__)
        )
        FAULTS.register(name, kind)
        return kind

    return register


def faults() -> Mapping[str, type[Fault]]:
    """Return all faults by name, in the order of their names."""
    return FAULTS.by_name()


def kind_of_event(event: RuleEvent) -> str:
    """Return the kind by which faults say what they apply to: `point`, or a kind of target."""
    return POINT if isinstance(event, AtPoint) else event.target.value
