"""Copies of the values of other sites. They answer for a site that does not answer itself.

The list of copies is on disk. So a storage that restarts goes on copying, also while there is no collector.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Container
from datetime import datetime
from pathlib import Path

from nats.aio.client import Client
from pydantic import TypeAdapter, ValidationError

from towpath.atomic_write import write_atomically
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.storage import CopiesKept, KeepCopies, StorageSpec, ValueCopy
from towpath.storage.intake import Intake
from towpath.stored_values.value_store import ValueStore
from towpath.tasks import to_the_end

log = logging.getLogger(__name__)

LAG_S = 10.0
"""Most seconds by which a complete copy is behind. To ask for a page over a slow link may take five."""

_LIST: TypeAdapter[list[ValueCopy]] = TypeAdapter(list[ValueCopy])


class Copies:
    """Keeps a store for each site that is copied."""

    def __init__(self, connection: Client, directory: Path, spec: StorageSpec) -> None:
        self._connection = connection
        self._directory = directory
        self._spec = spec
        self._stores: dict[str, ValueStore] = {}
        self._intakes: dict[str, Intake] = {}
        self._known: dict[str, ValueCopy] = {}
        self._changing = asyncio.Lock()

    async def start(self) -> None:
        """Go on with the copies of before."""
        try:
            known = _LIST.validate_json(await asyncio.to_thread(self._list.read_bytes))
        except FileNotFoundError:
            return
        except ValidationError as error:
            log.error("the list of copies cannot be read; the collector sends it again: %s", error)
            return
        async with self._changing:
            await self._become(known)

    async def keep(self, command: KeepCopies) -> CopiesKept:
        """Keep these copies, and delete others."""
        async with self._changing:
            copies = [self._with_known(copy) for copy in command.copies]
            content = _LIST.dump_json(copies)
            await asyncio.to_thread(write_atomically, self._list, content, mode=0o600, durable=False)
            await self._become(copies)
            return CopiesKept(owners=sorted(self._stores))

    def store(self, owner: str) -> ValueStore:
        """Return the copy of a site's values. Raises `TowpathError` if there is none."""
        if owner not in self._stores:
            raise TowpathError.unknown("site", owner, sorted(self._stores), field="of")
        return self._stores[owner]

    async def complete_store(self, owner: str, since: datetime | None) -> ValueStore:
        """Return the copy of a site's values, if it has all that the owner has from then on.

        Raises `TowpathError` if there is no such copy.
        """
        store, sources = self.store(owner), self._known[owner].sources
        is_behind = sources is None or self._intakes[owner].lag_s > LAG_S
        if is_behind or not await asyncio.to_thread(store.is_whole, sources or {}, since):
            raise TowpathError(ErrorCode.NOT_ALLOWED, f"the copy of {owner} is not complete", field="of")
        return store

    async def close(self) -> None:
        """Stop copying, and close all stores."""
        async with self._changing:
            for owner in [*self._stores]:
                await self._close(owner)

    def _with_known(self, copy: ValueCopy) -> ValueCopy:
        """Return a copy with the streams and sources that it has so far, if none are told."""
        known = self._known.get(copy.owner, ValueCopy(owner=copy.owner, streams=[]))
        streams = known.streams if copy.streams is None else copy.streams
        sources = known.sources if copy.sources is None else copy.sources
        return ValueCopy(owner=copy.owner, streams=streams, sources=sources)

    async def _become(self, copies: list[ValueCopy]) -> None:
        wanted = {copy.owner: copy for copy in copies}
        for owner in self._stores.keys() - wanted.keys():
            await self._close(owner)
        await asyncio.to_thread(self._delete_all_but, wanted.keys())
        for owner, copy in wanted.items():
            if owner not in self._stores:
                path = self._directory / f"{owner}.db"
                self._stores[owner] = await asyncio.to_thread(ValueStore, owner, path, self._spec)
                self._intakes[owner] = Intake(self._connection, owner, self._stores[owner])
            self._known[owner] = copy
            await self._intakes[owner].follow(copy.streams or [])

    async def _close(self, owner: str) -> None:
        del self._known[owner]
        await self._intakes.pop(owner).stop()
        await to_the_end(asyncio.to_thread(self._stores.pop(owner).close))

    def _delete_all_but(self, owners: Container[str]) -> None:
        """Delete files of others, also those that a killed storage has left."""
        for path in self._directory.glob("*.db*"):
            if path.name.partition(".")[0] not in owners:
                path.unlink(missing_ok=True)

    @property
    def _list(self) -> Path:
        return self._directory / "copies.json"
