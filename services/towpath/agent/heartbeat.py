"""The site's sign of life: how its processes and jobs are, once a second."""

from __future__ import annotations

import asyncio
import logging

import nats.errors

from towpath.agent.jobs import Jobs
from towpath.brokers.binder import BrokerBinder
from towpath.bus import Bus
from towpath.contracts.site import ProcessStatus, SiteState, SiteStatus
from towpath.mesh.state import SiteAccess
from towpath.processes import Supervisor

log = logging.getLogger(__name__)

INTERVAL_S = 1.0
PROCESSES_EVERY = 5
"""Heartbeats per look at the processes: reading memory of whole process trees costs milliseconds."""


class Heartbeat:
    """Sends the status of a site."""

    def __init__(
        self,
        bus: Bus,
        site: str,
        access: SiteAccess,
        jobs: Jobs,
        supervisor: Supervisor,
        broker: BrokerBinder,
    ) -> None:
        self.bus = bus
        self.site = site
        self.access = access
        self.jobs = jobs
        self.supervisor = supervisor
        self.broker = broker
        self._processes: list[ProcessStatus] = []

    async def beat(self) -> None:
        """Send a heartbeat every second, for ever."""
        count = 0
        while True:
            if count % PROCESSES_EVERY == 0:
                self._processes = await self.supervisor.status()
            count += 1
            try:
                await self.bus.publish(self.status())
            except (nats.errors.Error, OSError) as error:
                log.warning("heartbeat: %s", error)
            await asyncio.sleep(INTERVAL_S)

    def status(self) -> SiteStatus:
        """The site as it is now."""
        ready = self.supervisor.is_ready(f"{self.site}-engine")
        return SiteStatus(
            site=self.site,
            state=SiteState.UP if ready else SiteState.STARTING,
            nats_url=self.access.nats_url,
            mqtt_host=self.access.mqtt_host,
            mqtt_port=self.access.mqtt_port,
            processes=self._processes,
            jobs=self.jobs.statuses(),
            error=self.broker.trouble() if ready else "the engine does not answer yet",
        )
