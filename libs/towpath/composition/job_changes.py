"""Decide what a change of a job's description means for its run and for its state."""

from __future__ import annotations

from towpath.contracts.job import JobSpec
from towpath.contracts.pipeline import PipelineSpec
from towpath.operators.kind import keeps_state, kind_of


def is_live(old: JobSpec, new: JobSpec) -> bool:
    """Return true if a query that runs as `old` can go on as `new` without a restart.

    That is so if only these change: the bound of its micro-batches, which holds from the next one on, its
    goal, or its standby.
    """
    told = {"max_events_per_batch": old.max_events_per_batch, "qos": old.qos, "standby": old.standby}
    return new != old and new.model_copy(update=told) == old


def is_state_compatible(old: JobSpec, new: JobSpec) -> bool:
    """Return true if the state of a job that ran as `old`, if it has any, serves it as `new`.

    Only the computation counts. Where an input starts matters to a new job only, and other inputs go on with
    the state (`towpath.engines.spark.derivation`). Output, trigger and rate are not in the checkpoint.
    """
    was, will = kind_of(old.operator), kind_of(new.operator)
    return was.state(old.operator) == will.state(new.operator)


def begin_again(old: PipelineSpec, new: PipelineSpec) -> list[str]:
    """Return the jobs of both descriptions whose state does not survive the change."""
    before = {job.name: job for job in old.jobs}
    return [
        job.name
        for job in new.jobs
        if job.name in before
        and keeps_state(before[job.name].operator)
        and not is_state_compatible(before[job.name], job)
    ]
