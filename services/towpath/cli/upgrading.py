"""Restart a site with the version that is installed, while its jobs are elsewhere.

What has to be undone is on the disk before the first job moves. So an upgrade that was interrupted goes on
when the same command is called again.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Annotated

import typer

from towpath.atomic_write import make_private_directory, write_private_file
from towpath.bus import Bus
from towpath.cli.changes import DEFAULT_DEADLINE_S, judge
from towpath.cli.connection import CHANGE_ATTEMPT_S, LOOK_DEADLINE_S, open_bus
from towpath.cli.deploying import Within
from towpath.cli.output import print_json, print_table, say, working
from towpath.cli.settings import AsJson, home_of
from towpath.cli.upgrading_hub import upgrade_hub
from towpath.contracts.commands import ForecastMigration, JobView, ListJobs, ListSites, MigrateJob
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import HUB_SCOPE, JobName, Model, SiteName
from towpath.contracts.placement import JobPlace, ProposePlacement
from towpath.contracts.site import Capability, SiteState, SiteStatus
from towpath.contracts.upgrade import RestartSite
from towpath.mesh.home import Home
from towpath.reports.costs import amount, seconds
from towpath.tasks import pause

LOOK_EVERY_S = 0.5

FORECAST_S = 60.0
"""Time to find places for jobs, or to measure the state of one."""


STANDARD_ERROR = 2
"""File descriptor. A command's output goes there: standard output is for the outcome of the upgrade."""


class Away(Model):
    """A job that leaves its site for the upgrade."""

    job: JobName
    to: SiteName
    expected_s: float
    """By the forecast of its move."""
    state_bytes: int


class Upgrade(Model):
    """An upgrade that is under way."""

    site: SiteName
    begun_at: datetime | None
    """When the agent began that is to end. None: its version does not say so."""
    version: str
    """Version of that agent."""
    away: list[Away]
    """Jobs that move away, and come back."""
    staying: dict[JobName, str] = {}
    """Jobs that cannot move, and why. Their results pause."""


def upgrade(
    context: typer.Context,
    site: Annotated[str, typer.Argument(metavar="SITE", help="The site that restarts, or `hub`.")],
    to: Annotated[
        str | None,
        typer.Option(
            metavar="SITE",
            help="Where its jobs are meanwhile.",
            show_default="standby, or where there is room",
        ),
    ] = None,
    in_place: Annotated[
        bool, typer.Option("--in-place", help="Jobs that cannot move stay: their results pause for a minute.")
    ] = False,
    command: Annotated[
        str | None,
        typer.Option(
            "--with",
            metavar="COMMAND",
            help="Replaces the site, where its agent cannot restart with the new version: in a container.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only tell which jobs would move where.")
    ] = False,
    within_s: Within = DEFAULT_DEADLINE_S,
    as_json: AsJson = False,
) -> None:
    """Restart a site, or the hub's services, with the version that is installed on its machine.

    The jobs of the site run elsewhere meanwhile. With `hub` for SITE, its services restart one after the
    other, and jobs run on. Call it again if it was interrupted: it goes on.

    Example: `towpath upgrade jfk --dry-run`
    """
    home = home_of(context)
    if site == HUB_SCOPE:
        _check_hub_options(to, command, in_place=in_place)
        return asyncio.run(upgrade_hub(home, within_s, dry_run=dry_run, as_json=as_json))
    replacing = _words(command)
    upgrading = _upgrade(
        home, site, to, within_s, replacing, in_place=in_place, dry_run=dry_run, as_json=as_json
    )
    asyncio.run(upgrading)


def _check_hub_options(to: str | None, command: str | None, *, in_place: bool) -> None:
    """Raise `TowpathError` for an option that is for sites only."""
    for option, given in (("--to", to), ("--in-place", in_place or None), ("--with", command)):
        if given is not None:
            why = "the hub has no jobs, and its services restart by themselves"
            raise TowpathError(ErrorCode.INVALID, why, field=option, value=given, allowed="for a site")


def _words(command: str | None) -> Sequence[str]:
    """Return a command's words; none if there is no command. Raises `TowpathError`."""
    try:
        words = shlex.split(command or "")
    except ValueError as error:
        raise TowpathError(ErrorCode.INVALID, str(error), field="--with", value=command) from error
    if command is not None and not words:
        raise TowpathError(ErrorCode.INVALID, "no command", field="--with", value=command)
    return words


async def _upgrade(
    home: Home,
    site: str,
    to: str | None,
    within_s: float,
    replacing: Sequence[str],
    *,
    in_place: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """`replacing` is the command that replaces the site. Empty: its agent restarts."""
    async with open_bus(home) as bus:
        found = await asyncio.to_thread(_saved, home, site)
        if found is not None:
            say(f"going on with the upgrade of {site}")
        with working("looking for places …"):
            planned = found or await _planned(bus, site, to, in_place=in_place, restarts=not replacing)
        if dry_run:
            return print_json(planned) if as_json else _show(planned)
        await asyncio.to_thread(_save, home, planned)
        with working(f"upgrading {site} …"):
            status = await _executed(bus, planned, within_s, replacing)
        await asyncio.to_thread(home.upgrade(site).unlink)
    if as_json:
        return print_json({**planned.model_dump(mode="json"), "version_now": status.version})
    print(f"{site} runs version {status.version}, before it was {planned.version}")


def _saved(home: Home, site: str) -> Upgrade | None:
    try:
        return Upgrade.from_json(home.upgrade(site).read_bytes())
    except FileNotFoundError:
        return None


def _save(home: Home, planned: Upgrade) -> None:
    path = home.upgrade(planned.site)
    make_private_directory(path.parent)
    write_private_file(path, planned.model_dump_json(indent=1))


async def _planned(bus: Bus, site: str, to: str | None, *, in_place: bool, restarts: bool) -> Upgrade:
    """Return what has to be done. Raises `TowpathError` if a job cannot move, unless it may stay."""
    sites = {
        status.site: status for status in (await bus.request(ListSites(), deadline_s=LOOK_DEADLINE_S)).sites
    }
    for name, field in ((site, "site"), (to, "to")):
        if name is not None and name not in sites:
            raise TowpathError.unknown("site", name, sorted(sites), field=field)
    status = sites[site]
    _check_state(status, restarts=restarts)
    jobs = [job for job in await _jobs(bus) if job.site == site]
    away, staying = list[Away](), dict[JobName, str]()
    places = await _places(bus, site, jobs)
    for job in jobs:
        try:
            away.append(await _leaving(bus, job, to, sites, places))
        except TowpathError as error:
            if not in_place:
                raise
            staying[job.spec.name] = error.detail.one_line()
    version = status.version or "not told"
    return Upgrade(site=site, begun_at=status.begun_at, version=version, away=away, staying=staying)


def _check_state(status: SiteStatus, *, restarts: bool) -> None:
    """Raise `TowpathError` if a site cannot be upgraded now. `restarts`: its agent has to do it."""
    if status.state is SiteState.DOWN:
        raise TowpathError(
            ErrorCode.SITE_DOWN, f"site {status.site} is down", field="site", value=status.site
        )
    if restarts and (status.begun_at is None or Capability.RESTART not in status.capabilities):
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            f"the agent of {status.site} (version {status.version or 'not told'}) cannot restart by itself",
            field="site",
            value=status.site,
            allowed="--with a command that replaces it",
        )


async def _places(bus: Bus, site: str, jobs: Sequence[JobView]) -> dict[str, JobPlace] | TowpathError:
    """Return where jobs would be without the site, as placement decides; or why it cannot."""
    names = [job.spec.name for job in jobs]
    if not names:
        return {}
    try:
        question = ProposePlacement(jobs=names, avoid=[site])
        return {place.job: place for place in (await bus.request(question, deadline_s=FORECAST_S)).jobs}
    except TowpathError as error:
        return error


async def _leaving(
    bus: Bus,
    job: JobView,
    to: str | None,
    sites: dict[str, SiteStatus],
    places: dict[str, JobPlace] | TowpathError,
) -> Away:
    """Return where a job goes. Raises `TowpathError` if it cannot."""
    target, name, standby = to, job.spec.name, job.spec.standby
    if target is None and standby is not None and standby.site != job.site:
        known = sites.get(standby.site)
        target = standby.site if known is not None and known.state is SiteState.UP else None
    if target is None:
        target = _elsewhere(name, job.site, places)
    forecast = await bus.request(ForecastMigration(job=name, to=target), deadline_s=FORECAST_S)
    return Away(job=name, to=target, expected_s=forecast.total_s, state_bytes=forecast.state_bytes)


def _elsewhere(job: str, site: str, places: dict[str, JobPlace] | TowpathError) -> str:
    if isinstance(places, TowpathError):
        raise places
    place = places.get(job)
    if place is None or place.stays is not None or place.proposed == site:
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            f"{job} cannot leave {site}: {(place and place.stays) or 'no other site has room for it'}",
            field="job",
            value=job,
            allowed="--to SITE, or --in-place: its results pause",
        )
    return place.proposed


def _show(planned: Upgrade) -> None:
    rows: list[tuple[object, ...]] = [
        (each.job, each.to, seconds(each.expected_s), amount(each.state_bytes), None) for each in planned.away
    ]
    rows += [(job, "stays", None, None, why) for job, why in planned.staying.items()]
    print_table(("job", "goes to", "expected", "state", "because"), rows, nothing="no job is there")


async def _executed(bus: Bus, planned: Upgrade, within_s: float, replacing: Sequence[str]) -> SiteStatus:
    """Do what is left of an upgrade. Return what the site says of itself then. Raises `TowpathError`."""
    site, status = planned.site, await _status(bus, planned.site)
    if status.begun_at == planned.begun_at:
        for each in planned.away:
            await _moved(bus, each.job, site, each.to, within_s)
        if replacing:
            await _check_left(bus, planned)
            say(f"replacing {site}")
            await _run(replacing, within_s)
        else:
            _check_state(status, restarts=True)
            say(f"restarting {site}")
            await _restart(bus, planned, within_s)
    status = await _restarted(bus, planned, within_s)
    say(f"{site} is up again")
    for each in reversed(planned.away):
        await _moved(bus, each.job, each.to, site, within_s)
    return status


async def _restart(bus: Bus, planned: Upgrade, within_s: float) -> None:
    assert planned.begun_at is not None, "checked when it was planned"
    restart = RestartSite(site=planned.site, begun_at=planned.begun_at, in_place=bool(planned.staying))
    await bus.request(restart, deadline_s=within_s, attempt_s=CHANGE_ATTEMPT_S)


async def _check_left(bus: Bus, planned: Upgrade) -> None:
    """Raise `TowpathError` if jobs have come to the site since the upgrade was planned."""
    here = sorted(job.spec.name for job in await _jobs(bus) if job.site == planned.site)
    if came := [job for job in here if job not in planned.staying]:
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            f"{', '.join(came)} run(s) at {planned.site} now",
            field="site",
            value=planned.site,
            allowed="move them away, and call it again",
        )


async def _run(command: Sequence[str], within_s: float) -> None:
    """Run a command, whose output people see. Raises `TowpathError` if it fails."""
    try:
        program = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, stdout=STANDARD_ERROR, start_new_session=True
        )
    except OSError as error:
        raise TowpathError(ErrorCode.FAILED, str(error), field="--with", value=command[0]) from error
    try:
        async with _limit(within_s, f"{command[0]} has not ended"):
            code = await program.wait()
    finally:
        if program.returncode is None:
            os.killpg(program.pid, signal.SIGKILL)  # Also what it has started.
            await program.wait()
    if code:
        why = f"ended with code {code}, and the site's jobs are still elsewhere: the same command goes on"
        raise TowpathError(ErrorCode.FAILED, why, field="--with", value=shlex.join(command))


async def _restarted(bus: Bus, planned: Upgrade, within_s: float) -> SiteStatus:
    """Wait until another agent of the site is up. Return its heartbeat. Raises `TowpathError` (deadline)."""
    async with _limit(within_s, f"{planned.site} has not come back"):
        while True:
            status = await _status(bus, planned.site)
            if status.state is SiteState.UP and status.begun_at != planned.begun_at:
                return status
            await pause(LOOK_EVERY_S)


async def _moved(bus: Bus, job: str, origin: str, target: str, within_s: float) -> None:
    """Move a job from one site to another. One that is at neither is left where someone has put it.

    A move that an earlier call has begun is waited for. Raises `TowpathError`.
    """
    async with _limit(within_s, f"{job} is not at {target}"):
        while True:
            view = next((view for view in await _jobs(bus) if view.spec.name == job), None)
            if view is None or (view.operation is None and view.site != origin):
                return say(_left_alone(job, target, view))
            if view.operation is None and await _move(bus, job, target, within_s):
                return say(f"{job}: {origin} → {target}")
            await pause(LOOK_EVERY_S)


async def _move(bus: Bus, job: str, target: str, within_s: float) -> bool:
    """Return False if another operation holds the job. Raises `TowpathError` if the move fails."""
    command = MigrateJob(job=job, to=target)
    try:
        judge(await bus.request(command, deadline_s=within_s, attempt_s=CHANGE_ATTEMPT_S))
    except TowpathError as error:
        if error.detail.code is not ErrorCode.BUSY:
            raise
        return False
    return True


@asynccontextmanager
async def _limit(within_s: float, otherwise: str) -> AsyncIterator[None]:
    """Raise `TowpathError` (deadline) if the block takes longer."""
    try:
        async with asyncio.timeout(within_s):
            yield
    except TimeoutError:
        raise TowpathError(
            ErrorCode.DEADLINE,
            f"{otherwise} after {within_s:g} s: the same command goes on",
            field="--within",
            value=within_s,
        ) from None


def _left_alone(job: str, target: str, view: JobView | None) -> str:
    if view is None:
        return f"{job}: has been removed"
    return f"{job}: is at {view.site}" + ("" if view.site == target else ", and stays there")


async def _jobs(bus: Bus) -> list[JobView]:
    return (await bus.request(ListJobs(), deadline_s=LOOK_DEADLINE_S)).jobs


async def _status(bus: Bus, site: str) -> SiteStatus:
    found = (await bus.request(ListSites(), deadline_s=LOOK_DEADLINE_S)).sites
    return next(status for status in found if status.site == site)
