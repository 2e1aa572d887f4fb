"""Fault rules, and what they are made of, as people see them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

from rich.table import Table

from towpath.cli.output import clock, print_table, table_of
from towpath.contracts.fault_commands import (
    Explanation,
    FaultCatalogue,
    FaultDescription,
    FaultParameter,
    RuleView,
)
from towpath.contracts.faults import AtPoint, Rule

COLUMNS = ("rule", "version", "event", "condition", "does", "where", "until", "looked", "acted", "errors")


class Part(StrEnum):
    """A part of the catalogue."""

    POINTS = "points"
    TARGETS = "targets"
    FAULTS = "faults"
    FUNCTIONS = "functions"


def print_rules(rules: Sequence[RuleView]) -> None:
    """Print all rules as a table, and below it what went wrong with them."""
    print_table(COLUMNS, [_row(view) for view in rules], nothing="no rules are loaded")
    for view in rules:
        if view.count.last_error:
            print(f"{view.rule.name}: {view.count.last_error}")


def rule_table(rules: Sequence[RuleView]) -> Table:
    """Return all rules as a table for a live display."""
    return table_of(COLUMNS, map(_row, rules))


def print_explanation(explanation: Explanation) -> None:
    """Print what a rule would do, and which processes would look at it."""
    print(f"{explanation.rule}: {explanation.text}")
    print(f"At this moment that is about: {', '.join(explanation.processes) or 'no process'}.\n")


def print_catalogue(catalogue: FaultCatalogue, part: Part | None) -> None:
    """Print everything that rules can be made of, or one part of it."""
    if part in (None, Part.POINTS):
        _print_words("point", catalogue.points)
    if part in (None, Part.TARGETS):
        there_are = {kind: ", ".join(names) or "none" for kind, names in catalogue.targets.items()}
        _print_words("target", there_are)
    if part in (None, Part.FAULTS):
        rows = [row for fault in catalogue.faults for row in _fault_rows(fault)]
        print_table(("fault", "for, or type", "meaning"), rows, nothing="no faults")
        print()
    if part in (None, Part.FUNCTIONS):
        _print_words("in conditions", catalogue.functions)


def event_of(rule: Rule) -> str:
    """Return the event in few words: `operator.event`, `process jfk-engine`."""
    match rule.event:
        case AtPoint(point=point):
            return point.value
        case target:
            return f"{target.target.value} {target.name}"


def condition_of(rule: Rule) -> str:
    """Return the condition, with what decides before and after it: `every 1000, event.delay > 15.0, once`."""
    parts = [
        f"every {rule.every}" if rule.every is not None else "",
        f"probability {rule.probability:g}" if rule.probability is not None else "",
        rule.condition if rule.condition != "true" else "",
        "once" if rule.once else "",
    ]
    return ", ".join(part for part in parts if part) or "true"


def _row(view: RuleView) -> tuple[object, ...]:
    where = [f"{scope} (away)" if scope in view.unreached else scope for scope in view.scopes]
    return (
        view.rule.name,
        view.version,
        event_of(view.rule),
        condition_of(view.rule),
        ", ".join(action.fault for action in view.rule.actions),
        ", ".join(where),
        clock(view.until),
        f"{view.count.looked:,}",
        f"{view.count.acted:,}",
        f"{view.count.errors:,}",
    )


def _fault_rows(fault: FaultDescription) -> list[tuple[object, ...]]:
    head = (fault.name, ", ".join(fault.applies_to), fault.meaning)
    return [head, *((f"  {each.name}", _type(each), each.meaning) for each in fault.parameters)]


def _type(parameter: FaultParameter) -> str:
    default = "" if parameter.required or parameter.default is None else f" = {parameter.default}"
    return f"{parameter.type}{default}"


def _print_words(title: str, words: Mapping[str, str]) -> None:
    print_table(
        (title, "meaning"), [(word, " ".join(text.split())) for word, text in words.items()], nothing="none"
    )
    print()
