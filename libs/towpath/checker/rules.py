"""The rules by name, and the one call that judges results by them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from towpath.checker import rules_events, rules_groups
from towpath.checker.expectation import Expectation
from towpath.checker.history import History, Line, inputs_of, results_of
from towpath.checker.identity import RESULT
from towpath.checker.judging import judge_history
from towpath.checker.records import PLAIN, Marks
from towpath.checker.rule import PipelineRule, Terms
from towpath.checker.verdict import Leniency, Verdict
from towpath.contracts.errors import ErrorCode, TowpathError

RULES: dict[str, PipelineRule] = {**rules_events.RULES, **rules_groups.RULES}
"""Name → rule."""


@dataclass(frozen=True)
class NamedLines:
    """Lines, and the name of their source for error messages."""

    name: str
    lines: Iterable[Line]


def rule_called(name: str, terms: Terms) -> PipelineRule:
    """Return the rule of that name. Raises `TowpathError` (invalid): no such rule, or a term is missing."""
    rule = RULES.get(name)
    if rule is None:
        raise TowpathError.unknown("rule", name, sorted(RULES))
    needs = [*rule.needs, *(["time_field"] if terms.size_s is not None else [])]
    for need in needs:
        if getattr(terms, need) in (None, ()):
            raise TowpathError(
                ErrorCode.INVALID, f"{name} needs it", field=need, value="nothing", allowed=_ALLOWED[need]
            )
    if terms.size_s is not None and not terms.size_s >= 1e-6:
        raise TowpathError(
            ErrorCode.INVALID, "not a length", field="size_s", value=terms.size_s, allowed=_ALLOWED["size_s"]
        )
    return rule


_ALLOWED = {
    "time_field": "a field of the events",
    "value_field": "a field of the events",
    "size_s": "seconds, above 0",
    "key": "fields of the events",
    "where": "a condition such as delay > 15",
}


def judge_by_rule(
    name: str,
    terms: Terms,
    events: NamedLines,
    output: NamedLines,
    marks: Marks = PLAIN,
    leniency: Leniency | None = None,
    log: NamedLines | None = None,
) -> Verdict:
    """Judge `output` by the results that the rule derives from `events`.

    `log` has the stored results, to tell unseen from lost ones. Raises `TowpathError` (invalid) for a rule, a
    line or a field that cannot be used. A line of `output` that is no JSON object is no bad input, but an
    unexpected result.
    """
    rule = rule_called(name, terms)
    beside = (*terms.key, *terms.identity) if rule.of_events(terms) is None else ()
    fed = inputs_of(events.lines, events.name, rule.of_events(terms), beside=beside)
    fields = rule.of_results(terms)
    results = results_of(output.lines, output.name, fields, marks, beside=beside)
    stored = None if log is None else results_of(log.lines, log.name, fields, marks, beside=beside)
    return judge_history(rule.expected(terms, fed, results), results, leniency, stored)


def judge_by_truth(
    terms: Terms,
    truth: NamedLines,
    output: NamedLines,
    marks: Marks = PLAIN,
    leniency: Leniency | None = None,
    log: NamedLines | None = None,
) -> Verdict:
    """Judge `output` by the results in `truth`: each must come as often as it is there.

    A result is known by the fields of `terms.identity` and `terms.key`. Without these, a result of Towpath is
    known by its window, key or serial number, and any other by all its fields. The order within a key is that
    of `truth`. Raises `TowpathError` (invalid) as `judge_by_rule` does.
    """
    asked = (*terms.key, *terms.identity) if terms.identity else ()
    wanted = inputs_of(
        truth.lines, truth.name, beside=(*terms.key, *(asked or (RESULT,))), field="truth", identified=True
    )
    expectation = _given(terms, wanted)
    beside = (*terms.key, *(asked or expectation.identity))

    def read(source: NamedLines) -> History:
        return results_of(source.lines, source.name, None, marks, beside=beside, identified=True)

    return judge_history(expectation, read(output), leniency, None if log is None else read(log))


def _given(terms: Terms, truth: History) -> Expectation:
    columns = truth.table.columns
    if terms.identity:
        known_by = (*terms.key, *terms.identity)
    else:
        known_by = (RESULT,) if truth.table.has(RESULT) else tuple(truth.table.present())
    identity = {name: truth.column(name) for name in known_by}
    rows = np.arange(len(truth))
    return Expectation(
        len(truth),
        identity,
        {name: columns[name] for name in truth.table.present() if name not in identity},
        complete=True,
        order=truth.alike(terms.key) if terms.key else None,
        position=rows,
    )
