"""Turn messages into decisions: one method per command of the monitor."""

from __future__ import annotations

from towpath.bus import Bus
from towpath.contracts.monitor import AwaitConsistency, Consistent, StartMonitor, StopMonitor
from towpath.contracts.reply import Done
from towpath.monitor.comparisons import Comparisons


class MonitorHandlers:
    """Answers the monitor's commands."""

    def __init__(self, comparisons: Comparisons) -> None:
        self._comparisons = comparisons

    async def serve(self, bus: Bus) -> None:
        """Subscribe to all commands."""
        await bus.serve(StartMonitor, self.start)
        await bus.serve(AwaitConsistency, self.await_consistency)
        await bus.serve(StopMonitor, self.stop)

    async def start(self, command: StartMonitor) -> Done:
        """Begin the operation's comparison if it does not run."""
        self._comparisons.ensure(command.operation, command.watch)
        return Done()

    async def await_consistency(self, command: AwaitConsistency) -> Consistent:
        """Begin the comparison if it does not run, and wait until the runs are consistent."""
        comparison = self._comparisons.ensure(command.operation, command.watch)
        return await comparison.consistent(command.within_s)

    async def stop(self, command: StopMonitor) -> Done:
        """End the operation's comparison."""
        return Done(note="" if await self._comparisons.stop(command.operation) else "nothing was compared")
