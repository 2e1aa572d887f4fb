"""What a rule wants to know of the whole mesh, to be told with the rule."""

from __future__ import annotations

from pydantic import ValidationError

from towpath.contracts.faults import Rule
from towpath.faults.conditions import compile_condition
from towpath.faults.registry import faults


def asked_by(rule: Rule) -> frozenset[str]:
    """What the condition and the actions ask for, such as `cpu_percent(jfk)`. Raises `TowpathError` when the
    condition cannot be read."""
    asked = compile_condition(rule.condition).shared
    for action in rule.actions:
        kind = faults().get(action.fault)
        if kind is not None:
            try:
                asked |= kind.asks(kind.Parameters.model_validate(action.parameters))
            except ValidationError:
                continue  # Whoever loads the rule says so; who carries it out counts it as an error.
    return asked
