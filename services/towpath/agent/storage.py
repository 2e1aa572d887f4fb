"""Keep the site's streams within its disk, tell before it is full, and before retention reaches a job.

The streams share a budget: each may keep what the site's retention says, or its share if that is less. The
disk fills all the same when others use it, or checkpoints grow. Then events of devices are refused in time,
because jobs and commands need room to go on. A device that gets no acknowledgement keeps its event.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

from nats.errors import Error as NatsError

from towpath.agent.jobs import Jobs
from towpath.agent.stream_figures import streams_at
from towpath.contracts.errors import TowpathError
from towpath.contracts.events import RetentionNear, StorageChanged
from towpath.contracts.message import Event
from towpath.contracts.site import StorageState
from towpath.streams.retention import divided, margins
from towpath.streams.stream_view import StreamView

log = logging.getLogger(__name__)

LOOK_EVERY_S = 5.0

BUDGET = 0.8
"""Share of the disk that streams may take, unless the site says otherwise."""

FILLING, FULL = 0.80, 0.95
"""Taken shares of the disk at which it is told, and at which events are refused."""

SLACK = 0.02
"""The disk must be emptier by so much until it counts as such: states must not change with every look."""

NEAR_SHARE, NEAR_S = 0.1, 3600.0
"""It is told when a job has less than this share left of the time for which the stream holds events, or this
time if that is less."""

Usage = Callable[[Path], tuple[int, int, int]]
"""Returns size, taken and free bytes of a directory's disk."""


class Storage:
    """Watches the disk and the streams of one site."""

    def __init__(
        self,
        jobs: Jobs,
        directory: Path,
        publish: Callable[[Event], Awaitable[None]],
        usage: Usage = shutil.disk_usage,
    ) -> None:
        """`directory` is where the site's server stores."""
        self._jobs = jobs
        self._streams = jobs.streams
        self._directory = directory
        self._publish = publish
        self._usage = usage
        self._state = StorageState.OK
        self._near: set[tuple[str, str]] = set()
        """Job and input for which it was told that retention is near."""
        self._taken = 0.0
        """Share of the disk that was taken at the last look, of what the site may use at all."""
        _, used, free = usage(directory)
        self._budget = self._streams.retention.total_bytes or int(BUDGET * (used + free))

    def trouble(self) -> str | None:
        """Return what is wrong with the disk, for people."""
        if self._state is StorageState.OK:
            return None
        refused = ", events of devices are refused" if self._state is StorageState.FULL else ""
        return f"the disk is {self._taken:.0%} full{refused}"

    async def watch(self) -> None:
        """Look until cancelled."""
        while True:
            try:
                await self.look()
            except (TowpathError, NatsError, OSError, TimeoutError) as error:
                log.warning("the site's storage cannot be looked at: %s", error)
            await asyncio.sleep(LOOK_EVERY_S)

    async def look(self) -> None:
        """Look once, and act."""
        await self._look_at_disk()
        views = await streams_at(self._streams.connection, self._streams.site)
        await self._streams.limit(self._shares(views), views)
        await self._look_at_jobs(views)

    def _shares(self, views: dict[str, StreamView]) -> dict[str, int]:
        """Return the bytes of each stream that has a limit of its own."""
        limited = [name for name, view in views.items() if view.max_bytes > 0]
        return divided(self._budget, dict.fromkeys(limited, self._streams.retention.max_bytes))

    async def _look_at_disk(self) -> None:
        _, used, free = await asyncio.to_thread(self._usage, self._directory)
        self._taken = used / (used + free)
        state = _state(self._state, self._taken)
        if state is not self._state:
            await self._streams.admit_devices(admitted=state is not StorageState.FULL)
            self._state = state
            log.warning("the disk is %s: %d bytes are free", state, free)
            await self._publish(StorageChanged(site=self._streams.site, state=state, free_bytes=free))

    async def _look_at_jobs(self, views: dict[str, StreamView]) -> None:
        site = self._streams.site
        for job, assignment in list(self._jobs.assignments.items()):
            try:
                position = await asyncio.to_thread(self._jobs.position, assignment)
            except (OSError, ValueError):
                continue  # The checkpoint is just changing.
            known = margins(site, assignment, position, views)
            for entry in assignment.inputs:
                margin, here = known.get(entry.name), (job, entry.name)
                near_s = 0.0 if margin is None else min(NEAR_S, NEAR_SHARE * margin.holds_s)
                if margin is None or margin.left_s > 2 * near_s:
                    self._near.discard(here)
                elif margin.left_s < near_s and here not in self._near:
                    self._near.add(here)
                    left_s = margin.left_s
                    log.warning("%s drops in %.0f s what %s has still to read", entry.name, left_s, job)
                    await self._publish(RetentionNear(job=job, site=site, input=entry.name, left_s=left_s))


def _state(before: StorageState, taken: float) -> StorageState:
    """Return the state of a disk of which a share is taken."""
    for state, limit in ((StorageState.FULL, FULL), (StorageState.FILLING, FILLING)):
        stays = before in (state, StorageState.FULL)
        if taken > limit - (SLACK if stays else 0):
            return state
    return StorageState.OK
