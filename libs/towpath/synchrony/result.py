"""Results that the thesis's monitor receives and forwards (ch. 6): counts of events, by serial number."""

from __future__ import annotations

from dataclasses import dataclass

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.migration import Role


@dataclass(frozen=True, slots=True)
class ResultEvent:
    """The result of one closed window, `origin[serial, value]` in the thesis.

    Raises `TowpathError` if the window could not exist.
    """

    origin: Role
    """The operator that computed it."""
    serial: int
    """Serial number of the newest event in the window."""
    value: int
    """Number of events in the window. Windows without events have no result."""

    def __post_init__(self) -> None:
        at_least("serial", self.serial, 1)
        at_least("value", self.value, 1)


@dataclass(frozen=True, slots=True)
class Forwarded:
    """One output of the algorithms: a result that goes on to the subscribers."""

    result: ResultEvent
    """The result that subscribers get."""
    arrived: ResultEvent
    """The result as the monitor received it. It equals `result` unless it had to be altered."""


def at_least(field: str, value: int, least: int) -> None:
    """Raise `TowpathError` if a number is smaller than allowed."""
    if value < least:
        raise TowpathError(
            ErrorCode.INVALID, "the number is too small", field=field, value=value, allowed=f"{least} or more"
        )
