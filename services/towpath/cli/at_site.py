"""Talk to a site at its own server, as its operator: nothing here needs the hub."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from towpath.bus import Bus
from towpath.cli.connection import CHANGE_ATTEMPT_S, CONNECT_WITHIN_S, load_mesh
from towpath.cli.output import print_json, working
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import JobSpec, JobStatus
from towpath.contracts.local_commands import Adjusted, AdjustJob
from towpath.contracts.site import SiteStatus
from towpath.mesh.home import Home

HEARTBEAT_WITHIN_S = 5.0
"""An agent sends one a second."""


def check_alone(*, drop_state: bool, wait: bool) -> None:
    """Raise `TowpathError` (invalid) for options that a change at a site does not have."""
    if drop_state:
        raise TowpathError(
            ErrorCode.INVALID,
            "a change that drops the state needs the hub",
            field="--drop-state",
            value=True,
            allowed="without --here",
        )
    if not wait:
        raise TowpathError(
            ErrorCode.INVALID,
            "a change at a site is done when its answer comes",
            field="--no-wait",
            value=True,
            allowed="without --here",
        )


async def adjust(home: Home, site: str, jobs: Sequence[JobSpec], *, within_s: float, as_json: bool) -> None:
    """Change jobs at their site, one after another; stop at the first that fails.

    Raises `TowpathError` when one is refused. With `as_json` the answers so far are printed even then.
    """
    answers: list[Adjusted] = []
    async with _bus_at(home, site) as bus:
        try:
            for job in jobs:
                with working(f"adjust {job.name} …"):
                    command = AdjustJob(site=site, spec=job)
                    answers.append(
                        await bus.request(command, deadline_s=within_s, attempt_s=CHANGE_ATTEMPT_S)
                    )
                if not as_json:
                    print(f"{job.name} at {site}: {answers[-1].note}")
        finally:
            if as_json:
                print_json(answers)


async def jobs_at(home: Home, site: str) -> list[JobStatus]:
    """Return the jobs of a site, as its agent tells them."""
    heard: asyncio.Future[SiteStatus] = asyncio.get_running_loop().create_future()

    async def hear(status: SiteStatus) -> None:
        if not heard.done():
            heard.set_result(status)

    async with _bus_at(home, site) as bus:
        await bus.subscribe(SiteStatus, hear, site=site)
        try:
            async with asyncio.timeout(HEARTBEAT_WITHIN_S):
                return (await heard).jobs
        except TimeoutError as error:
            raise _silent(site, "its agent says nothing") from error


@asynccontextmanager
async def _bus_at(home: Home, site: str) -> AsyncIterator[Bus]:
    """Connect to a site's server. Raises `TowpathError`: unknown site, not allowed, unreachable."""
    access = (await load_mesh(home)).site(site)
    login = access.operator
    if login is None:
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            f"site {site} has no operator yet: run `towpath up`",
            field="--here",
            value=site,
        )
    try:
        # A client that reconnects without end also tries its first connection without end.
        async with asyncio.timeout(CONNECT_WITHIN_S):
            bus = await Bus.connect(access.nats_url, login.user, login.password, name="towpath cli")
    except (TowpathError, TimeoutError) as error:
        raise _silent(site, f"its server does not answer at {access.nats_url}") from error
    async with bus:
        yield bus


def _silent(site: str, why: str) -> TowpathError:
    return TowpathError(ErrorCode.UNREACHABLE, f"site {site} is down: {why}", field="--here", value=site)
