"""Answer for stored values of all sites, as if there were one store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from towpath.collector.site_questions import SiteQuestions
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.storage import QueryValues, ReadValues, StorageSpec, ValueSeriesList
from towpath.stored_values.selecting import joined


class StoredValues:
    """Answers `QueryValues`."""

    def __init__(
        self, questions: SiteQuestions, spec: StorageSpec, copies_at: Callable[[str], Sequence[str]]
    ) -> None:
        """`copies_at` returns the sites that have a copy of a site's values."""
        self._questions = questions
        self._spec = spec
        self._copies_at = copies_at

    async def query(self, command: QueryValues) -> ValueSeriesList:
        """Answer with the values of all sites asked. Of a site that does not answer a copy counts, if any.

        Raises `TowpathError`: no such site, more values than `limit`, or the mesh stores none.
        """
        if not self._spec.enabled:
            raise TowpathError(
                ErrorCode.NOT_ALLOWED,
                "this mesh stores no values",
                field="storage.enabled",
                value=False,
                allowed="true, in the file for `towpath up --config`",
            )
        sites = await self._questions.scopes(command.sites)
        parts = await asyncio.gather(*(self._read(site, command) for site in sites))
        found = joined(command, (part for part in parts if not isinstance(part, str)))
        silent = {site: part for site, part in zip(sites, parts, strict=True) if isinstance(part, str)}
        copies = {site: at for part in parts if not isinstance(part, str) for site, at in part.copies.items()}
        return found.model_copy(update={"unreached": silent, "copies": copies})

    async def _read(self, owner: str, command: QueryValues) -> ValueSeriesList | str:
        """Return the values of one site, or the reason why there are none."""
        wanted = command.model_dump(exclude={"id", "sites"})
        own = await self._questions.ask(owner, ReadValues(site=owner, **wanted))
        if not isinstance(own, str):
            return own
        for site in self._copies_at(owner):
            copy = await self._questions.ask(site, ReadValues(site=site, of=owner, **wanted))
            if not isinstance(copy, str):
                return copy.model_copy(update={"copies": {owner: site}})
        return own
