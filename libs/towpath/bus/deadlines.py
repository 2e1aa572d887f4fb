"""Deadlines of commands: one that is accepted after its sender stopped waiting would surprise everyone.

A command may wait in its receiver, for example while the registry is away. So it bears the time that its
sender waits, as a duration: clocks of two machines may differ. The receiver counts from the arrival, with a
clock that goes on while the machine sleeps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from towpath.boot_clock import seconds_since_boot
from towpath.contracts.errors import ErrorCode, TowpathError

WAITS_HEADER = "Towpath-Waits-S"
"""Seconds that the sender of a command waits for its answer."""

UNTOLD_S = 60.0
"""The same for a command that does not tell: people publish them with other tools."""

_due: ContextVar[float | None] = ContextVar("due", default=None)


def waiting(seconds: float) -> dict[str, str]:
    """Return the header of a command whose sender waits so long."""
    return {WAITS_HEADER: f"{seconds:.3f}"}


@contextmanager
def counting(headers: Mapping[str, str] | None) -> Iterator[None]:
    """Count down for the command that has just arrived with these headers."""
    try:
        seconds = float((headers or {}).get(WAITS_HEADER, UNTOLD_S))
    except ValueError:
        seconds = UNTOLD_S
    token = _due.set(seconds_since_boot() + seconds)
    try:
        yield
    finally:
        _due.reset(token)


def check_in_time() -> None:
    """Raise `TowpathError` (deadline) if the sender of the command under way has stopped waiting."""
    due = _due.get()
    if due is not None and (late_s := seconds_since_boot() - due) > 0:
        raise TowpathError(
            ErrorCode.DEADLINE,
            f"the command waited here {late_s:.1f} s longer than its sender; nothing was done",
        )


def keep_no_deadline() -> None:
    """Let the present task, begun by a command, forget the command's deadline."""
    _due.set(None)
