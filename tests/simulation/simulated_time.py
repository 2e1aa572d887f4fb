"""An event loop whose time passes as soon as all tasks wait: sleeps cost nothing, and are exact."""

from __future__ import annotations

import asyncio
import math
import selectors
from collections.abc import Coroutine
from typing import Any


class SimulatedLoop(asyncio.SelectorEventLoop):
    """A loop whose time begins at 0. No task may wait for a socket, a process or a thread."""

    def __init__(self) -> None:
        self.now_s = 0.0
        super().__init__(_Leaping(self))
        self._clock_resolution = (
            0.0  # Timers are never early: code that looks at the clock then would wait again.
        )

    def time(self) -> float:
        return self.now_s

    def stand_still(self, seconds: float) -> None:
        """Let time pass in which no task runs, as on a busy machine."""
        self.now_s += seconds


class _Leaping(selectors.SelectSelector):
    """Instead of waiting, it puts the loop's clock forward."""

    def __init__(self, loop: SimulatedLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout is None:
            raise AssertionError("all tasks wait for an event that no task will cause")
        # A timer fires after its time, not at it: so the clock goes on by a trifle at least.
        later_s = self._loop.now_s + (0.0 if ready else timeout or 0.0)
        self._loop.now_s = max(later_s, math.nextafter(self._loop.now_s, math.inf))
        return ready


def simulated(scenario: Coroutine[Any, Any, None]) -> None:
    """Run a scenario in simulated time."""
    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        runner.run(scenario)


def now_s() -> float:
    """The simulated time."""
    return asyncio.get_running_loop().time()
