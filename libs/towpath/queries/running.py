"""Query texts that run, found in the pipelines that answer them."""

from __future__ import annotations

from collections.abc import Iterable

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.operators import Query
from towpath.contracts.pipeline import PipelineJob, PipelineSpec, PipelineView
from towpath.contracts.query import RunningQueries


def running_queries(view: PipelineView) -> RunningQueries:
    """Return the query text that a pipeline answers. Raises `TowpathError` if it answers none."""
    found = answering(view.spec)
    if found is None:
        raise TowpathError(
            ErrorCode.UNKNOWN_PIPELINE,
            "the pipeline answers no queries",
            field="pipeline",
            value=view.pipeline,
            allowed="one that `towpath query list` prints",
        )
    job, query = found
    return RunningQueries(
        name=view.pipeline,
        at=job.output_site,
        topic=job.output.topic,
        text=query.text,
        filled=query.filled,
        webhook=job.webhook,
        state=view.apply.state,
        note=view.apply.note,
    )


def all_running_queries(views: Iterable[PipelineView]) -> list[RunningQueries]:
    """Return the query texts of all pipelines that answer any."""
    return [running_queries(view) for view in views if answering(view.spec) is not None]


def answering(spec: PipelineSpec) -> tuple[PipelineJob, Query] | None:
    """Return the job that answers queries, with its operator; None for another pipeline."""
    for job in spec.jobs:
        if job.name == spec.name and isinstance(job.operator, Query):
            return job, job.operator
    return None
