"""Harm to the coordinator's leadership and to the registry, done by the run itself."""

from __future__ import annotations

import asyncio
import shutil
import sys
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.scenario_strikes import HubTrouble
from towpath.lab.guard.machine import GONE_S, LOOK_EVERY_S, empty
from towpath.lab.guard.targets import family
from towpath.lab.harness.stage import Stage
from towpath.lab.scenarios.strikes import Armed
from towpath.mesh.home import Home
from towpath.mesh.names import SUPERVISOR
from towpath.processes import find
from towpath.tasks import to_the_end, wait_until

REDIS = "redis"

LEADS_S = 60.0
"""Seconds for the second coordinator to lead and to be overtaken: two interpreters start meanwhile."""

COPIES = 5
"""Attempts to copy files, of which Redis replaces some now and then."""


async def armed_trouble(stage: Stage, trouble: HubTrouble, exits: AsyncExitStack) -> Armed:
    """Prepare a trouble. What it leaves behind ends with `exits`. Raises `TowpathError`."""
    if trouble is HubTrouble.SECOND_COORDINATOR:
        return partial(second_coordinator, stage.home, exits)
    copy = stage.home.root / "redis-of-yesterday"
    await asyncio.to_thread(_copy, stage.home.redis, copy)
    return partial(redis_from_yesterday, stage.home, copy)


async def second_coordinator(home: Home, exits: AsyncExitStack) -> None:
    """See `HubTrouble`. Returns when the second one has ended."""
    command = [sys.executable, "-m", "towpath.coordinator", "--home", str(home.root), "--number", "2"]
    with home.log("coordinator-2").open("ab") as log:
        process = await asyncio.create_subprocess_exec(*command, stdout=log, stderr=log)
    exits.push_async_callback(_killed, process)
    try:
        code = await asyncio.wait_for(process.wait(), LEADS_S)
    except TimeoutError as error:
        why = f"the second coordinator was not overtaken within {LEADS_S:g} s"
        raise TowpathError(ErrorCode.FAILED, why, field="hub") from error
    if code != 0:  # One that was overtaken ends in good order. Another has done no harm.
        why = f"the second coordinator ended with exit code {code}: read {home.log('coordinator-2')}"
        raise TowpathError(ErrorCode.FAILED, why, field="hub")


async def _killed(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.kill()
        await process.wait()


async def redis_from_yesterday(home: Home, copy: Path) -> None:
    """See `HubTrouble`. `copy` has yesterday's data."""
    await to_the_end(asyncio.to_thread(_replace_data, home, copy))


def _replace_data(home: Home, copy: Path) -> None:
    """Replace the data while the supervisor stands still, so that Redis does not start before."""
    record = find(home.run, SUPERVISOR)
    supervisor = record.process if record is not None else None
    if supervisor is not None:
        supervisor.suspend()
    try:
        for process in family(home.run, REDIS):
            process.kill()
        wait_until(lambda: not family(home.run, REDIS), GONE_S, LOOK_EVERY_S)
        empty(home.redis)
        shutil.copytree(copy, home.redis, dirs_exist_ok=True)
    finally:
        if supervisor is not None:
            supervisor.resume()


def _copy(data: Path, copy: Path) -> None:
    """Copy the data of a server that runs. Raises `TowpathError` if its files change all the time."""
    for _ in range(COPIES):
        shutil.rmtree(copy, ignore_errors=True)
        try:
            shutil.copytree(data, copy, ignore=shutil.ignore_patterns("*.conf", "*.sock"))
        except (shutil.Error, FileNotFoundError):
            continue
        return
    raise TowpathError(ErrorCode.FAILED, "the files of Redis cannot be copied", field="hub", value=str(data))
