"""The wiring of a site's storage."""

from __future__ import annotations

import asyncio
import logging
import signal

from towpath.atomic_write import make_private_directory
from towpath.bus import Bus
from towpath.contracts.storage import CopiesKept, KeepCopies, ReadValues, ValueSeriesList
from towpath.mesh.liveness import showing_life
from towpath.storage.copies import Copies
from towpath.storage.intake import Intake, keep_own
from towpath.storage.settings import StorageSettings
from towpath.stored_values.value_store import ValueStore
from towpath.tasks import end
from towpath.telemetry.tracing import start_tracing

log = logging.getLogger(__name__)


async def run(settings: StorageSettings) -> None:
    """Store and answer until SIGTERM."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    for directory in (settings.directory, settings.copies):
        make_private_directory(directory)
    path = settings.directory / "values.db"
    store = await asyncio.to_thread(ValueStore, settings.site, path, settings.spec)
    try:
        login, name = settings.login, f"storage-{settings.site}"
        async with (
            await Bus.connect(login.url, login.user, login.password, name=name) as bus,
            showing_life(bus),
        ):
            bus.ship(start_tracing("storage", settings.site))
            await _serve(settings, bus, store, stop)
    finally:
        await asyncio.to_thread(store.close)


async def _serve(settings: StorageSettings, bus: Bus, store: ValueStore, stop: asyncio.Event) -> None:
    site, results = settings.site, settings.spec.results
    copies = Copies(bus.connection, settings.copies, settings.spec)

    async def read(command: ReadValues) -> ValueSeriesList:
        if command.of in (None, site):
            asked = store
        elif command.complete:
            asked = await copies.complete_store(command.of, command.since)
        else:
            asked = copies.store(command.of)
        return await asyncio.to_thread(asked.read, command, command.share)

    async def keep(command: KeepCopies) -> CopiesKept:
        kept = await copies.keep(command)
        return kept.model_copy(update={"sources": await asyncio.to_thread(store.sources)})

    own = keep_own(bus.connection, site, results, Intake(bus.connection, site, store))
    working = [asyncio.create_task(own)]
    try:
        await copies.start()
        await bus.serve(ReadValues, read, site=site)
        await bus.serve(KeepCopies, keep, site=site)
        log.info("storing values of %s", site)
        await stop.wait()
    finally:
        await end(working)
        await copies.close()
