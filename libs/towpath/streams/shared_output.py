"""Keep what two runs publish into one output exact, however far one is behind the other (strategy `twin`).

The output stream drops the second of two messages with one id, but forgets ids after `DUPLICATE_WINDOW_S`. A
run that lags publishes results that the other stored long ago. So a run reads which ids the output has
stored since both may publish, and leaves those out. Three times bound what it can have missed:

1. It looks whether the output is shared at most `LOOK_S` before it begins to send.
2. It sends for at most `STALE_S` after a look, also if it was stopped meanwhile. Then it looks again.
3. A message waits on a dead connection for at most `DEAD_LINK_S`, because servers close it then. It may
   cross two.

These together are less than the window, so what both send in that time the stream itself tells apart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from towpath.boot_clock import seconds_since_boot
from towpath.contracts.data_plane import DEAD_LINK_S, DUPLICATE_WINDOW_S, OVERLAP, overlap_range
from towpath.streams.stored_ids import StoredIds
from towpath.streams.stream_view import stream_view

if TYPE_CHECKING:
    from nats.aio.client import Client

LOOK_S = 15.0
STALE_S = 30.0

assert LOOK_S + STALE_S + 2 * DEAD_LINK_S < DUPLICATE_WINDOW_S


@dataclass
class SharedOutput:
    """One run's knowledge of what the other has stored in an output stream."""

    site: str
    stream: str
    clock: Callable[[], float] = seconds_since_boot
    stored: StoredIds | None = None
    """Ids of the results since the stream was shared; None while it has not been."""
    is_shared: bool = False
    _looked_s: float | None = None

    @property
    def is_stale(self) -> bool:
        """True if too much time has passed since the last look to send anything."""
        return self._looked_s is None or self.clock() > self._looked_s + STALE_S

    async def look(self, connection: Client) -> None:
        """Find out if another run publishes here, and read what it has stored.

        Raises `TimeoutError` when the site does not answer.
        """
        at_s = self.clock()
        if not self.is_shared and self._looked_s is not None and at_s < self._looked_s + LOOK_S:
            return
        view = await stream_view(connection, self.site, self.stream)
        was_shared, is_shared = self.is_shared, view is not None and len(view.epochs) > 1
        if view is not None and is_shared and self.stored is None:
            after, _ = overlap_range(view.metadata.get(OVERLAP, ""))
            self.stored = StoredIds(connection, self.site, {self.stream: after})
        if self.stored is not None and (was_shared or is_shared):
            # Once more after the end: no one else adds to them any more.
            await self.stored.read(connection)
        self.is_shared, self._looked_s = is_shared, at_s
