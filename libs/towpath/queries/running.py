"""Query texts that run, found in the pipelines that answer them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.operators import Query
from towpath.contracts.pipeline import PipelineJob, PipelineSpec, PipelineView
from towpath.contracts.pipeline_commands import ShowPipeline
from towpath.contracts.query import QuerySummary, RunningQueries
from towpath.queries.checking import check
from towpath.queries.compilation import Asked, Compiled, compiled
from towpath.queries.explanation import summaries
from towpath.queries.joining import Joined, joined, without_query
from towpath.queries.parsing import parse

Asking = Callable[[ShowPipeline], Awaitable[PipelineView]]


def running_queries(view: PipelineView) -> RunningQueries:
    """Return the query text that a pipeline answers. Raises `TowpathError` if it answers none."""
    found = answering(view.spec)
    if found is None:
        raise _no_queries(view.pipeline)
    job, query = found
    return RunningQueries(
        name=view.pipeline,
        at=job.output_site,
        topic=job.output.topic,
        text=query.text,
        queries=_summaries(query.text, tuple(sorted(query.filled.items()))),
        filled=query.filled,
        webhook=job.webhook,
        state=view.apply.state,
        note=view.apply.note,
    )


@lru_cache(maxsize=256)
def _summaries(text: str, filled: tuple[tuple[str, str], ...]) -> list[QuerySummary]:
    """Return the queries of a text, which is asked for whenever someone looks."""
    try:
        return summaries(check(parse(text), dict(filled)))
    except TowpathError:
        # A version of Towpath with another language may have begun it. Its text is still shown.
        return []


def asked_of(view: PipelineView, sites: Sequence[str]) -> Asked:
    """Return what was asked when the text of a pipeline was run, for the `sites` that there are now.

    Raises `TowpathError` if the pipeline answers no queries.
    """
    running = running_queries(view)
    asked = Asked(running.name, running.at, running.text, running.filled, sites, webhook=running.webhook)
    usual = {job.name: job.trigger_s for job in compiled(asked).pipeline.jobs}
    given = [job.trigger_s for job in view.spec.jobs if job.trigger_s != usual.get(job.name, job.trigger_s)]
    return replace(asked, trigger_s=given[0] if given else None)


async def check_name(name: str, ask: Asking) -> None:
    """Raise `TowpathError` if another pipeline has the name of a text, which would replace its jobs."""
    if await _is_another(name, ask):
        raise TowpathError(
            ErrorCode.NAME_IN_USE,
            "another pipeline has this name, and answers no queries",
            field="name",
            value=name,
            allowed="another name",
        )


async def check_removal(name: str, ask: Asking) -> None:
    """Raise `TowpathError` if a pipeline has the name, and answers no queries.

    One that is removed already, or half, is no mistake: the removal may have been sent again.
    """
    if await _is_another(name, ask):
        raise _no_queries(name)


async def _is_another(name: str, ask: Asking) -> bool:
    try:
        spec = (await ask(ShowPipeline(pipeline=name))).spec
    except TowpathError as error:
        if error.detail.code is ErrorCode.UNKNOWN_PIPELINE:
            return False
        raise
    # One that is being removed has no jobs.
    return bool(spec.jobs) and answering(spec) is None


def _no_queries(name: str) -> TowpathError:
    return TowpathError(
        ErrorCode.UNKNOWN_PIPELINE,
        "the pipeline answers no queries",
        field="pipeline",
        value=name,
        allowed="one that `towpath query list` prints",
    )


def with_text(
    view: PipelineView,
    sites: Sequence[str],
    text: str,
    *,
    at: str | None,
    filled: Mapping[str, str],
    trigger_s: float | None = None,
    webhook: str | None = None,
) -> Joined:
    """Return the text of a pipeline together with another one that joins it.

    `at` is the site that asks, if the other text names one. Raises `TowpathError` as `joined` does.
    """
    running = asked_of(view, sites)
    site = at or running.site
    more = replace(running, site=site, text=text, filled=filled, trigger_s=trigger_s, webhook=webhook)
    return joined(running, more)


def without(view: PipelineView, sites: Sequence[str], query: str) -> Compiled:
    """Return the text of a pipeline without one of its queries. Raises `TowpathError`."""
    return compiled(without_query(asked_of(view, sites), query))


def all_running_queries(views: Iterable[PipelineView]) -> list[RunningQueries]:
    """Return the query texts of all pipelines that answer any."""
    return [running_queries(view) for view in views if answering(view.spec) is not None]


def answering(spec: PipelineSpec) -> tuple[PipelineJob, Query] | None:
    """Return the job that answers queries, with its operator; None for another pipeline."""
    for job in spec.jobs:
        if job.name == spec.name and isinstance(job.operator, Query):
            return job, job.operator
    return None
