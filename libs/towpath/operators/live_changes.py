"""Which changes of a job a running query can be told. Pure: no Spark needed to decide it."""

from __future__ import annotations

from towpath.contracts.job import JobSpec


def is_live(old: JobSpec, new: JobSpec) -> bool:
    """Whether a job that runs as `old` can become `new` as it runs: only the bound of its micro-batches is
    another. That holds from the next micro-batch on."""
    return new != old and new.model_copy(update={"max_events_per_batch": old.max_events_per_batch}) == old
