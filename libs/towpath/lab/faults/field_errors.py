"""Says where a rule or an action's parameters are wrong after pydantic, and what is allowed there."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from towpath.contracts.errors import ErrorCode, ErrorDetail, TowpathError
from towpath.contracts.faults import AtPoint, DataPoint, OnTarget, Rule, RuleAction, TargetKind, Where

Location = tuple[int | str, ...]

_EVENTS: Mapping[str, type[BaseModel]] = {"point": AtPoint, "target": OnTarget}
_CHOICES: Mapping[Location, type[StrEnum]] = {
    ("event", "point"): DataPoint,
    ("event", "target"): TargetKind,
}


def field_errors(
    error: ValidationError, document: Any, around: Location = (), model: type[BaseModel] = Rule
) -> list[ErrorDetail]:
    """Return all that is wrong with a document of this model, which stands at `around`: one error a field."""
    found: dict[str | None, ErrorDetail] = {}
    for problem in error.errors(include_url=False):
        detail = _of_field(problem, document, around, model)
        found.setdefault(detail.field, detail)
    return [*found.values()]


def refusal(errors: list[ErrorDetail]) -> TowpathError:
    """Return the first error, with all of them in `detail.errors`."""
    return TowpathError.of(errors[0].model_copy(update={"errors": errors}))


def _of_field(problem: ErrorDetails, document: Any, around: Location, model: type[BaseModel]) -> ErrorDetail:
    kind, context = problem["type"], problem.get("ctx") or {}
    place = _location(problem["loc"], document, missing=kind == "missing")
    message = problem["msg"].removeprefix("Value error, ")
    allowed: str | list[str] | None = context.get("expected") or context.get("pattern")
    value = problem.get("input")
    if not isinstance(value, str | int | float | bool | None):
        value = None
    if kind == "extra_forbidden":
        known = _fields_at(place[:-1], document, model)
        message, value, allowed = "there is no such field", str(place[-1]), known or "no fields"
    elif kind == "missing":
        message = "this field is missing"
    elif kind == "string_type":
        allowed = "a text (in YAML, put it in quotes)"
    elif model is Rule and place in _CHOICES:
        message, allowed = f"there is no such {place[-1]}", [choice.value for choice in _CHOICES[place]]
    elif kind == "no_event":
        allowed = [*_EVENTS]
    path = ".".join(map(str, (*around, *place)))
    return ErrorDetail(
        code=ErrorCode.INVALID, message=message, field=path or None, value=value, allowed=allowed
    )


def _location(location: Location, document: Any, *, missing: bool) -> Location:
    """Where the document has what pydantic calls `location`: that also names the kind of an event."""
    parts: list[int | str] = []
    node = document
    for number, part in enumerate(location):
        if _has(node, part):
            node = node[part]
        elif not (missing and number == len(location) - 1):
            continue
        parts.append(part)
    return tuple(parts)


def _has(node: Any, part: int | str) -> bool:
    if isinstance(node, dict):
        return part in node
    return isinstance(node, list) and isinstance(part, int) and part < len(node)


def _fields_at(location: Location, document: Any, model: type[BaseModel]) -> list[str]:
    """Names of the fields that the model has at a place."""
    if model is Rule:
        match location:
            case ("event",):
                given = document["event"]
                model = next((model for kind, model in _EVENTS.items() if kind in given), AtPoint)
            case ("where",):
                model = Where
            case ("actions", _):
                model = RuleAction
    return [*model.model_fields]
