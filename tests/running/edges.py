"""Edges between services that a migration's trace must show, among others."""

from __future__ import annotations

from collections.abc import Sequence

from towpath.contracts.traces import Span
from towpath.protocols.table import strategies

BATCH = "batch"
"""Name of micro-batches' spans, before a number. They show Spark's work and come from the engine."""

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


def crossings(spans: Sequence[Span]) -> set[Edge]:
    """Return pairs of services where work of the first led to work of the second, in another process.

    The micro-batches of an engine count as a service of their own here, `BATCH`.
    """
    by_id = {span.span: span for span in spans}
    pairs = ((by_id.get(span.parent or ""), span) for span in spans)
    return {
        (_service(parent), _service(child))
        for parent, child in pairs
        if parent is not None and (_service(parent), parent.site) != (_service(child), child.site)
    }


def _service(span: Span) -> str:
    return BATCH if span.name.startswith(f"{BATCH} ") else span.service
