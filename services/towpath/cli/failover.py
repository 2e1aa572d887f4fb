"""Commands for jobs whose site is lost: how far behind standbys are, and failover to them."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Annotated

import typer

from towpath.bus import Bus
from towpath.cli.changes import DEFAULT_DEADLINE_S, carry_out
from towpath.cli.connection import CHANGE_ATTEMPT_S, LOOK_DEADLINE_S, ask, open_bus
from towpath.cli.deploying import Wait, Within
from towpath.cli.output import print_json, print_table, say
from towpath.cli.settings import AsJson, home_of
from towpath.contracts.commands import JobView, ListJobs, ListSites
from towpath.contracts.errors import TowpathError
from towpath.contracts.standby import FailOverJob, ForecastFailover, ListStandbys, StandbyView
from towpath.mesh.home import Home

LostArgument = Annotated[str, typer.Argument(metavar="JOB|SITE", help="The job, or a site: all its jobs.")]


def standbys(context: typer.Context, as_json: AsJson = False) -> None:
    """List the standbys of jobs: how old their copies are, and what a failover would lose.

    Example: `towpath standbys`
    """
    found = asyncio.run(ask(home_of(context), ListStandbys())).standbys
    if as_json:
        return print_json(found)
    _print(found, nothing="no job has a standby: give it one with `standby: {site: SITE}`")


def failover(
    context: typer.Context,
    lost: LostArgument,
    to: Annotated[
        str | None, typer.Option(metavar="SITE", help="Where it goes on.", show_default="the standby")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would be lost.")] = False,
    wait: Wait = True,
    within_s: Within = DEFAULT_DEADLINE_S,
    as_json: AsJson = False,
) -> None:
    """Let a job, or all jobs of a site, go on at their standby, because their site is lost.

    It is refused while the site answers: `towpath migrate` loses nothing then. If the lost site comes back,
    it is fenced, and events that only its disk had are processed late.

    Example: `towpath failover hourly-jfk --dry-run`
    """
    home = home_of(context)
    jobs = asyncio.run(_jobs_of(home, lost))
    if not jobs:
        return print_json([]) if as_json else say(f"no job of {lost} has a standby elsewhere")
    if dry_run:
        found = asyncio.run(_forecast(home, jobs, to))
        return print_json(found) if as_json else _print(found, nothing="")
    commands = [FailOverJob(job=job, to=to, wait=wait) for job in jobs]
    asyncio.run(_fail_over(home, commands, within_s=within_s, as_json=as_json))


async def _jobs_of(home: Home, lost: str) -> list[str]:
    """Return the job of that name, or the jobs at the site of that name. Raises `TowpathError`."""
    jobs = {job.spec.name: job for job in (await ask(home, ListJobs())).jobs}
    if lost in jobs:
        return [lost]
    sites = [site.site for site in (await ask(home, ListSites())).sites]
    if lost not in sites:
        raise TowpathError.unknown("job", lost, sorted([*jobs, *sites]), field="job")
    there = {name: job for name, job in jobs.items() if job.site == lost}
    found = [name for name, job in there.items() if _has_standby(job)]
    left = sorted(there.keys() - found)
    if found and left:
        say(f"without a standby elsewhere, and left behind: {', '.join(left)}")
    return found


def _has_standby(job: JobView) -> bool:
    return job.spec.standby is not None and job.spec.standby.site != job.site


async def _fail_over(home: Home, commands: list[FailOverJob], *, within_s: float, as_json: bool) -> None:
    """Begin all at once, so that no job waits for another, or stays because another fails. Then tell of each.

    Raises `TowpathError` for the first that is refused or fails.
    """
    if len(commands) > 1:
        async with open_bus(home) as bus:
            begun = (_begin(bus, command) for command in commands)
            await asyncio.gather(*begun)
    # Each command joins the operation that it has begun. One that was refused is refused again.
    await carry_out(home, commands, within_s=within_s, as_json=as_json)


async def _begin(bus: Bus, command: FailOverJob) -> None:
    with contextlib.suppress(TowpathError):
        now = command.model_copy(update={"wait": False})
        await bus.request(now, deadline_s=LOOK_DEADLINE_S, attempt_s=CHANGE_ATTEMPT_S)


async def _forecast(home: Home, jobs: list[str], to: str | None) -> list[StandbyView]:
    return [await ask(home, ForecastFailover(job=job, to=to)) for job in jobs]


def _print(found: list[StandbyView], *, nothing: str) -> None:
    columns = ("job", "at", "standby", "behind (s)", "processed again", "lost", "not heard (s)", "note")
    rows = [
        (
            *(each.job, each.site, each.standby, each.behind_s, each.behind_events, each.lost_events),
            *(each.unheard_s, each.note),
        )
        for each in found
    ]
    print_table(columns, rows, nothing=nothing)
