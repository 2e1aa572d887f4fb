"""Time as operations see it, so that tests need not wait for it."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime
from typing import Protocol

from towpath.contracts.message import now


class Clock(Protocol):
    """Time, so that tests need not wait for it."""

    def now(self) -> datetime:
        """What is written down."""
        ...

    def monotonic(self) -> float:
        """What deadlines are measured with, seconds."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now(self) -> datetime:
        """UTC."""
        return now()

    def monotonic(self) -> float:
        """Seconds since some moment."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait without blocking."""
        await asyncio.sleep(seconds)
