"""Which services a migration leads through: what its trace must show, whatever else is in it."""

from __future__ import annotations

from towpath.protocols.table import strategies
from towpath.telemetry.trace_tree import BATCH

Edge = tuple[str, str]
"""Work of the first service led to work of the second, in another process; micro-batches count as one."""

_ALWAYS: frozenset[Edge] = frozenset({("coordinator", "agent"), ("agent", "engine")})
"""The coordinator takes steps, agents carry them out, engines run the job."""

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
"""Between the mesh's own services. Whoever asked comes on top: `asked_by`; and where the job has events to
work on, `MICRO_BATCHES`."""

MICRO_BATCHES: Edge = ("engine", BATCH)
"""A run that a step commanded did micro-batches."""


def asked_by(client: str) -> Edge:
    """What a migration's trace begins with, asked for by the `cli` or the `api`."""
    return (client, "coordinator")
