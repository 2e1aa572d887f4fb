"""The operator that `docs/extending/operator.md` adds says what it says there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import pytest
from pydantic import Field, TypeAdapter, ValidationError

from running.operator_facts import CHECKS, job
from running.operator_page import EXAMPLE, add_operator
from towpath.contracts.commands import StrategyName
from towpath.contracts.operators import Operator
from towpath.operators.kind import OperatorKind
from towpath.protocols.choice import choose


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> OperatorKind[Any]:
    return add_operator(monkeypatch)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
def test_operator_of_the_page_when_asked_then_its_facts_fit_together(
    added: OperatorKind[Any], check: Callable
) -> None:
    check(added, added.model.model_validate(EXAMPLE))


def test_operator_of_the_page_when_it_is_in_the_union_then_is_read_by_its_kind(
    added: OperatorKind[Any],
) -> None:
    wire = TypeAdapter(Annotated[Operator | added.model, Field(discriminator="kind")])
    assert type(wire.validate_python(EXAMPLE)) is added.model
    assert wire.json_schema()["discriminator"]["mapping"]["grade"] == "#/$defs/Grade"
    with pytest.raises(ValidationError, match="'speed' is not among the fields"):
        wire.validate_python({**EXAMPLE, "of": "speed"})


def test_operator_of_the_page_when_its_job_moves_then_it_is_handed_over(added: OperatorKind[Any]) -> None:
    assert choose(job(added.model.model_validate(EXAMPLE)), StrategyName.AUTO)[0].name == "handover"
