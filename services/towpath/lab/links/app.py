"""The wiring of the emulated links."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from towpath.lab.links.handlers import LinkHandlers
from towpath.lab.links.record import LinkRecord
from towpath.lab.links.settings import LinkSettings
from towpath.lab.proxy import Link
from towpath.mesh.service_process import at_hub
from towpath.tasks import end

log = logging.getLogger(__name__)


async def run(settings: LinkSettings, stop: asyncio.Event) -> None:
    """Forward, and take commands, until `stop` is set. Raises `OSError` when a port is taken."""
    restored: asyncio.Queue[str] = asyncio.Queue()
    record = LinkRecord(settings.record)
    # The links work before commands do: sites and hub find each other through them.
    async with _links(settings, record, restored) as links, asyncio.TaskGroup() as tasks:
        commands = tasks.create_task(_take_commands(settings, links, record, restored, stop))
        await stop.wait()
        await end([commands])


@asynccontextmanager
async def _links(
    settings: LinkSettings, record: LinkRecord, restored: asyncio.Queue[str]
) -> AsyncIterator[dict[str, Link]]:
    """All links, each as bad as it was when this process last ended."""
    kept = await record.read()
    async with AsyncExitStack() as stack:
        links: dict[str, Link] = {}
        for site, routes in settings.routes.items():
            links[site] = Link(site, routes, on_restored=restored.put_nowait)
            if (conditions := kept.get(site)) is not None:
                links[site].shape(conditions)
                if conditions.perfect:
                    restored.put_nowait(site)
            await stack.enter_async_context(links[site])
        log.info("links of %s", ", ".join(links))
        yield links


async def _take_commands(
    settings: LinkSettings,
    links: dict[str, Link],
    record: LinkRecord,
    restored: asyncio.Queue[str],
    stop: asyncio.Event,
) -> None:
    async with at_hub(settings, stop) as bus:
        if bus is None:
            return
        handlers = LinkHandlers(links, record, bus)
        await handlers.serve()
        await handlers.tell_of_restored(restored)
