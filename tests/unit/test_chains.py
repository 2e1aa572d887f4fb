"""Chains: which steps may stand where, and what a change of the steps leaves of the state."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from running.operator_facts import job
from towpath.composition.job_changes import is_state_compatible
from towpath.contracts.job import EXAMPLE_SPEC, JobSpec
from towpath.contracts.operators import Chain, Operator, plain_operator
from towpath.operators.kind import kind_of, user_code, with_code_at

FIELDS = {"k": "string", "v": "double", "at": "timestamp"}
CLEAN = {"kind": "clean", "fields": {name: {"type": kind} for name, kind in FIELDS.items()}}
FILTER = {"kind": "filter", "fields": FIELDS, "where": "v > 0"}
WINDOW = {
    "kind": "window",
    "fields": FIELDS,
    "event_time": "at",
    "watermark_s": 1,
    "size_s": 10,
    "key": ["k"],
    "aggregates": {"total": {"function": "sum", "field": "v"}},
}
ALERT = {"kind": "filter", "fields": {"total": "double"}, "where": "total > 100"}
PYTHON = {"kind": "python", "fields": FIELDS, "entry": "own_code:run"}


def operator(body: dict[str, Any]) -> Operator:
    return TypeAdapter[Operator](Operator).validate_python(body)


def chain(*steps: dict[str, Any]) -> Chain:
    return Chain.model_validate({"steps": list(steps)})


def kept(old: Operator, new: Operator) -> bool:
    return is_state_compatible(job(old), job(new))


def test_names_of_steps_when_not_given_then_are_their_kinds_with_a_number_for_repeated_ones() -> None:
    steps = chain(FILTER, {**CLEAN, "name": "positive"}, WINDOW, {**ALERT, "name": "window"}, ALERT)

    assert steps.step_names == ["filter", "positive", "window-3", "window", "filter-5"]


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([], "at least 1 item"),
        ([{**CLEAN, "name": "a"}, {**FILTER, "name": "a"}], "two steps have one name"),
        ([FILTER, FILTER, {**CLEAN, "name": "filter-2"}], "two steps have one name"),
        ([WINDOW, WINDOW], "at most one window step"),
        ([PYTHON, PYTHON], "at most one python step"),
        ([{**CLEAN, "identity": ["k"]}, FILTER, WINDOW], "would count repetitions"),
        ([FILTER, {"kind": "python", "entry": "own_code:run"}], "needs fields"),
        ([WINDOW, PYTHON], "needs an identity"),
        ([{"kind": "forward"}], "does not match any of the expected tags"),
        ([{"kind": "chain", "steps": [FILTER]}], "does not match any of the expected tags"),
    ],
)
def test_chain_when_a_step_cannot_stand_where_it_does_then_is_refused(
    steps: list[dict[str, Any]], message: str
) -> None:
    with pytest.raises(ValidationError, match=message):
        chain(*steps)


def test_operator_when_it_is_no_step_then_has_no_name() -> None:
    with pytest.raises(ValidationError, match="only the steps of a chain have names"):
        JobSpec.model_validate({**EXAMPLE_SPEC, "operator": {**FILTER, "name": "positive"}})


def test_chain_when_written_without_defaults_then_reads_back_as_the_same() -> None:
    steps = chain(CLEAN, {**FILTER, "name": "positive"}, WINDOW)

    assert operator(plain_operator(steps)) == steps


def test_chain_when_asked_for_fields_then_reads_those_of_its_first_step_and_writes_those_of_its_last() -> (
    None
):
    steps = chain(FILTER, WINDOW, ALERT)

    assert [*kind_of(steps).reads(steps)] == ["k", "v", "at"]
    assert kind_of(steps).writes(steps) == {"total": "double"}


@pytest.mark.parametrize(
    ("old", "new", "keeps"),
    [
        (operator(WINDOW), chain(CLEAN, WINDOW), True),
        (chain(CLEAN, WINDOW), chain(FILTER, {**WINDOW, "name": "sums"}, ALERT), True),
        (chain(CLEAN, WINDOW), operator(WINDOW), True),
        (chain(CLEAN, WINDOW), chain(CLEAN, {**WINDOW, "size_s": 20}), False),
        (chain(CLEAN, WINDOW), chain(CLEAN), False),
        (chain(PYTHON, WINDOW), chain(WINDOW), False),
        (chain(CLEAN), chain(CLEAN, FILTER), True),
    ],
)
def test_state_when_steps_change_then_is_kept_if_the_step_that_keeps_it_is_the_same(
    old: Operator, new: Operator, keeps: bool
) -> None:
    assert kept(old, new) is keeps


def test_chain_when_a_step_gives_other_results_in_every_run_then_it_names_the_step() -> None:
    steps = chain(CLEAN, {**PYTHON, "name": "model"})

    reason = kind_of(steps).nondeterminism(steps)

    assert reason is not None
    assert reason.startswith("step model: user code may give other results")


def test_code_of_a_step_when_it_is_put_elsewhere_then_the_chain_names_the_new_place() -> None:
    steps = chain(CLEAN, {**PYTHON, "artefact": "code"}, FILTER)

    moved = with_code_at(steps, "/kept/code.zip")

    code = user_code(moved)
    assert code is not None
    assert (code.artefact, code.entry) == ("/kept/code.zip", "own_code:run")
    assert moved == chain(CLEAN, {**PYTHON, "artefact": "/kept/code.zip"}, FILTER)
