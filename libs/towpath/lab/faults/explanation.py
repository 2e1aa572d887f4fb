"""Says in sentences what a rule would do."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from towpath.contracts.faults import AtPoint, OnTarget, Rule, RuleAction
from towpath.lab.faults.registry import faults
from towpath.lab.faults.vocabulary import POINT_DESCRIPTIONS
from towpath.lab.faults.world import World, looking_processes


def explain(rule: Rule, world: World) -> str:
    """Return the rule in sentences, one per line: when and if what, what is done, for how long, and where."""
    done = [f"{number}. {_action(action)}." for number, action in enumerate(rule.actions, 1)]
    return "\n".join([_when(rule), *done, _until(rule), *_where(rule, world)])


def _when(rule: Rule) -> str:
    parts = [_event(rule)]
    if rule.every is not None and rule.every > 1:
        parts.append(f"every {_ordinal(rule.every)} time")
    if rule.probability is not None:
        parts.append(f"with probability {rule.probability:g}")
    if rule.condition.strip() != "true":
        parts.append(f"if {rule.condition.strip()}")
    if rule.once:
        parts.append("once in each process")
    return f"{', '.join(parts)}:"


def _ordinal(n: int) -> str:
    """1st, 2nd, 3rd, 4th, 11th…"""
    ending = "th" if n // 10 % 10 == 1 else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n:,}{ending}"


def _event(rule: Rule) -> str:
    match rule.event:
        case AtPoint(point=point):
            of_job = f" of job {rule.where.job}" if rule.where.job else ""
            return f"Whenever {POINT_DESCRIPTIONS[point].passing}{of_job} ({point.value})"
        case OnTarget(target=kind, name=name):
            return f"About four times a second, for the {kind.value} {name}"


def _action(action: RuleAction) -> str:
    kind = faults().get(action.fault)
    parameters = ", ".join(f"{name} = {json.dumps(value)}" for name, value in action.parameters.items())
    told = f"{action.fault} ({parameters})" if parameters else action.fault
    return f"{told}: {kind.meaning().rstrip('.')}" if kind is not None else told


def _until(rule: Rule) -> str:
    if rule.for_s is None:
        return "It stays until it is unloaded."
    return f"It unloads itself after {rule.for_s:g} s."


def _where(rule: Rule, world: World) -> list[str]:
    """Where it counts, and which processes look at it, as far as names tell."""
    if isinstance(rule.event, OnTarget):
        return []
    where, processes = rule.where, looking_processes(rule, world)
    restrictions = [
        f"{what} {value}"
        for what, value in (
            ("at", where.site),
            ("in process", where.process),
            ("in Spark's executor", where.worker),
        )
        if value is not None
    ]
    counts = f"It counts only {_listed(restrictions)}" if restrictions else "It counts everywhere"
    number = "1 process looks" if len(processes) == 1 else f"{len(processes)} processes look"
    return [f"{counts}; {number} at it now{f': {_listed(processes)}' if processes else ''}."]


def _listed(names: Iterable[str]) -> str:
    each: Sequence[str] = [*names]
    return " and ".join([", ".join(each[:-1]), each[-1]]) if len(each) > 1 else "".join(each)
