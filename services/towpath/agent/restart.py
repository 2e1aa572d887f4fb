"""End the agent when it is asked to: its supervisor then starts the version that is installed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime

from towpath.contracts.reply import Done
from towpath.contracts.upgrade import RestartAgent

ANSWER_S = 0.5
"""Time for an answer to leave before the site's server ends."""


class Restart:
    """Answers `RestartAgent`."""

    def __init__(self, begun_at: datetime, end: Callable[[], None]) -> None:
        self._begun_at = begun_at
        self._end = end

    async def restart(self, command: RestartAgent) -> Done:
        """See `RestartAgent`."""
        if command.begun_at != self._begun_at:
            return Done(note="another agent was meant, which has ended")
        asyncio.get_running_loop().call_later(ANSWER_S, self._end)
        return Done()
