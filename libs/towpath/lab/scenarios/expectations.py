"""Compare a run with the expectations of its scenario: pure."""

from __future__ import annotations

from collections.abc import Iterator

from towpath.contracts.commands import OperationState
from towpath.contracts.scenario_expectations import ANY, Bounds, Deviation, Expectations, MoveEnd
from towpath.lab.harness.report import FINDINGS
from towpath.lab.scenarios.report import RunReport

_ENDS = {
    MoveEnd.COMPLETED: {OperationState.COMPLETED},
    MoveEnd.WELL: {OperationState.COMPLETED, OperationState.ROLLED_BACK},
    MoveEnd.ANY: {*OperationState},
}


def unmet(expect: Expectations, run: RunReport) -> Iterator[str]:
    """Yield in words what was not as expected."""
    yield from _findings(expect, run)
    yield from _steadiness(expect, run)
    yield from _results_again(expect, run)
    for move in run.migrations:
        if move.state not in _ENDS[expect.migrations]:
            ended = f"ended as {move.state}" if move.state else "did not end"
            yield f"the {move.kind} of {move.job} {ended}{f': {move.note}' if move.note else ''}"
    if expect.rules_act:
        idle = [rule.rule for rule in run.rules if not rule.acted]
        yield from (f"the rule {name} never acted" for name in idle)
    for rule in run.rules:
        if rule.errors:
            yield f"the rule {rule.rule} failed {rule.errors} times: {rule.last_error}"


def _findings(expect: Expectations, run: RunReport) -> Iterator[str]:
    if not any(verdict.expected for verdict in run.verdicts.values()) and not any(run.findings.values()):
        said = expect.model_fields_set.intersection(FINDINGS)
        asked = [each for each in FINDINGS if each in said and getattr(expect, each) != ANY]
        if asked:
            yield f"no results could be judged, so no one knows what was {' or '.join(asked)}"
        return
    for finding in FINDINGS:
        bounds: Bounds = getattr(expect, finding)
        count = run.total(finding)
        if bounds.hold(count):
            continue
        examples = [text for v in run.verdicts.values() for text in v.examples.get(finding, ())][:2]
        example = f", e.g. {'; '.join(examples)}" if examples else ""
        yield f"{count} results {finding.replace('_', ' ')}, expected {described(bounds)}{example}"


def _steadiness(expect: Expectations, run: RunReport) -> Iterator[str]:
    if expect.deviates is Deviation.MUST and not run.deviated:
        yield "steady state was never left"
    if expect.deviates is Deviation.MUST_NOT and run.deviated:
        yield f"steady state was left: {', '.join(sorted(run.deviated))}"
    if run.recovered_s is None:
        yield f"steady state did not come back: {', '.join(sorted(run.deviated)) or 'never there'}"
    elif expect.recovers_within_s is not None and run.recovered_s > expect.recovers_within_s:
        yield (
            f"steady state came back after {run.recovered_s:.1f} s, expected {expect.recovers_within_s:g} s"
        )


def _results_again(expect: Expectations, run: RunReport) -> Iterator[str]:
    within_s, took_s = expect.results_again_within_s, run.results_again_s
    if within_s is not None and (took_s is None or took_s > within_s):
        took = "did not flow again" if took_s is None else f"flowed again after {took_s:.1f} s"
        yield f"results {took}, expected {within_s:g} s"


def described(bounds: Bounds) -> str:
    """Return bounds in words."""
    if bounds.at_most is None:
        return f"{bounds.at_least} or more"
    if bounds.at_least == bounds.at_most:
        return str(bounds.at_most)
    return f"{bounds.at_least} to {bounds.at_most}"
