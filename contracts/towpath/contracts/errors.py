"""Typed errors: the same detail on NATS, REST and the command line.

Every error says which field, which value, and what would have been allowed. Services raise
`TowpathError`; the bus turns it into a structured reply and the client raises it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any

from pydantic import ValidationError

from towpath.contracts.message import Model


class ErrorCode(StrEnum):
    """Code of an error, for programs. The text beside it is for people."""

    INVALID = "invalid"
    """The message or file does not have the form it must have."""
    UNKNOWN_SITE = "unknown_site"
    UNKNOWN_JOB = "unknown_job"
    UNKNOWN_TOPIC = "unknown_topic"
    UNKNOWN_OPERATOR = "unknown_operator"
    UNKNOWN_COMMAND = "unknown_command"
    UNKNOWN_MIGRATION = "unknown_migration"
    UNKNOWN_PIPELINE = "unknown_pipeline"
    UNKNOWN_PLAN = "unknown_plan"
    UNKNOWN_TRACE = "unknown_trace"
    UNKNOWN_DECISION = "unknown_decision"
    UNKNOWN_WINDOW = "unknown_window"
    UNAUTHORISED = "unauthorised"
    """No token, or none that is valid now."""
    FORBIDDEN = "forbidden"
    """The token is valid, and its role does not allow this."""
    SCHEMA_MISMATCH = "schema_mismatch"
    """A job asks its input for a field, or a type, that the input does not have."""
    NAME_IN_USE = "name_in_use"
    ALREADY_THERE = "already_there"
    """A migration to the site where the job already runs."""
    SITE_DOWN = "site_down"
    BUSY = "busy"
    """Another operation on the same job is under way."""
    NOT_ALLOWED = "not_allowed"
    """Understood, but refused: for example a live change of a stateful operator's window."""
    EVENTS_LOST = "events_lost"
    """A job fell behind the retention of its input: the serial numbers named are gone."""
    FENCED = "fenced"
    """A writer of an older epoch tried to publish."""
    DEADLINE = "deadline"
    """The other party did not answer in time."""
    UNREACHABLE = "unreachable"
    """No one listens where the message was sent."""
    FAILED = "failed"
    """It was tried and did not work; the text says why."""


RETRYABLE = frozenset({ErrorCode.DEADLINE, ErrorCode.UNREACHABLE, ErrorCode.SITE_DOWN, ErrorCode.BUSY})


UNKNOWN = {
    "site": ErrorCode.UNKNOWN_SITE,
    "node": ErrorCode.UNKNOWN_SITE,
    "job": ErrorCode.UNKNOWN_JOB,
    "pipeline": ErrorCode.UNKNOWN_PIPELINE,
    "plan": ErrorCode.UNKNOWN_PLAN,
    "decision": ErrorCode.UNKNOWN_DECISION,
    "window": ErrorCode.UNKNOWN_WINDOW,
    "command": ErrorCode.UNKNOWN_COMMAND,
    "broadcast": ErrorCode.UNKNOWN_COMMAND,
}
"""Kind of thing → code of the error that there is none of this name; all others are invalid."""


class ErrorDetail(Model):
    """One error: what is wrong, where, and what is allowed."""

    code: ErrorCode
    message: str
    """One line for people."""
    field: str | None = None
    """Path of the offending field, for example `operator.size_s` or `inputs.0.site`."""
    value: Any = None
    """The value given there."""
    allowed: str | list[str] | None = None
    """The values allowed there."""
    errors: list[ErrorDetail] = []
    """All that is wrong, where more than one thing was looked for, such as in a pipeline."""

    @property
    def retryable(self) -> bool:
        """True if the same request may succeed later."""
        return self.code in RETRYABLE

    def one_line(self) -> str:
        """Return everything on one line, as the command line prints it, with the closest allowed name."""
        parts = [self.message]
        if self.field is not None:
            parts.append(f"field {self.field}" + (f" = {self.value!r}" if self.value is not None else ""))
        if self.allowed is not None:
            allowed = self.allowed if isinstance(self.allowed, str) else ", ".join(self.allowed) or "(none)"
            parts.append(f"allowed: {allowed}")
        if close := self._closest():
            parts.append(f"did you mean {close!r}?")
        return "; ".join(parts)

    def suggesting(self) -> ErrorDetail:
        """Return the error with the closest allowed name in its message, and so with the errors inside."""
        close = self._closest()
        message = f"{self.message}; did you mean {close!r}?" if close else self.message
        return self.model_copy(
            update={"message": message, "errors": [error.suggesting() for error in self.errors]}
        )

    def _closest(self) -> str | None:
        """Return the allowed name that is most like the given one, unless the message already names one."""
        if (
            not isinstance(self.value, str)
            or not isinstance(self.allowed, list)
            or self.value in self.allowed
        ):
            return None
        if "did you mean" in self.message:
            return None
        return closest(self.value, self.allowed)


def closest(given: str, known: Iterable[str]) -> str | None:
    """Return the known word that is most like the given one; None when none is like it."""
    import difflib  # Here, as most processes never meet an error.

    return next(iter(difflib.get_close_matches(given, [*known], n=1)), None)


class TowpathError(Exception):
    """Root of all errors of Towpath. Carries the detail that goes over the wire."""

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        *,
        field: str | None = None,
        value: Any = None,
        allowed: str | list[str] | None = None,
        errors: Sequence[ErrorDetail] = (),
    ) -> None:
        self.detail = ErrorDetail(
            code=code, message=message, field=field, value=value, allowed=allowed, errors=[*errors]
        )
        super().__init__(self.detail.one_line())

    @classmethod
    def unknown(cls, kind: str, name: str, known: Iterable[str], *, field: str | None = None) -> TowpathError:
        """Return the error for a name that is none of those known. `field` is the kind, unless given."""
        code = UNKNOWN.get(kind, ErrorCode.INVALID)
        return cls(code, f"no such {kind}", field=field or kind, value=name, allowed=[*known])

    @classmethod
    def of(cls, detail: ErrorDetail) -> TowpathError:
        """Return the exception for a received detail."""
        return cls(
            detail.code,
            detail.message,
            field=detail.field,
            value=detail.value,
            allowed=detail.allowed,
            errors=detail.errors,
        )

    @classmethod
    def of_validation(cls, error: ValidationError, code: ErrorCode = ErrorCode.INVALID) -> TowpathError:
        """Return the first problem that pydantic found, as an error of Towpath."""
        first = error.errors(include_url=False)[0]
        location = ".".join(str(part) for part in first["loc"])
        context = first.get("ctx") or {}
        kind = first["type"]
        allowed = context.get("expected") or context.get("expected_tags") or context.get("pattern")
        if kind == "union_tag_invalid" and "operator" in location:
            code = ErrorCode.UNKNOWN_OPERATOR
        value = first.get("input")
        if isinstance(value, dict | list) or not isinstance(value, str | int | float | bool | None):
            value = None
        return cls(code, first["msg"], field=location or None, value=value, allowed=allowed)
