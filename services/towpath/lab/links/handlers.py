"""Messages become decisions: one method a command of the links."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from datetime import datetime, timedelta

from nats.errors import Error as NatsError

from towpath.bus import Bus
from towpath.contracts.errors import TowpathError
from towpath.contracts.links import (
    LinkChanged,
    LinkConditions,
    LinkList,
    LinkView,
    ListLinks,
    RestoreLink,
    ShapeLink,
)
from towpath.contracts.message import now
from towpath.lab.links.record import LinkRecord
from towpath.lab.proxy import Link
from towpath.lab.proxy.recorded_conditions import RecordedConditions

log = logging.getLogger(__name__)


class LinkHandlers:
    """Answers the commands of the links."""

    def __init__(self, links: Mapping[str, Link], record: LinkRecord, bus: Bus) -> None:
        self._links = links
        self._record = record
        self._bus = bus
        self._changing = asyncio.Lock()

    async def serve(self) -> None:
        """Listen for all commands."""
        await self._bus.serve(ShapeLink, self.shape)
        await self._bus.serve(RestoreLink, self.restore)
        await self._bus.serve(ListLinks, self.list_links)

    async def shape(self, command: ShapeLink) -> LinkView:
        """See `ShapeLink`."""
        return await self._change(self._link(command.site), command.conditions)

    async def restore(self, command: RestoreLink) -> LinkView:
        """See `RestoreLink`."""
        link = self._link(command.site)
        if link.conditions == LinkConditions():
            return _view(link)
        return await self._change(link, LinkConditions())

    async def list_links(self, _: ListLinks) -> LinkList:
        """See `ListLinks`."""
        return LinkList(links=[_view(link) for _, link in sorted(self._links.items())])

    async def tell_of_restored(self, restored: asyncio.Queue[str]) -> None:
        """Record and announce links that restored themselves, until cancelled."""
        while True:
            link = self._links[await restored.get()]
            async with self._changing:
                try:
                    await self._record.write(self._kept())
                except OSError as error:
                    # When the conditions end is in the record, so a stale one does no harm.
                    log.error("conditions of the links were not recorded: %s", error)
                await self._announce(link)

    async def _change(self, link: Link, conditions: LinkConditions) -> LinkView:
        async with self._changing:
            # First the record: what was answered holds also when this process dies.
            await self._record.write({**self._kept(), link.name: _keep(conditions, conditions.for_s)})
            renewed = _untimed(link.conditions) == _untimed(conditions)
            link.shape(conditions)
            if not renewed:
                await self._announce(link)
            return _view(link)

    def _kept(self) -> dict[str, RecordedConditions]:
        return {site: _keep(link.conditions, link.left_s) for site, link in self._links.items()}

    async def _announce(self, link: Link) -> None:
        log.info("link of %s: %s", link.name, link.conditions)
        try:
            await self._bus.publish(LinkChanged(site=link.name, conditions=link.conditions))
        except (NatsError, OSError) as error:
            log.error("change of link %s was not announced: %s", link.name, error)

    def _link(self, site: str) -> Link:
        try:
            return self._links[site]
        except KeyError:
            raise TowpathError.unknown("site", site, sorted(self._links)) from None


def _keep(conditions: LinkConditions, left_s: float | None) -> RecordedConditions:
    return RecordedConditions(conditions=conditions, until=_in(left_s))


def _untimed(conditions: LinkConditions) -> LinkConditions:
    """For comparison: who holds a link in a state renews that state again and again."""
    return conditions.model_copy(update={"for_s": None})


def _in(seconds: float | None) -> datetime | None:
    return None if seconds is None else now() + timedelta(seconds=seconds)


def _view(link: Link) -> LinkView:
    to_hub, to_site = link.passed
    return LinkView(
        site=link.name,
        conditions=link.conditions,
        until=_in(link.left_s),
        connections=link.connections,
        bytes_to_hub=to_hub,
        bytes_to_site=to_site,
    )
