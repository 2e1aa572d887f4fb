"""Rounds of stability-driven replication: copies of what unstable nodes store, at stable nodes.

The algorithm is RAINBOW's (D4.2, stability-based placement); defaults are the constants of its authors' code.
What the source leaves open is decided here, and each docstring says how.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from towpath.placement.data.node_history import DAY_S, NodeHistory, instability_per_s, stability_node_s

ROUND_S = 1800.0
"""Time from round to round in the authors' code."""


@dataclass(frozen=True)
class ReplicationRules:
    """Limits of a round."""

    unstable_from_per_s: float = 0.01
    """Least U of an unstable node. A node that fails once, 200 s after its start, just has it. Nodes that
    fail a few times a day are far below (1.16e-5/s is once a day): give another value for those."""
    recently_s: float = 3600.0
    """Time in which a node that was chosen is not chosen again, and one that was unstable gets no copies."""
    unstable_per_round: int = 1
    stable_per_round: int | None = None
    """Size of the pool of destinations. None: all stable nodes."""
    outgoing_copies: int = 2
    """Most complete copies of what one node stores. It stops old nodes, whose U only grows, from heading the
    list in every round."""
    stable_failures: int = 1
    """Most failures of a stable node within `stable_window_s`."""
    stable_window_s: float = 2 * DAY_S
    """Without it, the second failure of its life would exclude a node until its history is deleted."""


AUTHORS_RULES = ReplicationRules()


@dataclass(frozen=True)
class Node:
    """A node that answers now, with the copies of what it stores."""

    name: str
    history: NodeHistory
    copies_at: frozenset[str] = frozenset()
    """Nodes with a complete copy of what this node stores."""
    parts_at: frozenset[str] = frozenset()
    """Nodes with a part of it: from an interrupted copy, or a query-driven one."""
    chosen_at_s: float | None = None
    """Time at which a round last chose it as unstable."""
    unstable_at_s: float | None = None
    """Time at which a round last saw it unstable, chosen or not."""


@dataclass(frozen=True)
class Replication:
    """A copy to make: history once, then each new value."""

    owner: str
    destination: str
    completes: bool
    """True if the destination holds a part already."""


class EndReason(StrEnum):
    """Reason why a copy ends."""

    OWNER_STABLE = "owner is stable"
    """New values are copied no longer. What was copied stays for its retention."""
    DESTINATION_UNSTABLE = "destination is unstable"
    """The copy counts no longer, so another round finds another destination."""


@dataclass(frozen=True)
class EndedReplication:
    """A copy that must end."""

    owner: str
    destination: str
    reason: EndReason


def is_unstable(node: Node, now_s: float, rules: ReplicationRules = AUTHORS_RULES) -> bool:
    """Return True if a node has failed and its U reaches the rules' least one."""
    return (
        bool(node.history.failures_s) and instability_per_s(node.history, now_s) >= rules.unstable_from_per_s
    )


def is_stable(node: Node, now_s: float, rules: ReplicationRules = AUTHORS_RULES) -> bool:
    """Return True if a node may keep copies: not unstable now or recently, and with few failures recently.

    The source excludes nodes that failed more than once; as in its code, failures within two days count.
    """
    return (
        not _recent(node.unstable_at_s, now_s, rules)
        and node.history.failures_within(rules.stable_window_s, now_s) <= rules.stable_failures
        and not is_unstable(node, now_s, rules)
    )


def unstable_nodes(
    nodes: Iterable[Node], now_s: float, rules: ReplicationRules = AUTHORS_RULES
) -> list[Node]:
    """Return the nodes whose data a round replicates, the highest U first; equal U by name.

    Nodes that were chosen recently, or have all the copies that they may have, are left out. Only complete
    copies count.
    """
    found = [
        node
        for node in nodes
        if not _recent(node.chosen_at_s, now_s, rules)
        and len(node.copies_at) < rules.outgoing_copies
        and is_unstable(node, now_s, rules)
    ]
    found.sort(key=lambda node: (-instability_per_s(node.history, now_s), node.name))
    return found[: rules.unstable_per_round]


def stable_nodes(nodes: Iterable[Node], now_s: float, rules: ReplicationRules = AUTHORS_RULES) -> list[Node]:
    """Return the nodes that may get a copy, the highest S first; equal S, the usual 0 included, by name.

    S counts all failures and restarts, as the source prints it; the authors' code counts recent failures
    only.
    """
    found = [node for node in nodes if is_stable(node, now_s, rules)]
    found.sort(key=lambda node: (-stability_node_s(node.history, now_s), node.name))
    return found[: rules.stable_per_round]


def paired(unstable: Iterable[Node], stable: Iterable[Node]) -> tuple[Replication, ...]:
    """Give each unstable node, in order, a destination of its own: the first of the pool.

    If nodes in the top half of what is left of the pool hold a part of its data, the first of them is taken
    instead, and completes its copy. Half of an odd number is rounded up. A node that has a complete copy
    already is passed over and stays in the pool. Without a destination, an unstable node gets none in this
    round.
    """
    pool = [node.name for node in stable]
    found: list[Replication] = []
    for owner in unstable:
        top = pool[: math.ceil(len(pool) / 2)]
        unfit = owner.copies_at | {owner.name}
        holders = (name for name in top if name in owner.parts_at - unfit)
        others = (name for name in pool if name not in unfit)
        destination = next(holders, None) or next(others, None)
        if destination is not None:
            pool.remove(destination)
            found.append(Replication(owner.name, destination, completes=destination in owner.parts_at))
    return tuple(found)


def replications(
    nodes: Iterable[Node], now_s: float, rules: ReplicationRules = AUTHORS_RULES
) -> tuple[Replication, ...]:
    """Return the copies that a round begins."""
    nodes = tuple(nodes)
    return paired(unstable_nodes(nodes, now_s, rules), stable_nodes(nodes, now_s, rules))


def ended_replications(
    nodes: Iterable[Node], now_s: float, rules: ReplicationRules = AUTHORS_RULES
) -> Iterator[EndedReplication]:
    """Yield the complete copies that end, by the names of owner and destination.

    A destination that does not answer, and so is not among `nodes`, keeps its copy: it may come back with it.
    """
    by_name = {node.name: node for node in nodes}
    for name, owner in sorted(by_name.items()):
        stable = bool(owner.copies_at) and is_stable(owner, now_s, rules)
        for destination in sorted(owner.copies_at):
            if stable:
                yield EndedReplication(name, destination, EndReason.OWNER_STABLE)
            elif destination in by_name and is_unstable(by_name[destination], now_s, rules):
                yield EndedReplication(name, destination, EndReason.DESTINATION_UNSTABLE)


def _recent(at_s: float | None, now_s: float, rules: ReplicationRules) -> bool:
    return at_s is not None and now_s - at_s < rules.recently_s
