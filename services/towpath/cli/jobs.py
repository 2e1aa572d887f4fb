"""The command that lists jobs."""

from __future__ import annotations

import asyncio

import typer

from towpath.cli.connection import ask
from towpath.cli.output import clock, print_json, print_table
from towpath.cli.settings import AsJson, home_of
from towpath.contracts.commands import JobView, ListJobs


def jobs(context: typer.Context, as_json: AsJson = False) -> None:
    """List all jobs with their site, progress and speed.

    Example: `towpath jobs`
    """
    found = asyncio.run(ask(home_of(context), ListJobs())).jobs
    if as_json:
        return print_json(found)
    columns = ("job", "site", "epoch", "state", "operator", "serials", "events/s", "results", "committed")
    print_table(columns, [_row(job) for job in found], nothing="no jobs; start one with `towpath deploy`")


def _row(job: JobView) -> tuple[object, ...]:
    status = job.status
    state = f"{job.state or 'unknown'}" + (f" (in {job.operation})" if job.operation else "")
    if status is None:
        return (job.spec.name, job.site, job.epoch, state, job.spec.operator.kind, *[None] * 4)
    serials = ", ".join(f"{name}: {serial}" for name, serial in status.serials.items())
    rate = f"{status.events_per_s:.0f}"
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
