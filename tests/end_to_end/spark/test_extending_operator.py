"""The operator that `docs/extending/operator.md` adds computes what it says there."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from running.operator_examples import EVENTS
from running.operator_page import EXAMPLE, add_operator
from running.operator_plans import CHECKS
from running.operators import assigned, computed, messages


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
def test_operator_of_the_page_when_it_computes_then_does_what_it_says(
    session: SparkSession, monkeypatch: pytest.MonkeyPatch, check: Callable
) -> None:
    added = add_operator(monkeypatch)
    check(session, added, added.model.model_validate(EXAMPLE))


def test_operator_of_the_page_when_it_grades_then_counts_the_limits_that_are_reached(
    session: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = add_operator(monkeypatch).model.model_validate(EXAMPLE)
    outcome = computed(assigned(operator), messages(session, *EVENTS, {"carrier": "AA"}))
    assert [values["grade"] for values in outcome.values] == [1, 1, 2, 3, 0]
