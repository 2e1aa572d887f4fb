"""The conditions of a link as they hold at this moment, for everything that waits because of them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection

from towpath.contracts.links import LinkConditions, OneWay


class Weather:
    """Conditions that change while connections are open. All that wait learn of a change at once."""

    def __init__(self) -> None:
        self.now = LinkConditions()
        self._next = asyncio.Event()

    def change(self, conditions: LinkConditions) -> None:
        """From now on `conditions` hold."""
        self.now = conditions
        before, self._next = self._next, asyncio.Event()
        before.set()

    async def changed(self, within_s: float | None = None) -> None:
        """Return at the next change, or after `within_s` seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._next.wait()

    async def between_slices(self) -> None:
        """Return when the next slice may follow; at once when nothing is sliced."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        while self.now.slice_bytes is not None:
            left = began + self.now.slice_delay_ms / 1000 - loop.time()
            if left <= 0:
                return
            await self.changed(within_s=left)

    async def passable(self, ways: Collection[OneWay] = ()) -> None:
        """Return as soon as the link is not cut, nor one of these ways."""
        while self.now.cut or self.now.cut_only in ways:
            await self.changed()
