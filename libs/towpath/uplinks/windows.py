"""Windows in which a link may be used. Pure: the time is an argument."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from towpath.contracts.uplink import UplinkWindow


@dataclass(frozen=True)
class Opening:
    """One time in which a window is open: `begin` ≤ t < `end`."""

    begin: datetime
    end: datetime


def open_at(windows: Sequence[UplinkWindow], timezone: str, at: datetime) -> Opening | None:
    """Return the opening at a time; None if there is none. Of several, the one that lasts longest."""
    found = (_opening(window, timezone, at) for window in windows)
    now_open = [each for each in found if each is not None and each.begin <= at < each.end]
    return max(now_open, key=lambda each: each.end, default=None)


def next_opening(windows: Sequence[UplinkWindow], timezone: str, at: datetime) -> datetime | None:
    """Return when the next window opens after a time; None if none does."""
    begins = (_next_begin(window, timezone, at) for window in windows)
    return min((begin for begin in begins if begin is not None), default=None)


def _opening(window: UplinkWindow, timezone: str, at: datetime) -> Opening | None:
    """Return the last opening that began up to a time."""
    if window.opens is not None and window.closes is not None:
        return Opening(window.opens, window.closes)
    from cronsim import CronSim  # Few processes need it.

    assert window.cron is not None
    assert window.duration_s is not None
    # The search goes backwards from a whole minute, and leaves that minute out.
    local = (at + timedelta(minutes=1)).astimezone(ZoneInfo(timezone))
    begin = next(CronSim(window.cron, local.replace(second=0, microsecond=0), reverse=True), None)
    if begin is None:
        return None
    begin = begin.astimezone(UTC)
    return Opening(begin, begin + timedelta(seconds=window.duration_s))


def _next_begin(window: UplinkWindow, timezone: str, at: datetime) -> datetime | None:
    if window.opens is not None:
        return window.opens if window.opens > at else None
    from cronsim import CronSim

    assert window.cron is not None
    begin = next(CronSim(window.cron, at.astimezone(ZoneInfo(timezone))), None)
    return None if begin is None else begin.astimezone(UTC)
