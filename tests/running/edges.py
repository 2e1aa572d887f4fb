"""Which services a migration leads through: what its trace must show, whatever else is in it."""

from __future__ import annotations

from towpath.contracts.commands import StrategyName
from towpath.telemetry.trace_tree import BATCH

Edge = tuple[str, str]
"""Work of the first service led to work of the second, in another process; micro-batches count as one."""

_ALWAYS: frozenset[Edge] = frozenset({("coordinator", "agent"), ("agent", "engine")})
"""The coordinator takes steps, agents carry them out, engines run the job."""

_STATE_MOVES: frozenset[Edge] = frozenset({("agent", "agent")})
"""The source's agent ships a checkpoint that the target's receives."""

_BOTH_RUN: frozenset[Edge] = frozenset({("coordinator", "monitor"), ("monitor", "agent")})
"""The monitor compares source and target, and asks both how far they are."""

EDGES: dict[StrategyName, frozenset[Edge]] = {
    StrategyName.RESTART: _ALWAYS,
    StrategyName.GENERAL: _ALWAYS | _STATE_MOVES,
    StrategyName.PARALLEL: _ALWAYS | _BOTH_RUN,
    StrategyName.HANDOVER: _ALWAYS | _STATE_MOVES | _BOTH_RUN,
}
"""Between the mesh's own services. Whoever asked comes on top: `asked_by`; and where the job has events to
work on, `MICRO_BATCHES`."""

MICRO_BATCHES: Edge = ("engine", BATCH)
"""A run that a step commanded did micro-batches."""


def asked_by(client: str) -> Edge:
    """What a migration's trace begins with, asked for by the `cli` or the `api`."""
    return (client, "coordinator")
