"""Edges between services that a migration's trace must show, among others."""

from __future__ import annotations

from towpath.protocols.table import strategies
from towpath.telemetry.trace_tree import BATCH

Edge = tuple[str, str]
"""Work of the first service that led to work of the second, in another process. Micro-batches count as a
service of their own."""

_ALWAYS: frozenset[Edge] = frozenset({("coordinator", "agent"), ("agent", "engine")})
"""The coordinator takes steps, agents execute them, engines run the job."""

_STATE_MOVES: frozenset[Edge] = frozenset({("agent", "agent")})
"""The source's agent ships a checkpoint that the target's receives."""

_BOTH_RUN: frozenset[Edge] = frozenset({("coordinator", "monitor"), ("monitor", "agent")})
"""The monitor compares source and target, and asks both how far they are."""

_NOTHING: frozenset[Edge] = frozenset()

EDGES: dict[str, frozenset[Edge]] = {
    name: _ALWAYS
    | (_STATE_MOVES if strategy.carries_state else _NOTHING)
    | (_BOTH_RUN if strategy.monitored else _NOTHING)
    for name, strategy in strategies().items()
}
"""Strategy → edges between the mesh's own services. Add `asked_by` for the client that asked, and
`MICRO_BATCHES` where the job has events to work on."""

MICRO_BATCHES: Edge = ("engine", BATCH)
"""A run that a step commanded did micro-batches."""


def asked_by(client: str) -> Edge:
    """Return the first edge of a migration's trace, for the client `cli` or `api`."""
    return (client, "coordinator")
