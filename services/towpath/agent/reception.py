"""Receive checkpoints at this site, in one task per job, from the role of target until the job resumes."""

from __future__ import annotations

import asyncio
import logging

from redis.asyncio import Redis

from towpath.agent.assignments import AssignmentStore
from towpath.checkpoints.receiving import receive
from towpath.checkpoints.transfer_keys import transfer_name
from towpath.contracts.errors import TowpathError
from towpath.contracts.job import Assignment
from towpath.mesh.state import SiteAccess
from towpath.tasks import end

log = logging.getLogger(__name__)

REFUSED_PAUSE_S = 1.0
"""After state that was refused. It stays in the store until the source begins again or gives up."""


class Reception:
    """Watches the state store for jobs that wait for their state."""

    def __init__(self, site: str, redis: Redis, store: AssignmentStore, secret: str) -> None:
        """`secret` is known to this site alone: the names of its transfers come from it."""
        self._site = site
        self._redis = redis
        self._store = store
        self._secret = secret
        self._watches: dict[str, tuple[str | None, asyncio.Task[None]]] = {}
        """Job → operation whose state is received, and the task that does so."""

    def take_keys(self, access: SiteAccess) -> None:
        """Name further transfers by the site's new secret."""
        self._secret = access.redis.password

    async def open(self, assignment: Assignment) -> None:
        """Receive all state that the assignment's operation brings, from now on.

        The transfer of another operation ends: a standby becomes the target of a migration, or the standby of
        the job's next owner.
        """
        job, operation = assignment.spec.name, assignment.migration
        known, task = self._watches.get(job, (None, None))
        if task is not None and (known != operation or task.done()):
            await self.close(job)
        if job not in self._watches:
            task = asyncio.create_task(self._watch(assignment), name=f"receive {job}")
            self._watches[job] = operation, task

    def name_of(self, operation: str) -> str:
        """Return the name of an operation's transfer to this site."""
        return transfer_name(self._secret, operation)

    async def _watch(self, assignment: Assignment) -> None:
        """Receive a transfer, and each later one that replaces it, until the job resumes."""
        job, operation = assignment.spec.name, assignment.migration
        assert operation is not None, "only a migration brings state"
        name = self.name_of(operation)
        incoming, cache = self._store.incoming(job), self._store.cache(job)
        while True:
            try:
                await receive(self._redis, operation, incoming, cache, name=name, consumer=self._site)
            except TowpathError as error:
                log.error("state of %s: %s", job, error)
                await asyncio.sleep(REFUSED_PAUSE_S)

    async def close(self, job: str) -> None:
        """Receive nothing more for the job."""
        _, task = self._watches.pop(job, (None, None))
        await end([task])

    async def close_all(self) -> None:
        """End all transfers under way."""
        for job in list(self._watches):
            await self.close(job)
