"""The clock of operations. Tests replace it and need not wait."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime
from typing import Protocol

from towpath.contracts.message import now


class Clock(Protocol):
    """Tells the time and waits."""

    def now(self) -> datetime:
        """Return the time for records, UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds since some moment, for deadlines."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now(self) -> datetime:
        """See `Clock.now`."""
        return now()

    def monotonic(self) -> float:
        """See `Clock.monotonic`."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait without blocking."""
        await asyncio.sleep(seconds)
