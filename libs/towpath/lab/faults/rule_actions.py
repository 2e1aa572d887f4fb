"""The expressions of a rule: its condition, and those among the parameters of its actions."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from towpath.contracts.errors import TowpathError
from towpath.contracts.faults import Rule, RuleAction
from towpath.lab.faults.conditions import Expression, compile_condition, compile_value
from towpath.lab.faults.registry import Fault, faults


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
    for kind, parameters in _read(action):
        for text in dict.fromkeys(kind.expressions(parameters)):
            yield field_of(text, action, field), compile_value(text)


def field_of(text: object, action: RuleAction, field: str) -> str:
    """Return the parameter that holds a text, of the action that stands at `field`."""
    holder = next((name for name, given in action.parameters.items() if str(text) in str(given)), "")
    return f"{field}.parameters.{holder}".removesuffix(".")


def _read(action: RuleAction) -> Iterator[tuple[type[Fault], Any]]:
    """The action's fault and parameters, if there are such."""
    kind = faults().get(action.fault)
    if kind is not None:
        with contextlib.suppress(ValidationError, TowpathError):
            yield kind, kind.parameters_type.model_validate(action.parameters)
