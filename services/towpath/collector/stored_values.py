"""Answer for stored values of all sites, as if there were one store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from towpath.collector.near_reads import PlannedRead
from towpath.collector.site_answers import credible, points_of, usable
from towpath.collector.site_questions import SiteQuestions
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.storage import QueryValues, ReadValues, StorageSpec, ValueSeriesList, Wanted
from towpath.stored_values.selecting import joined


class StoredValues:
    """Answers `QueryValues`."""

    def __init__(
        self,
        questions: SiteQuestions,
        spec: StorageSpec,
        copies_at: Callable[[str], Sequence[str]],
        plan: Callable[[Sequence[str], float], Awaitable[Mapping[str, PlannedRead]]],
    ) -> None:
        """`copies_at` returns the sites that have a copy of a site's values.

        `plan` returns from where to read values of sites, given the least mean of the shares to read.
        """
        self._questions = questions
        self._spec = spec
        self._copies_at = copies_at
        self._plan = plan

    async def query(self, command: QueryValues) -> ValueSeriesList:
        """Answer with the values of all sites asked. Of a site that does not answer a copy counts, if any.

        Raises `TowpathError`: no such site, more values than `limit`, a share of what has none, or the mesh
        stores no values.
        """
        self._check(command)
        sites = await self._questions.scopes(command.sites)
        plan = await self._plan(sites, command.share)
        reads = {site: plan.get(site, PlannedRead(at=site)) for site in sites}
        parts = await asyncio.gather(*(self._read(site, reads[site], command) for site in sites))
        answered, unreached = usable(
            dict(zip(sites, parts, strict=True)), lambda part: points_of(part.series), command.limit
        )
        facts: dict[str, object] = {
            "unreached": unreached,
            "copies": {site: at for part in answered.values() for site, at in part.copies.items()},
            "nearer": [site for part in answered.values() for site in part.nearer],
        }
        if command.share < 1:
            facts["shares"] = {site: reads[site].share for site in answered}
        return joined(command, answered.values()).model_copy(update=facts)

    def _check(self, command: QueryValues) -> None:
        if not self._spec.enabled:
            raise TowpathError(
                ErrorCode.NOT_ALLOWED,
                "this mesh stores no values",
                field="storage.enabled",
                value=False,
                allowed="true, in the file for `towpath up --config`",
            )
        if command.share < 1 and command.wanted is not Wanted.RANGE:
            raise TowpathError(
                ErrorCode.INVALID,
                f"{command.wanted} is of all values",
                field="share",
                value=command.share,
                allowed="1; less only for a range",
            )

    async def _read(
        self, owner: str, read: PlannedRead, command: QueryValues
    ) -> ValueSeriesList | TowpathError:
        """Return the values of one site, or the reason why there are none."""
        wanted = {**command.model_dump(exclude={"id", "asked_by", "sites"}), "share": read.share}
        if read.at != owner:
            near = await self._ask(ReadValues(site=read.at, of=owner, complete=True, **wanted))
            if not isinstance(near, TowpathError):
                return near.model_copy(update={"copies": {owner: read.at}, "nearer": [owner]})
        own = await self._ask(ReadValues(site=owner, **wanted))
        if not isinstance(own, TowpathError):
            return own
        # The near one last: it did not answer, or its copy is not complete.
        for site in sorted(self._copies_at(owner), key=lambda site: site == read.at):
            copy = await self._ask(ReadValues(site=site, of=owner, **wanted))
            if not isinstance(copy, TowpathError):
                return copy.model_copy(update={"copies": {owner: site}})
        return own

    async def _ask(self, question: ReadValues) -> ValueSeriesList | TowpathError:
        """Return the values that a site answers with, and nothing else of it, or why there are none."""
        found = await self._questions.ask(question.site, question)
        if isinstance(found, TowpathError):
            return found
        series = credible(question.of or question.site, found.series, question.limit)
        if isinstance(series, TowpathError):
            return series
        return ValueSeriesList(series=series, summary=found.summary)
