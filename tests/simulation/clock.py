"""Time that passes only when a task sleeps."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class SimulatedClock:
    """Time that passes only when a task sleeps."""

    elapsed_s: float = 0.0

    def now(self) -> datetime:
        """See `Clock.now`."""
        return BEGINNING + timedelta(seconds=self.elapsed_s)

    def monotonic(self) -> float:
        """See `Clock.monotonic`."""
        return self.elapsed_s

    async def sleep(self, seconds: float) -> None:
        """Let the time pass and return at once."""
        self.elapsed_s += seconds
