"""The actions of a rule: their faults, their parameters, and the expressions in rule and parameters."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from random import Random

from pydantic import BaseModel, ValidationError

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.faults import Rule, RuleAction
from towpath.lab.faults.conditions import Expression, compile_condition, compile_value
from towpath.lab.faults.field_errors import field_errors, refusal
from towpath.lab.faults.registry import Fault, faults


def made(action: RuleAction, applied_to: str, random: Random, field: str = "actions") -> Fault:
    """Return the fault of an action. Raises `TowpathError` that names the parameter that is wrong."""
    kind = kind_of(action, applied_to, field)
    return kind(parameters_of(action, kind, field), random)


def parameters_of(action: RuleAction, kind: type[Fault], field: str) -> BaseModel:
    """Return the parameters of an action, which stands at `field`.

    Raises `TowpathError` with all that is wrong with them in `detail.errors`.
    """
    try:
        return kind.parameters_type.model_validate(action.parameters)
    except ValidationError as error:
        around = (*field.split("."), "parameters")
        raise refusal(field_errors(error, action.parameters, around, kind.parameters_type)) from error
    except TowpathError as error:
        # An expression in a parameter: the error says what is wrong with it, and not where it stands.
        place = _field_of(error.detail.value, action, field)
        raise TowpathError.of(error.detail.model_copy(update={"field": place})) from error


def kind_of(action: RuleAction, applied_to: str, field: str = "actions") -> type[Fault]:
    """Return the class of an action's fault. Raises `TowpathError` if such an event has no such fault."""
    kind = faults().get(action.fault)
    if kind is None or applied_to not in kind.applies_to:
        raise TowpathError(
            ErrorCode.INVALID,
            "there is no such fault" if kind is None else f"a {applied_to} cannot have this fault",
            field=f"{field}.fault",
            value=action.fault,
            allowed=[name for name, each in faults().items() if applied_to in each.applies_to],
        )
    return kind


def asked_by(rule: Rule) -> frozenset[str]:
    """Return the figures of the mesh that condition and actions ask for, such as `cpu_percent(jfk)`.

    Raises `TowpathError` when the condition cannot be read. Wrong actions are refused at loading, or
    counted as an error where they are carried out.
    """
    asked = compile_condition(rule.condition).shared
    return asked.union(*(expression.shared for _, expression in expressions_of(rule)))


def expressions_of(rule: Rule) -> Iterator[tuple[str, Expression]]:
    """Yield field and expression of each. Those that cannot be read are left out."""
    with contextlib.suppress(TowpathError):
        yield "condition", compile_condition(rule.condition)
    for place, action in enumerate(rule.actions):
        yield from values_of(action, f"actions.{place}")


def values_of(action: RuleAction, field: str) -> Iterator[tuple[str, Expression]]:
    """Yield those of one action, which stands at `field`. There are none if its parameters are wrong."""
    kind = faults().get(action.fault)
    if kind is None:
        return
    with contextlib.suppress(TowpathError):
        for text in dict.fromkeys(kind.expressions(parameters_of(action, kind, field))):
            yield _field_of(text, action, field), compile_value(text)


def _field_of(text: object, action: RuleAction, field: str) -> str:
    """Return the parameter that holds a text, of the action that stands at `field`."""
    holder = next((name for name, given in action.parameters.items() if str(text) in str(given)), "")
    return f"{field}.parameters.{holder}".removesuffix(".")
