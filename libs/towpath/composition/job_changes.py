"""Decide what a change of a job's description means for its run and for its state."""

from __future__ import annotations

from typing import Any

from towpath.contracts.job import JobSpec
from towpath.contracts.operators import STATEFUL_KINDS, Operator, Window


def is_live(old: JobSpec, new: JobSpec) -> bool:
    """Return true if a query that runs as `old` can go on as `new` without a restart.

    That is so if only the bound of its micro-batches changes. It holds from the next micro-batch on.
    """
    return new != old and new.model_copy(update={"max_events_per_batch": old.max_events_per_batch}) == old


def is_state_compatible(old: JobSpec, new: JobSpec) -> bool:
    """Return true if the state of a job that ran as `old`, if it has any, serves it as `new`.

    Only the computation counts. Where an input starts matters to a new job only, and other inputs go on with
    the state (`towpath.checkpoints.derivation`). Output, trigger and rate are not in the checkpoint.
    """
    if old.operator.kind not in STATEFUL_KINDS and new.operator.kind not in STATEFUL_KINDS:
        return True
    return _computation(old.operator) == _computation(new.operator)


def _computation(operator: Operator) -> dict[str, Any]:
    """Return what the state of an operator depends on."""
    computation = operator.model_dump()
    if isinstance(operator, Window):
        placing = [operator.event_time] if operator.event_time else []
        aggregated = [a.field for a in operator.aggregates.values() if a.field]
        used = {*operator.key, *placing, *aggregated}
        # A field that only has its type checked leaves no trace in the state.
        computation["fields"] = {name: kind for name, kind in operator.fields.items() if name in used}
    return computation
