"""Tell jobs where the outputs that they read are now, after a failover.

A job that reads an output of a lost site waits at its end. It needs no new position, because the promoted
copy has the same serial numbers. What is told is one more revision of the job, as after any adjustment.

- It is told again if the job is busy, or its site away: until the registry says what the outputs say.
- A coordinator that dies leaves the operation in the journal, or it is decided again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial

from towpath.contracts.commands import OperationKind, UpdateJob
from towpath.contracts.errors import TowpathError
from towpath.contracts.site import Capability, SiteState
from towpath.coordinator.jobs.operations import Operations
from towpath.coordinator.jobs.plans import Nothing
from towpath.coordinator.jobs.topics import with_current_sites
from towpath.coordinator.situation import Situation, check_free, entry_of, record_of
from towpath.protocols.record import OperationRecord

log = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0
AGAIN_S = 15.0
"""Pause before a job is told again, which could not be told, or whose operation was undone."""

ASKED_BY = "coordinator"


async def watch(situation: Situation, operations: Operations) -> None:
    """Look for jobs that read at a lost site what is at another one now, until cancelled."""
    told_at: dict[str, float] = {}
    while True:
        await asyncio.sleep(LOOK_EVERY_S)
        for name in await _untold(situation):
            if time.monotonic() - told_at.get(name, -AGAIN_S) >= AGAIN_S:
                told_at[name] = time.monotonic()
                await _tell(name, situation, operations)


async def _untold(situation: Situation) -> list[str]:
    """Return the jobs that are to be told, and that can be told now."""
    jobs, locks = await situation.registry.jobs(), await situation.registry.locks()
    sites = situation.sites
    return [
        name
        for name, entry in jobs.items()
        if name not in locks
        and with_current_sites(entry, jobs) != entry
        and sites.state(entry.site) is SiteState.UP
        and sites.can(entry.site, Capability.OUTPUT_COPY)
    ]


async def _tell(job: str, situation: Situation, operations: Operations) -> None:
    try:
        command = UpdateJob(spec=(await situation.registry.jobs())[job].spec, asked_by=ASKED_BY, wait=False)
        plan = partial(plan_following, command, situation)
        answer = await operations.accept(command, job, plan, wait=False)
    except (TowpathError, Nothing, KeyError) as error:
        log.warning("%s was not told where its inputs are now: %s", job, error)
    else:
        log.info("%s is told where its inputs are now: %s", job, answer.operation)


async def plan_following(command: UpdateJob, situation: Situation) -> OperationRecord:
    """Plan that a job reads on where its inputs are now. Raises `Nothing` if it does so already."""
    jobs = await situation.registry.jobs()
    before = entry_of(jobs, command.spec.name, "name")
    await check_free(before.spec.name, situation)
    after = with_current_sites(before, jobs)
    if after == before:
        raise Nothing
    return record_of(
        command,
        OperationKind.UPDATE,
        before.spec.name,
        before=before,
        after=after.model_copy(update={"revision": before.revision + 1}),
        note="an output that it reads is at another site now",
    )
