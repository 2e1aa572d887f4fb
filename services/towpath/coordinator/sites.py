"""Keep the state of sites from their heartbeats, and publish events when it changes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.events import JobChanged, SiteChanged
from towpath.contracts.job import JobState, JobStatus
from towpath.contracts.message import Event
from towpath.contracts.site import Capability, Capacity, SiteState, SiteStatus
from towpath.coordinator.settings import CoordinatorSettings
from towpath.tasks import end

log = logging.getLogger(__name__)

LOOK_EVERY_S = 0.5

HEARTBEAT_POLL_S = 0.05
"""Between two looks for a heartbeat that is awaited. Sites send one a second."""

FIRST_HEARTBEAT_S = 3.0
"""Time for which a coordinator listens before it calls a silent site down."""

MOST_NEWS = 10_000
"""Changes that may wait for the hub's stream of events: a hub whose servers vote takes none for seconds."""

DEAF_S = 2.5
"""If no site at all was heard for so long, this coordinator was deaf: its process or the hub stood still."""


@dataclass
class Heard:
    """The last heartbeat of a site."""

    status: SiteStatus
    at: float
    """Time of its arrival by this machine's monotonic clock: clocks of sites may differ."""


class Sites:
    """The state of every site."""

    def __init__(
        self,
        settings: CoordinatorSettings,
        publish: Callable[[Event], Awaitable[None]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._publish = publish
        self._clock = clock
        self._begun = clock()
        self._heard: dict[str, Heard] = {}
        self._first: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._announced: dict[str, SiteState] = {}
        self._news: asyncio.Queue[Event] = asyncio.Queue(MOST_NEWS)
        self._untold = 0
        """Changes left out since the last one that was published, because too many waited."""

    def listening(self) -> None:
        """Count silence from now on: before, no heartbeat could be heard."""
        self._begun = self._clock()

    @property
    def names(self) -> list[str]:
        """Return all sites, up or not."""
        return sorted({*self._settings.sites, *self._heard})

    def state(self, site: str) -> SiteState:
        """Return a site's state: the last reported one, or down after too long a silence."""
        heard = self._heard.get(site)
        if heard is None or self._clock() - heard.at > self._settings.down_after_s:
            return SiteState.DOWN
        return heard.status.state

    def status(self, site: str) -> SiteStatus:
        """Return the last heartbeat, with the present state."""
        heard = self._heard.get(site)
        if heard is None:
            return SiteStatus(
                site=site, state=SiteState.DOWN, nats_url="", mqtt_host="", mqtt_port=0, error="never heard"
            )
        return heard.status.model_copy(update={"state": self.state(site)})

    def heard(self) -> list[SiteStatus]:
        """Return the last heartbeats of all sites, those of sites that are down by now too."""
        return [heard.status for heard in self._heard.values()]

    async def next_heartbeats(self) -> None:
        """Wait for another heartbeat of each site that is up. A site that falls silent does not count."""
        begun = self._clock()

        while True:
            up = [site for site in self._heard if self.state(site) is not SiteState.DOWN]
            if all(self.heard_at(site) > begun for site in up):
                return
            await asyncio.sleep(HEARTBEAT_POLL_S)

    def capacity(self, site: str) -> Capacity:
        """Return a site's resources for jobs."""
        return self._settings.capacities.get(site, Capacity())

    def heard_at(self, site: str) -> float:
        """Return the time of its last heartbeat by the monotonic clock; minus infinity without one."""
        heard = self._heard.get(site)
        return heard.at if heard else float("-inf")

    def silent_s(self, site: str) -> float:
        """Return the seconds since its last heartbeat, or since this coordinator began to listen."""
        return self._clock() - max(self.heard_at(site), self._begun)

    def job(self, site: str, job: str) -> JobStatus | None:
        """Return the state of a job at a site, as its last heartbeat reported it."""
        heard = self._heard.get(site)
        return next((s for s in heard.status.jobs if s.job == job), None) if heard else None

    def check_known(self, site: str, field: str) -> None:
        """Raise `TowpathError` (unknown site) for a name that no site has."""
        if site not in self.names:
            raise TowpathError.unknown("site", site, self.names, field=field)

    async def check_up(self, site: str, field: str) -> None:
        """Raise `TowpathError`: unknown site, or site down."""
        self.check_known(site, field)
        await self._listened(site, FIRST_HEARTBEAT_S)
        if self.state(site) is SiteState.DOWN:
            up = [name for name in self.names if self.state(name) is not SiteState.DOWN]
            raise TowpathError(
                ErrorCode.SITE_DOWN, f"site {site} is down", field=field, value=site, allowed=up
            )

    async def is_down(self, site: str) -> bool:
        """Tell if a site is down, before something is done that takes a job from it.

        A coordinator that has just begun, or was deaf, listens first, for as long as silence must last.
        """
        self._notice_deafness()
        await self._listened(site, self._settings.down_after_s)
        return self.state(site) is SiteState.DOWN

    def _notice_deafness(self) -> None:
        """Count silence from now on, if nothing was heard for a while: that says nothing of any site."""
        newest = max((heard.at for heard in self._heard.values()), default=self._begun)
        if self._clock() - max(newest, self._begun) > DEAF_S:
            self._first.clear()
            self.listening()

    async def _listened(self, site: str, for_s: float) -> None:
        """Wait until a site has been heard, or this coordinator has listened for so long."""
        left = self._begun + for_s - self._clock()
        if left > 0:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._first[site].wait(), left)

    def can(self, site: str, capability: Capability) -> bool:
        """Tell if the agent of a site, as it was heard last, can do this."""
        return capability in self.status(site).capabilities

    def check_can(self, site: str, capability: Capability, field: str) -> None:
        """Raise `TowpathError` (not allowed) if the agent of a site is of a version that cannot do this."""
        if self.can(site, capability):
            return
        status = self.status(site)
        able = [each.site for each in self.heard() if capability in each.capabilities]
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            f"the agent of {site} (version {status.version or 'not told'}) cannot do this: {capability}",
            field=field,
            value=site,
            allowed=able or "a site whose agent is of a later version",
        )

    async def on_heartbeat(self, status: SiteStatus) -> None:
        """Take in a heartbeat. `watch` publishes what changed: the next heartbeat does not wait for that."""
        self._notice_deafness()
        before = self._heard.get(status.site)
        self._heard[status.site] = Heard(status, self._clock())
        self._first[status.site].set()
        self._announce(status.site)
        old = {s.job: (s.epoch, s.state, s.error) for s in before.status.jobs} if before else {}
        # A copy at a standby is no state of the job.
        for job in (each for each in status.jobs if each.state is not JobState.STANDBY):
            if old.get(job.job) != (job.epoch, job.state, job.error):
                self._tell(
                    JobChanged(
                        job=job.job, site=status.site, epoch=job.epoch, state=job.state, error=job.error
                    )
                )

    async def watch(self) -> None:
        """Watch for silent sites, and publish changes in their order, until cancelled."""
        publishing = asyncio.create_task(self._publish_news(), name="news of sites")
        try:
            while True:
                await asyncio.sleep(LOOK_EVERY_S)
                if self._clock() - self._begun < FIRST_HEARTBEAT_S:
                    continue
                for site in self.names:
                    self._announce(site)
        finally:
            await end([publishing])

    async def _publish_news(self) -> None:
        while True:
            await self._publish(await self._news.get())
            if self._untold:
                log.warning("%d changes of sites were not published: too many waited", self._untold)
                self._untold = 0

    def _tell(self, event: Event) -> None:
        try:
            self._news.put_nowait(event)
        except asyncio.QueueFull:
            self._untold += 1

    def _announce(self, site: str) -> None:
        state = self.state(site)
        if self._announced.get(site) is state:
            return
        self._announced[site] = state
        silent = f"no heartbeat for {self._settings.down_after_s:g} s"
        note = silent if state is SiteState.DOWN else (self._heard[site].status.error or "")
        self._tell(SiteChanged(site=site, state=state, note=note))
