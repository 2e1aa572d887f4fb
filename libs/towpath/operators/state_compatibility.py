"""Whether a checkpoint survives a change of its job. Pure: no Spark needed to decide it."""

from __future__ import annotations

from typing import Any

from towpath.contracts.job import JobSpec
from towpath.contracts.operators import STATEFUL_KINDS, Operator, Window


def is_state_compatible(old: JobSpec, new: JobSpec) -> bool:
    """Whether the state of a job that ran as `old`, if it has any, serves it as `new`.

    Only the computation counts: where an input starts matters to a new job only, other inputs go on with the
    state (`towpath.engines.spark.derivation`), and output, trigger and rate are not in the checkpoint.
    """
    if old.operator.kind not in STATEFUL_KINDS and new.operator.kind not in STATEFUL_KINDS:
        return True
    return _computation(old.operator) == _computation(new.operator)


def _computation(operator: Operator) -> dict[str, Any]:
    """What the state of an operator depends on."""
    computation = operator.model_dump()
    if isinstance(operator, Window):
        placing = [operator.event_time] if operator.event_time else []
        aggregated = [a.field for a in operator.aggregates.values() if a.field]
        used = {*operator.key, *placing, *aggregated}
        # A field that only has its type checked leaves no trace in the state.
        computation["fields"] = {name: kind for name, kind in operator.fields.items() if name in used}
    return computation
