"""Checks a rule for any mesh: its fields, its condition, its faults and their parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ValidationError

from towpath.contracts.errors import ErrorCode, ErrorDetail, TowpathError
from towpath.contracts.faults import (
    AtPoint,
    DataPoint,
    OnTarget,
    Rule,
    RuleAction,
    RuleEvent,
    TargetKind,
    Where,
)
from towpath.expressions import place_of
from towpath.lab.faults.conditions import Expression, compile_condition
from towpath.lab.faults.registry import POINT, kind_of
from towpath.lab.faults.rule_expressions import field_of, values_of
from towpath.lab.faults.vocabulary import names_at

Location = tuple[int | str, ...]

_EVENTS: Mapping[str, type[BaseModel]] = {"point": AtPoint, "target": OnTarget}
_CHOICES: Mapping[Location, type[StrEnum]] = {
    ("event", "point"): DataPoint,
    ("event", "target"): TargetKind,
}


def rule_of(document: Any) -> Rule:
    """Return the rule that plain data describe.

    Raises `TowpathError` (invalid) with all that is wrong with its fields in `detail.errors`.
    """
    try:
        return Rule.model_validate(document)
    except ValidationError as error:
        found: dict[str | None, ErrorDetail] = {}
        for problem in error.errors(include_url=False):
            detail = _of_field(problem, document)
            found.setdefault(detail.field, detail)
        raise TowpathError.of(_first([*found.values()])) from None


def form_problems(rule: Rule) -> list[ErrorDetail]:
    """Return all that is wrong with a rule whose fields are right, for any mesh."""
    found: list[ErrorDetail] = []
    try:
        found.extend(_unknown_names(rule.event, compile_condition(rule.condition), "condition"))
    except TowpathError as error:
        found.append(error.detail)
    found.extend(_of_where(rule))
    for place, action in enumerate(rule.actions):
        found.extend(_of_action(action, rule.event, f"actions.{place}"))
    return found


def kind_of_event(event: RuleEvent) -> str:
    """Return the kind by which faults say what they apply to: `point`, or a kind of target."""
    match event:
        case AtPoint():
            return POINT
        case _:
            return event.target.value


def misnamed(
    what: str, field: str, value: str, known: Sequence[str], code: ErrorCode = ErrorCode.INVALID
) -> ErrorDetail:
    """Return the error that something of this name does not exist, with what does."""
    return ErrorDetail(code=code, message=what, field=field, value=value, allowed=[*known])


def _unknown_names(event: RuleEvent, expression: Expression, field: str) -> Iterator[ErrorDetail]:
    offered = names_at(event)
    for name in sorted(expression.names - offered.keys()):
        what = f"{place_of(name, expression.text)}: {_place(event)} offers no `{name}`"
        yield misnamed(what, field, name, sorted(offered))


def _place(event: RuleEvent) -> str:
    match event:
        case AtPoint(point=point):
            return f"the point {point.value}"
        case _:
            return f"a {event.target.value}"


def _of_where(rule: Rule) -> Iterator[ErrorDetail]:
    """Restrictions that would keep the rule from ever being looked at, or be ignored."""
    event, where = rule.event, rule.where
    useless: dict[str, str | None] = {}
    if isinstance(event, OnTarget):
        useless = {"process": where.process, "job": where.job, "worker": where.worker}
    elif "job" not in names_at(event):
        useless = {"job": where.job}
    for name, value in useless.items():
        if value is not None:
            yield ErrorDetail(
                code=ErrorCode.INVALID,
                message=f"{_place(event)} does not know its {name}",
                field=f"where.{name}",
                value=value,
                allowed=[each for each in Where.model_fields if each not in useless],
            )


def _of_action(action: RuleAction, event: RuleEvent, field: str) -> list[ErrorDetail]:
    try:
        kind = kind_of(action, kind_of_event(event), field)
    except TowpathError as error:
        return [error.detail]
    try:
        kind.parameters_type.model_validate(action.parameters)
    except ValidationError as error:
        return [
            _of_field(problem, action.parameters, (*field.split("."), "parameters"), kind.parameters_type)
            for problem in error.errors(include_url=False)
        ]
    except TowpathError as error:
        # An expression in a parameter: the error says what is wrong with it, and not where it stands.
        return [error.detail.model_copy(update={"field": field_of(error.detail.value, action, field)})]
    values = values_of(action, field)
    return [error for place, value in values for error in _unknown_names(event, value, place)]


def _first(errors: list[ErrorDetail]) -> ErrorDetail:
    return errors[0].model_copy(update={"errors": errors})


def _of_field(
    problem: Mapping[str, Any], document: Any, around: Location = (), model: type[BaseModel] = Rule
) -> ErrorDetail:
    """Return what pydantic found in a document as an error of Towpath."""
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
