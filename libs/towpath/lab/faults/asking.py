"""What a rule wants to know of the whole mesh, to be told with the rule."""

from __future__ import annotations

from towpath.contracts.faults import Rule
from towpath.lab.faults.conditions import compile_condition
from towpath.lab.faults.rule_expressions import expressions_of


def asked_by(rule: Rule) -> frozenset[str]:
    """What the condition and the actions ask for, such as `cpu_percent(jfk)`. Raises `TowpathError` when the
    condition cannot be read."""
    asked = compile_condition(rule.condition).shared
    # What is wrong with actions, whoever loads the rule says; who carries it out counts it as an error.
    return asked.union(*(expression.shared for _, expression in expressions_of(rule)))
