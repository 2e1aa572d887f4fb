"""Limits of what an uplink may send: windows, bytes per window and month, bytes per second.

Bytes are on the disk as spent before they are sent, in steps. So a restart never forgets any of them, and
counts at most one step too much.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from towpath.atomic_write import write_atomically
from towpath.contracts.uplink import UplinkSpec, UplinkState
from towpath.uplinks.windows import Opening, next_opening, open_at

STEPS = 100
"""Steps of a budget that are written down: a restart costs at most a hundredth of it."""

CLOCK_IS_SET = "2026-01"
"""Month before which no device can have this version: its clock is not set, and begins in 1970 or so."""

MOST_AHEAD = 2
"""Months that a clock may go back. The bytes of the later month are then spent on."""

BURST_S = 1.0
"""An uplink that was silent may catch up with so much of its rate at once."""


class Spent(msgspec.Struct):
    """Bytes of the present month and window."""

    month: str = ""
    in_month: int = 0
    window: str = ""
    """Beginning of the window."""
    in_window: int = 0


class Spending:
    """Bytes that one uplink has spent, in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._spent = _read(path)
        self._written = msgspec.structs.replace(self._spent)

    @property
    def spent(self) -> Spent:
        """Return what is spent. Do not change it."""
        return self._spent

    def at(self, moment: datetime, opening: Opening | None) -> Spent:
        """Return what is spent of the month and the window of a moment."""
        month = f"{moment.astimezone(UTC):%Y-%m}"
        if _is_new(month, self._spent.month, month):
            self._spent = msgspec.structs.replace(self._spent, month=month, in_month=0)
        window = "" if opening is None else opening.begin.astimezone(UTC).isoformat()
        if _is_new(window, self._spent.window, month):
            self._spent = msgspec.structs.replace(self._spent, window=window, in_window=0)
        return self._spent

    def spend(self, size: int, step: int) -> None:
        """Count bytes. Blocks until they are on the disk, now and then. If that fails, none is counted."""
        spent, written = _more(self._spent, size), self._written
        same = (written.month, written.window) == (spent.month, spent.window)
        if not same or spent.in_month > written.in_month or spent.in_window > written.in_window:
            ahead = _more(spent, step)
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self._path, msgspec.json.encode(ahead))
            self._written = ahead
        self._spent = spent

    def forget(self) -> None:
        """Delete the file."""
        self._path.unlink(missing_ok=True)


def _more(spent: Spent, size: int) -> Spent:
    return msgspec.structs.replace(spent, in_month=spent.in_month + size, in_window=spent.in_window + size)


def _is_new(present: str, recorded: str, month: str) -> bool:
    """Tell if the bytes of a recorded month or window say nothing of the present one.

    With a clock that has gone back, those of the later one are spent on. But one that is far ahead of the
    present `month` was recorded by a wrong clock, and would be spent on for years.
    """
    if not present or not recorded or present > recorded:
        return present > recorded
    return month >= CLOCK_IS_SET and _months(recorded) - _months(month) > MOST_AHEAD


def _months(label: str) -> int:
    return 12 * int(label[:4]) + int(label[5:7])


def _read(path: Path) -> Spent:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Spent)
    except FileNotFoundError:
        return Spent()


@dataclass(frozen=True)
class Allowed:
    """Bytes that may be sent at a moment."""

    bytes: int
    """Left of the budgets. Nothing may go beyond."""
    at_once: int = 2**62
    """Left of the rate. The last event may go beyond."""
    state: UplinkState = UplinkState.SENDING
    opens_at: datetime | None = None


UNLIMITED = 2**62


class Allowance:
    """The limits of one uplink."""

    def __init__(self, spec: UplinkSpec, account: Spending) -> None:
        self._spec = spec
        self._account = account
        self._tokens = 0.0 if spec.rate is None else spec.rate * BURST_S
        self._filled_at: float | None = None

    @property
    def spent(self) -> Spent:
        """Return what is spent."""
        return self._account.spent

    def at(self, moment: datetime, monotonic: float) -> Allowed:
        """Return what may be sent now."""
        spec, opening = self._spec, None
        if spec.windows:
            opening = open_at(spec.windows, spec.timezone, moment)
            if opening is None:
                opens_at = next_opening(spec.windows, spec.timezone, moment)
                return Allowed(0, state=UplinkState.WINDOW, opens_at=opens_at)
        spent = self._account.at(moment, opening)
        left = UNLIMITED
        if spec.bytes_per_month is not None:
            left = min(left, spec.bytes_per_month - spent.in_month)
        if spec.bytes_per_window is not None:
            left = min(left, spec.bytes_per_window - spent.in_window)
        if left <= 0:
            return Allowed(0, state=UplinkState.BUDGET)
        return Allowed(left, at_once=self._fill(monotonic))

    def spend(self, size: int) -> None:
        """Count bytes that are about to be sent. Blocks for a moment."""
        if self._spec.bytes_per_month is not None or self._spec.bytes_per_window is not None:
            budgets = [b for b in (self._spec.bytes_per_month, self._spec.bytes_per_window) if b is not None]
            self._account.spend(size, min(budgets) // STEPS)
        self._tokens -= size

    def _fill(self, monotonic: float) -> int:
        """Return the bytes that the rate allows now."""
        if self._spec.rate is None:
            return UNLIMITED
        since = 0.0 if self._filled_at is None else max(0.0, monotonic - self._filled_at)
        self._filled_at = monotonic
        self._tokens = min(self._tokens + since * self._spec.rate, self._spec.rate * BURST_S)
        return max(0, int(self._tokens))
