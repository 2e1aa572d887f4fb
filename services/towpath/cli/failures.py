"""The errors that a run ends with. Some are caused by the user's input."""

from __future__ import annotations

from nats.errors import Error as NatsError
from pydantic import ValidationError

from towpath.cli.endings import BAD_INPUT, FAILED
from towpath.contracts.errors import ErrorCode, TowpathError

INPUT_CODES = frozenset(
    {
        ErrorCode.INVALID,
        ErrorCode.UNKNOWN_SITE,
        ErrorCode.UNKNOWN_JOB,
        ErrorCode.UNKNOWN_TOPIC,
        ErrorCode.UNKNOWN_OPERATOR,
        ErrorCode.UNKNOWN_COMMAND,
        ErrorCode.UNKNOWN_MIGRATION,
        ErrorCode.UNKNOWN_PIPELINE,
        ErrorCode.UNKNOWN_PLAN,
        ErrorCode.UNKNOWN_TRACE,
        ErrorCode.UNKNOWN_DECISION,
        ErrorCode.UNKNOWN_WINDOW,
        ErrorCode.SCHEMA_MISMATCH,
        ErrorCode.NAME_IN_USE,
        ErrorCode.ALREADY_THERE,
        ErrorCode.NOT_ALLOWED,
    }
)
"""Errors that the user's input causes: repeating the command cannot help."""


def failure_of(error: Exception) -> TowpathError | None:
    """Return the error in our terms; None for one that only a mistake of ours can raise."""
    if isinstance(error, ValidationError):
        return TowpathError.of_validation(error)
    if isinstance(error, NatsError):
        return TowpathError(ErrorCode.UNREACHABLE, f"the hub does not serve this now: {error}", field="hub")
    return error if isinstance(error, TowpathError) else None


def exit_code(error: TowpathError) -> int:
    """Return 2 when the input is wrong, 1 when something failed."""
    return BAD_INPUT if error.detail.code in INPUT_CODES else FAILED
