"""Checks a rule for any mesh: its fields, its condition, its faults and their parameters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import ValidationError

from towpath.contracts.errors import ErrorCode, ErrorDetail, TowpathError
from towpath.contracts.faults import AtPoint, OnTarget, Rule, RuleAction, RuleEvent, Where
from towpath.expressions import place_of
from towpath.lab.faults.conditions import Expression, compile_condition
from towpath.lab.faults.field_errors import field_errors, refusal
from towpath.lab.faults.registry import kind_of_event
from towpath.lab.faults.rule_actions import kind_of, parameters_of, values_of
from towpath.lab.faults.vocabulary import names_at


def rule_of(document: Any) -> Rule:
    """Return the rule that plain data describe.

    Raises `TowpathError` (invalid) with all that is wrong with its fields in `detail.errors`.
    """
    try:
        return Rule.model_validate(document)
    except ValidationError as error:
        raise refusal(field_errors(error, document)) from None


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
        parameters_of(action, kind_of(action, kind_of_event(event), field), field)
    except TowpathError as error:
        return error.detail.errors or [error.detail]
    values = values_of(action, field)
    return [error for place, value in values for error in _unknown_names(event, value, place)]
