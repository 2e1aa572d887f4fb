"""Let sites restart, when nothing there would be interrupted."""

from __future__ import annotations

from towpath.bus import Bus
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.reply import Done
from towpath.contracts.site import Capability
from towpath.contracts.upgrade import RestartAgent, RestartSite
from towpath.coordinator.registry.jobs import in_time
from towpath.coordinator.situation import Situation

ANSWER_S = 10.0


class Restarts:
    """Answers `RestartSite`."""

    def __init__(self, situation: Situation) -> None:
        self._situation = situation

    async def serve(self, bus: Bus) -> None:
        """Listen for the command."""
        await bus.serve(RestartSite, self.restart)

    async def restart(self, command: RestartSite) -> Done:
        """See `RestartSite`."""
        site, sites = command.site, self._situation.sites
        await sites.check_up(site, "site")
        sites.check_can(site, Capability.RESTART, "site")
        if sites.status(site).begun_at != command.begun_at:
            return Done(note=f"{site} has restarted since")
        jobs = await in_time(self._situation.registry.jobs())
        here = sorted(name for name, entry in jobs.items() if entry.site == site)
        if here and not command.in_place:
            raise TowpathError(
                ErrorCode.NOT_ALLOWED,
                f"{', '.join(here)} run(s) at {site}",
                field="site",
                value=site,
                allowed=f"`towpath upgrade {site}` moves them; in_place = true: results pause",
            )
        ended = RestartAgent(site=site, begun_at=command.begun_at)
        return await self._situation.bus.request(ended, deadline_s=ANSWER_S)
