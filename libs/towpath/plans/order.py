"""Order operations by their dependencies: the order number of the thesis (section 3.5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter

from towpath.contracts.plan import DeploymentPlan, TaskKind

Predecessors = Mapping[str, set[str]]
"""Operation → the operations it depends on."""


def data_flow(plan: DeploymentPlan) -> dict[str, set[str]]:
    """Return, for each operation, those whose results it reads, by what either end says."""
    known = {operation.id for operation in plan.operations}
    before: dict[str, set[str]] = {identifier: set() for identifier in known}
    for operation in plan.operations:
        before[operation.id].update(known.intersection(operation.reads_from))
        for target in known.intersection(operation.writes_to):
            before[target].add(operation.id)
    return before


def find_cycle(before: Predecessors) -> list[str]:
    """Return operations that form a cycle, the first also at the end; nothing if there is no cycle."""
    try:
        TopologicalSorter(before).prepare()
    except CycleError as error:
        return [*reversed(error.args[1])]
    return []


def start_order(plan: DeploymentPlan) -> dict[str, set[str]]:
    """Return, for each operation, those that must run before it starts.

    A reader starts after its writers. Operators connect to message servers, so these start before both their
    readers and their writers.
    """
    servers = {o.id for o in plan.operations if o.executes.kind is TaskKind.INGESTION}
    after: dict[str, set[str]] = {operation.id: set() for operation in plan.operations}
    for reader, writers in data_flow(plan).items():
        for writer in writers:
            if reader in servers and writer not in servers:
                after[writer].add(reader)
            else:
                after[reader].add(writer)
    return after


def order_numbers(after: Predecessors) -> dict[str, int]:
    """Return the order number of each operation: 1, or one more than the largest of those before it.

    Raises `graphlib.CycleError` when operations wait for each other.
    """
    numbers: dict[str, int] = {}
    for identifier in TopologicalSorter(after).static_order():
        numbers[identifier] = 1 + max((numbers[first] for first in after.get(identifier, ())), default=0)
    return numbers


def listed(names: Iterable[str], most: int = 5) -> str:
    """Return names as a text that names at most so many of them."""
    given = [*names]
    more = f" and {len(given) - most} more" if len(given) > most else ""
    return ", ".join(given[:most]) + more
