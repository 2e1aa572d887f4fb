"""Collect all that is wrong, and all that is doubtful, in one document."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from towpath.composition.paths import in_brackets
from towpath.composition.violations import all_at_once
from towpath.contracts.errors import ErrorCode, ErrorDetail
from towpath.contracts.plan import PlanWarning

Path = tuple[str | int, ...]
"""Place in a document."""


@dataclass
class Findings:
    """Errors and warnings, each with its place."""

    errors: list[ErrorDetail] = field(default_factory=list)
    warnings: list[PlanWarning] = field(default_factory=list)

    def refuse(
        self,
        path: Path | str,
        message: str,
        value: Any = None,
        allowed: str | list[str] | None = None,
        code: ErrorCode = ErrorCode.INVALID,
    ) -> None:
        """Record an error."""
        error = ErrorDetail(code=code, message=message, field=_text(path), value=value, allowed=allowed)
        self.errors.append(error)

    def warn(self, path: Path | str, message: str, value: Any = None, read_as: Any = None) -> None:
        """Record a warning."""
        self.warnings.append(PlanWarning(field=_text(path), message=message, value=value, read_as=read_as))

    def raise_errors(self, what: str = "the plan") -> None:
        """Raise `TowpathError` with all errors, each with the closest allowed name, if there are any."""
        if self.errors:
            raise all_at_once([error.suggesting() for error in self.errors], what)


def _text(path: Path | str) -> str:
    return path if isinstance(path, str) else in_brackets(path)
