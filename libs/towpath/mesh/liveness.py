"""Show that a process lives: it touches a file as long as it works.

A health check, such as a container's, needs no more than the age of the file. A loop that hangs touches
nothing, and neither does a process that has lost its mesh.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from towpath.bus import Bus
from towpath.tasks import end

log = logging.getLogger(__name__)

FILE = "TOWPATH_ALIVE"
"""Environment variable: path of the file. Without it nothing is touched."""

EVERY_S = 2.0


@asynccontextmanager
async def showing_life(bus: Bus, every_s: float = EVERY_S) -> AsyncIterator[None]:
    """Touch the file that the environment names every few seconds while `bus` is connected."""
    path = os.environ.get(FILE)
    if not path:
        yield
        return
    touching = asyncio.create_task(_touch(Path(path), lambda: bus.connection.is_connected, every_s))
    try:
        yield
    finally:
        await end([touching])


async def _touch(path: Path, works: Callable[[], bool], every_s: float) -> None:
    while True:
        if works():
            _touch_once(path)
        await asyncio.sleep(every_s)


def _touch_once(path: Path) -> None:
    """Touch the file on the loop itself: a thread would also touch it while the loop hangs."""
    try:
        path.touch()
    except OSError as error:
        log.warning("no sign of life: %s", error)
