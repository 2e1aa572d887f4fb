"""Run a service of the hub, or of a site, as a process: options, log, signals, exit status, connection."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from towpath.bus import Bus
from towpath.contracts.errors import TowpathError
from towpath.contracts.message import HUB_SCOPE
from towpath.hooks.extension import watch
from towpath.mesh.hub_settings import HubSettings
from towpath.mesh.liveness import showing_life
from towpath.tasks import unless
from towpath.telemetry.logs import start_logging
from towpath.telemetry.tracing import start_tracing

Settings = TypeVar("Settings")


def run_service(
    module: str,
    description: str | None,
    settings_of: Callable[..., Settings],
    run: Callable[[Settings, asyncio.Event], Awaitable[None]],
) -> int:
    """Run `python -m <module> --home <directory>` until SIGTERM or SIGINT; return its exit status.

    2 when the settings of the mesh in that directory cannot be read, or do not ask for this service.
    `settings_of` takes that directory, and the `number` of a further process of the service.
    """
    parser = _options(module, description)
    parser.add_argument("--number", type=int, default=1, help="which of several processes this is")
    given = parser.parse_args()
    start_logging(HUB_SCOPE)
    which = {"number": given.number} if given.number > 1 else {}
    return _run(lambda: settings_of(given.home, **which), lambda settings: _until_signalled(settings, run))


def run_site_service(
    module: str,
    description: str | None,
    settings_of: Callable[[Path, str], Settings],
    run: Callable[[Settings], Coroutine[Any, Any, None]],
) -> int:
    """Run `python -m <module> --home <directory> --site <site>`; return its exit status, see `run_service`.

    It heeds signals itself.
    """
    parser = _options(module, description)
    parser.add_argument("--site", required=True, help="name of the site")
    given = parser.parse_args()
    start_logging(given.site)
    return _run(lambda: settings_of(given.home, given.site), run)


def _options(module: str, description: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=module, description=description)
    parser.add_argument("--home", type=Path, required=True, help="directory of the mesh")
    return parser


def _run(settings_of: Callable[[], Settings], run: Callable[[Settings], Coroutine[Any, Any, None]]) -> int:
    try:
        settings = settings_of()
    except TowpathError as error:
        print(error, file=sys.stderr)
        return 2
    watch()
    asyncio.run(run(settings))
    return 0


@asynccontextmanager
async def at_hub(settings: HubSettings, stop: asyncio.Event) -> AsyncIterator[Bus | None]:
    """Connect a service to the hub; None if `stop` was set before it was connected.

    The service's spans leave over this connection, and its health check passes while it is connected.
    """
    connection = await _connected(settings, stop)
    if connection is None:
        yield None
        return
    async with connection as bus, showing_life(bus):
        bus.asks_as = settings.service
        bus.ship(start_tracing(settings.service, HUB_SCOPE))
        yield bus


async def _connected(settings: HubSettings, stop: asyncio.Event) -> Bus | None:
    connecting = Bus.connect(
        settings.hub_url,
        settings.hub_user,
        settings.hub_password,
        name=settings.service,
        tls=settings.hub_tls,
    )
    return await unless(stop.wait(), connecting)


async def _until_signalled(
    settings: Settings, run: Callable[[Settings, asyncio.Event], Awaitable[None]]
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await run(settings, stop)
