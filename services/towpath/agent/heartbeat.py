"""Send the state of the site's processes and jobs once a second, as a sign of life."""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime

import nats.errors

from towpath.agent.containment import Containment
from towpath.agent.jobs import Jobs
from towpath.agent.storage import Storage
from towpath.brokers.binder import BrokerBinder
from towpath.bus import Bus
from towpath.contracts.site import Capability, EngineStart, ProcessStatus, SiteState, SiteStatus
from towpath.mesh.names import engine_process
from towpath.mesh.state import SiteAccess
from towpath.mesh.version import installed_version
from towpath.processes import Supervisor

log = logging.getLogger(__name__)

INTERVAL_S = 1.0
PROCESSES_EVERY_S = 5.0
"""Between looks at the processes, because reading the memory of whole process trees costs milliseconds.

A container daemon that hangs may delay a look this long. No heartbeat waits for it."""


class Heartbeat:
    """Sends the status of a site."""

    def __init__(
        self,
        bus: Bus,
        access: SiteAccess,
        jobs: Jobs,
        supervisor: Supervisor,
        broker: BrokerBinder,
        containment: Containment,
        storage: Storage,
        begun_at: datetime,
    ) -> None:
        self.bus = bus
        self.site = access.spec.name
        self.access = access
        self.jobs = jobs
        self.supervisor = supervisor
        self.broker = broker
        self.containment = containment
        self.storage = storage
        self._begun_at = begun_at
        # Now: another version may be installed while this one runs.
        self._version = installed_version()
        self._processes: list[ProcessStatus] = []
        self._uncontained: str | None = None
        """Reason why no process could be restarted."""

    async def look(self) -> None:
        """Look at the processes every few seconds, until cancelled."""
        while True:
            self._processes = await self.supervisor.status()
            self._uncontained = await self.containment.trouble()
            await asyncio.sleep(PROCESSES_EVERY_S)

    async def beat(self) -> None:
        """Send a heartbeat every second, until cancelled."""
        while True:
            try:
                await self.bus.publish(self.status())
            except (nats.errors.Error, OSError) as error:
                log.warning("heartbeat: %s", error)
            await asyncio.sleep(INTERVAL_S)

    def status(self) -> SiteStatus:
        """Return the site's present status."""
        not_ready = self._not_ready()
        return SiteStatus(
            site=self.site,
            state=SiteState.UP if not_ready is None else SiteState.STARTING,
            nats_url=self.access.nats_url,
            mqtt_host=self.access.mqtt_host,
            mqtt_port=self.access.mqtt_port,
            processes=self._processes,
            jobs=self.jobs.statuses(),
            error=self._trouble() if not_ready is None else not_ready,
            version=self._version,
            capabilities=[*Capability],
            begun_at=self._begun_at,
        )

    def _trouble(self) -> str | None:
        """Return the reason why a site that is up does not work fully."""
        return self._uncontained or self.broker.trouble() or self.storage.trouble()

    def _not_ready(self) -> str | None:
        """Return the reason why the site cannot run jobs. An engine that starts for one is no reason."""
        engine = engine_process(self.site)
        if not self.supervisor.keeps(engine) or self.supervisor.is_ready(engine):
            return None
        why = self.supervisor.trouble(engine) or self._uncontained
        if why is None and self.access.spec.engine.start is EngineStart.WITH_JOBS:
            return None
        return "the engine does not answer yet" + (f": {why}" if why else "")
