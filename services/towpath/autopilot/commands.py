"""Answer what people ask the autopilot."""

from __future__ import annotations

from itertools import islice

from towpath.autopilot.memory import Memory
from towpath.autopilot.pilot import Pilot
from towpath.autopilot.settings import AutopilotSettings
from towpath.bus import Bus
from towpath.contracts.autopilot import (
    AnnounceWindow,
    ApproveDecision,
    AutopilotStatus,
    Decision,
    RefuseDecision,
    ShowAutopilot,
    SiteWindow,
    WithdrawWindow,
)
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import now


class AutopilotCommands:
    """Serves the commands of the autopilot."""

    def __init__(self, settings: AutopilotSettings, memory: Memory, pilot: Pilot) -> None:
        self._settings = settings
        self._memory = memory
        self._pilot = pilot

    async def serve(self, bus: Bus) -> None:
        """Serve until the bus is closed."""
        await bus.serve(ShowAutopilot, self.show)
        await bus.serve(AnnounceWindow, self.announce)
        await bus.serve(WithdrawWindow, self.withdraw)
        await bus.serve(ApproveDecision, self.approve)
        await bus.serve(RefuseDecision, self.refuse)

    async def show(self, command: ShowAutopilot) -> AutopilotStatus:
        """Return settings, windows and the newest decisions."""
        spec = self._settings.spec
        return AutopilotStatus(
            mode=spec.mode,
            policy=spec.policy,
            latency_s=spec.latency_s,
            looked=self._pilot.looked,
            trouble=self._pilot.trouble,
            windows=self._memory.windows(),
            decisions=[*islice(reversed(self._memory.decisions.values()), command.limit)],
        )

    async def announce(self, command: AnnounceWindow) -> SiteWindow:
        """Remember a window. Raises `TowpathError`: an unknown site, or a window that has ended."""
        known = [site.name for site in self._settings.sites()]
        if command.site not in known:
            raise TowpathError.unknown("site", command.site, known)
        if command.ends <= now():
            raise TowpathError(
                ErrorCode.INVALID,
                "the window has ended",
                field="ends",
                value=command.ends.isoformat(),
                allowed=f"later than {now().isoformat()}",
            )
        window = SiteWindow.model_validate(
            {**command.model_dump(exclude={"id", "asked_by"}), "window": command.id}
        )
        await self._memory.change_window(window)
        return window

    async def withdraw(self, command: WithdrawWindow) -> SiteWindow:
        """Forget a window. Raises `TowpathError` if there is none."""
        windows = {window.window: window for window in self._memory.windows()}
        if command.window not in windows:
            raise TowpathError.unknown("window", command.window, windows)
        await self._memory.change_window(windows[command.window], withdrawn=True)
        return windows[command.window]

    async def approve(self, command: ApproveDecision) -> Decision:
        """Carry out a decision. Raises `TowpathError`."""
        return await self._pilot.approve(command.decision, command.asked_by)

    async def refuse(self, command: RefuseDecision) -> Decision:
        """Forbid a decision. Raises `TowpathError`."""
        return await self._pilot.refuse(command.decision, command.asked_by)
