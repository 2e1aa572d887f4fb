"""Place user code on the site's disk and try it, before the engine is asked to run it."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from nats.aio.client import Client

from towpath.artefacts.entry_check import check_entry
from towpath.artefacts.hub_store import fetch
from towpath.artefacts.root import FIELD
from towpath.artefacts.shelf import Shelf
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import Assignment
from towpath.contracts.reply import Done
from towpath.contracts.site_commands import TryCode
from towpath.operators.kind import user_code, with_code_at

log = logging.getLogger(__name__)

TRIALS = 2
"""Entries tried at the same time. Each costs a second of CPU."""

SWEEP_EVERY_S = 600.0

UNUSED_S = 24 * 3600.0
"""Time to keep code that no job here needs: a job that moves away may come back the same day."""


class Unplaced(TowpathError):
    """A job's code is missing or cannot be called. The job cannot run, and others can."""


class SiteArtefacts:
    """User code of one site: fetched once, verified at each use, never imported here."""

    def __init__(self, connection: Client, shelf: Shelf, reads: Sequence[Path] = ()) -> None:
        """`reads`: what code may read at this site beside its own files."""
        self._connection = connection
        self.shelf = shelf
        self._reads = reads
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._trials = asyncio.Semaphore(TRIALS)
        self._callable: set[str] = set()
        """Tried entries of the environment's own modules."""

    async def in_place(self, assignment: Assignment) -> Assignment:
        """Return the assignment with its code at a path of this machine, for the engine alone.

        Raises `Unplaced` when the code is not here and the hub does not give it, or when it does not import.
        """
        try:
            return await self._placed(assignment)
        except TowpathError as error:
            raise Unplaced.of(error.detail) from error

    async def try_code(self, command: TryCode) -> Done:
        """Fetch and try a job's code. Raises `TowpathError` as `in_place` does for a job with this code."""
        if command.artefact is None:
            await self._try_installed(command.entry)
        else:
            await self._present(command.artefact, command.entry)
        return Done()

    async def _placed(self, assignment: Assignment) -> Assignment:
        operator = assignment.spec.operator
        code = user_code(operator)
        if code is None:
            return assignment
        if code.artefact is None:
            await self._try_installed(code.entry)
            return assignment
        if assignment.artefact is None:
            raise TowpathError(
                ErrorCode.NOT_ALLOWED,
                "code is taken only from the hub: update the job to store it there",
                field=FIELD,
                value=code.artefact,
            )
        path = await self._present(assignment.artefact, code.entry)
        placed = with_code_at(operator, path)
        return assignment.model_copy(update={"spec": assignment.spec.model_copy(update={"operator": placed})})

    async def _present(self, digest: str, entry: str) -> str:
        async with self._locks[digest]:
            path = await asyncio.to_thread(self.shelf.find, digest)
            if path is None:
                log.info("fetching artefact %s", digest)
                content = await fetch(self._connection, digest)
                path = await asyncio.to_thread(self.shelf.keep, digest, content)
            if not await asyncio.to_thread(self.shelf.is_callable, digest, entry):
                async with self._trials:
                    await check_entry(path, entry, reads=self._reads)
                await asyncio.to_thread(self.shelf.note_callable, digest, entry)
            return str(path)

    async def _try_installed(self, entry: str) -> None:
        async with self._locks[entry]:
            if entry not in self._callable:
                async with self._trials:
                    await check_entry(None, entry, reads=self._reads)
                self._callable.add(entry)

    async def watch(self, assignments: Callable[[], Iterable[Assignment]]) -> None:
        """Delete code that no job here needs, repeatedly until cancelled."""
        while True:
            await asyncio.sleep(SWEEP_EVERY_S)
            await self.sweep(assignments(), UNUSED_S)

    async def sweep(self, assignments: Iterable[Assignment], unused_s: float) -> list[str]:
        """Delete code that no assignment needs and no one looked for within `unused_s` seconds."""
        keep = {a.artefact for a in assignments if a.artefact is not None}
        gone = await asyncio.to_thread(self.shelf.discard, keep, unused_s)
        if gone:
            log.info("deleted artefacts %s", ", ".join(gone))
        return gone
