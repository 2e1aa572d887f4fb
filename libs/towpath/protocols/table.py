"""Tables of steps: one for each operation, and one for each strategy that moves a job.

A table registers itself when its module is loaded. An operation's record alone tells which table it follows,
so all coordinators agree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from towpath.contracts.commands import ConsistencyCheck, MigrationFigures, OperationKind
from towpath.contracts.job import JobSpec
from towpath.contracts.migration import Held
from towpath.descriptors import Descriptors
from towpath.protocols.record import OperationRecord, RegistryChange
from towpath.protocols.step import Actor, Step


@dataclass(frozen=True, kw_only=True)
class StepTable:
    """The steps of an operation in order, and the registry's change after a rollback."""

    name: str
    kind: OperationKind
    summary: str
    """For people, without capital and full stop."""
    steps: tuple[Step[Any], ...]
    rolled_back: Callable[[OperationRecord], RegistryChange | None]
    chosen: Callable[[OperationRecord], bool] = lambda record: True
    """Tells if the operation follows this table, where one kind has several."""
    interim_epoch: bool = False
    """Source and target run at once: an epoch between theirs is needed."""

    def step(self, name: str) -> Step[Any]:
        """Return the step of that name. Raises `KeyError`."""
        return {step.name: step for step in self.steps}[name]

    @property
    def holds(self) -> bool:
        """It waits on its way until someone lets it go on."""
        return any(step.fact is Held for step in self.steps)

    def follows(self, record: OperationRecord) -> bool:
        """Tell if the operation follows this table."""
        return record.kind is self.kind and self.chosen(record)


@dataclass(frozen=True, kw_only=True)
class Strategy(StepTable):
    """A way to move a job. `docs/extending/strategy.md` says how to add one."""

    kind: OperationKind = OperationKind.MIGRATE
    obstacle: Callable[[JobSpec], str | None]
    """Returns the reason why the strategy cannot move such a job; None if it can."""
    suits: Callable[[JobSpec], str | None] = lambda spec: None
    """Returns the reason why `auto` takes it for such a job; None if it does not."""
    auto_rank: int = 100
    """`auto` asks the strategies in this order, and takes the first that suits."""
    carries_state: bool = False
    """The job's state crosses from source to target."""
    begins_after: Callable[[OperationRecord], dict[str, int]] | None = None
    """Returns, for each input, the serial number after which the target begins with an empty checkpoint of a
    new generation. None: the target goes on from the state that was carried."""
    loses_state: bool = False
    """The move changes the results of a stateful job."""
    checks: tuple[ConsistencyCheck, ...] = ()
    """Comparisons that the user can ask for."""
    plain_s: float
    """Seconds that a move of small state takes on two cores with warm engines."""
    figures: Callable[[OperationRecord], MigrationFigures]
    """Returns the cost of a completed move."""

    @property
    def empty_beginning(self) -> bool:
        """The target begins with an empty checkpoint."""
        return self.begins_after is not None

    @property
    def monitored(self) -> bool:
        """The monitor takes part."""
        return any(step.actor is Actor.MONITOR for step in self.steps)

    def follows(self, record: OperationRecord) -> bool:
        """See `StepTable.follows`."""
        return record.kind is self.kind and record.strategy == self.name


T = TypeVar("T", bound=StepTable)

TABLES = Descriptors[StepTable](
    "step table", ["towpath.protocols.operations", "towpath.protocols.strategies"]
)


def register(table: T) -> T:
    """Make a table known. Raises `ValueError` when another one has its name."""
    TABLES.register(table.name, table)
    return table


def tables() -> Mapping[str, StepTable]:
    """Return all tables by name, in the order of their names."""
    return TABLES.by_name()


def strategies() -> dict[str, Strategy]:
    """Return all strategies by name, in the order of their names."""
    return {name: table for name, table in tables().items() if isinstance(table, Strategy)}


def table_of(record: OperationRecord) -> StepTable:
    """Return the table that an operation follows."""
    (table,) = (table for table in tables().values() if table.follows(record))
    return table


def strategy_of(record: OperationRecord) -> Strategy:
    """Return the strategy that a migration follows."""
    table = table_of(record)
    assert isinstance(table, Strategy), f"{record.kind} is no migration"
    return table
