"""The command that lists jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import typer

from towpath.cli.connection import ask
from towpath.cli.output import clock, print_json, print_table
from towpath.cli.settings import AsJson, home_of
from towpath.contracts.commands import JobView, ListJobs
from towpath.contracts.operators import Chain


def jobs(context: typer.Context, as_json: AsJson = False) -> None:
    """List all jobs with their site, progress and speed.

    Example: `towpath jobs`
    """
    found = asyncio.run(ask(home_of(context), ListJobs())).jobs
    if as_json:
        return print_json(found)
    columns = ("job", "site", "epoch", "state", "operator", "serials", "events/s", "results", "committed")
    rows = [row for job in found for row in (_row(job), *_steps(job))]
    print_table(columns, rows, nothing="no jobs; start one with `towpath deploy`")


def _row(job: JobView) -> tuple[object, ...]:
    status = job.status
    state = f"{job.state or 'unknown'}" + (f" (in {job.operation})" if job.operation else "")
    if status is None:
        return (job.spec.name, job.site, job.epoch, state, job.spec.operator.kind, *[None] * 4)
    serials = ", ".join(f"{name}: {serial}" for name, serial in status.serials.items())
    rate = f"{status.events_per_s:.0f}"
    if status.retried_at is not None:
        state += f" (attempt {status.restarts + 1} at {clock(status.retried_at)})"
    if status.error:
        state += f": {status.error}"
    committed = clock(status.committed_at)
    return (
        job.spec.name,
        job.site,
        job.epoch,
        state,
        job.spec.operator.kind,
        serials,
        rate,
        status.results,
        committed,
    )


def _steps(job: JobView) -> Iterator[tuple[object, ...]]:
    """Yield a row for each step of a chain, with the events that reached it."""
    operator, status = job.spec.operator, job.status
    if not isinstance(operator, Chain) or status is None:
        return
    for step, counts in zip(operator.steps, status.steps, strict=False):
        came = f"{counts.events} in, {counts.rejected} rejected"
        yield f"  {counts.name}", None, None, None, step.kind, came, None, counts.results, None
