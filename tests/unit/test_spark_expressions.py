"""The contracts refuse Spark SQL that reaches beyond its event, without Spark."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from running.refused_expressions import FIELDS, PASSED, REFUSED
from towpath.contracts.errors import TowpathError
from towpath.contracts.operators import Filter, Map
from towpath.contracts.spark_expressions import ALLOWED, CALLABLE, CHANGING, refusal

EARLY = [text for text, layer in REFUSED.items() if layer != "engine"]


@pytest.mark.parametrize("text", EARLY)
def test_filter_when_its_condition_reaches_beyond_the_event_then_the_error_names_field_value_and_allowed(
    text: str,
) -> None:
    with pytest.raises(ValidationError) as refused:
        Filter.model_validate({"fields": FIELDS, "where": text})

    detail = TowpathError.of_validation(refused.value).detail
    assert (detail.field, detail.value, detail.allowed) == ("where", text, ALLOWED)
    assert "{" not in detail.message.replace("'${'", "")


@pytest.mark.parametrize("text", PASSED)
def test_filter_when_its_condition_is_a_function_of_the_event_then_it_passes(text: str) -> None:
    assert Filter.model_validate({"fields": FIELDS, "where": text}).where == text


def test_map_when_one_expression_is_refused_then_the_error_names_the_new_field() -> None:
    with pytest.raises(ValidationError) as refused:
        Map.model_validate({"fields": FIELDS, "select": {"good": "a", "bad": "uuid()"}})

    detail = TowpathError.of_validation(refused.value).detail
    assert detail.field == "select.bad"
    assert "would have two results" in detail.message


@pytest.mark.parametrize("text", ["'open", "a $ 1", "a; b", "a {x}", "a \\ b", "`open"])
def test_refusal_when_a_text_cannot_be_read_then_it_says_where(text: str) -> None:
    assert "cannot be read" in (refusal(text) or "")


def test_refusal_when_a_function_is_misspelt_then_the_closest_one_is_named() -> None:
    assert (refusal("uper(s)") or "").endswith("did you mean 'upper'?")


def test_refusal_when_a_field_has_the_name_of_a_word_of_sql_then_the_field_is_meant() -> None:
    assert refusal("table > 1 and current_user = 'x'", frozenset({"table", "current_user"})) is None
    assert refusal("table > 1") is not None


def test_functions_when_they_change_each_time_then_none_is_allowed() -> None:
    assert not CALLABLE & CHANGING
