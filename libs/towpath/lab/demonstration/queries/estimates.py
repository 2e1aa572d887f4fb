"""Judge estimates: how many are within the promised error, and how many intervals hold the truth."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from towpath.checker.observation import ReceivedMessage
from towpath.lab.demonstration.queries.report import EstimateReport
from towpath.lab.demonstration.queries.texts import ESTIMATED
from towpath.lab.harness.answers import expected_identity, judge_answers
from towpath.lab.harness.report import Judgement
from towpath.queries.meaning import Query
from towpath.queries.reference import Answer

ROUNDING = 1e-9
"""Relative: an interval of one point holds a value that was rounded otherwise."""


def judge_estimates(
    query: Query, expected: Sequence[Answer], seen: Sequence[ReceivedMessage]
) -> EstimateReport:
    """Judge the answers of one query. Each must come exactly once; its value may be off."""
    assert query.options.max_error is not None
    assert query.options.confidence is not None
    truth = {expected_identity(answer): answer.value for answer in expected}
    within, covered, sampled = [], [], []
    for each in seen:
        true = truth.get(each.identity)
        if isinstance(true, float | int):
            values = each.body["values"]
            within.append(abs(values["value"] - true) <= query.options.max_error * abs(true))
            slack = ROUNDING * abs(true)
            covered.append(values["low"] - slack <= true <= values["high"] + slack)
            sampled.append(values["sampled"])
    return EstimateReport(
        query=query.name,
        text=ESTIMATED,
        judgement=Judgement.of(judge_answers(expected, seen, estimated=True)),
        max_error=query.options.max_error,
        confidence=query.options.confidence,
        within=_share(within),
        covered=_share(covered),
        sampled=_share(sampled),
    )


def _share(found: Sequence[float]) -> float:
    return round(fmean(found), 4) if found else 0.0
