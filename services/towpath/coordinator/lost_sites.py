"""Let jobs go on at their standbys by themselves, when their site has been silent for long enough."""

from __future__ import annotations

import asyncio
import logging

from towpath.contracts.errors import TowpathError
from towpath.contracts.site import SiteState
from towpath.contracts.standby import FailOverJob
from towpath.coordinator.jobs.failover import prepare_failover
from towpath.coordinator.jobs.operations import Operations
from towpath.coordinator.settings import CoordinatorSettings
from towpath.coordinator.situation import Situation
from towpath.protocols.record import JobEntry

log = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0
AGAIN_S = 30.0
"""Pause after a failover that was refused or rolled back."""

ASKED_BY = "coordinator"


async def watch(settings: CoordinatorSettings, situation: Situation, operations: Operations) -> None:
    """Look for lost sites, until cancelled. Without the setting, nothing is lost by itself."""
    while settings.failover_after_s is not None:
        await asyncio.sleep(LOOK_EVERY_S)
        jobs, locks = await situation.registry.jobs(), await situation.registry.locks()
        free = [entry for name, entry in jobs.items() if name not in locks]
        lost = [entry for entry in free if is_lost(entry, situation, settings.failover_after_s)]
        done = [await _fail_over(entry, situation, operations) for entry in lost]
        if not all(done):
            await asyncio.sleep(AGAIN_S)


def is_lost(entry: JobEntry, situation: Situation, after_s: float) -> bool:
    """Tell if a job's site has been silent for so long, and the job can go on elsewhere."""
    standby, sites = entry.spec.standby, situation.sites
    if standby is None or standby.site == entry.site or sites.state(standby.site) is not SiteState.UP:
        return False
    return sites.state(entry.site) is SiteState.DOWN and sites.silent_s(entry.site) >= after_s


async def _fail_over(entry: JobEntry, situation: Situation, operations: Operations) -> bool:
    command = FailOverJob(job=entry.spec.name, asked_by=ASKED_BY, wait=False)
    try:
        await operations.accept(
            command, command.job, lambda: prepare_failover(command, situation), wait=False
        )
    except TowpathError as error:
        log.warning("%s does not go on at its standby: %s", command.job, error)
        return False
    log.warning("site %s counts as lost: %s goes on at its standby", entry.site, command.job)
    return True
