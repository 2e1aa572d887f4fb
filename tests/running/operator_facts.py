"""Check what a kind of operator says about itself, without Spark. Every kind passes these checks."""

from __future__ import annotations

import importlib
import re
from types import SimpleNamespace
from typing import Any

import pytest

from towpath.composition.job_changes import is_state_compatible
from towpath.composition.schemas import ResultFields, check_fields
from towpath.contracts.commands import StrategyName
from towpath.contracts.errors import TowpathError
from towpath.contracts.job import EXAMPLE_SPEC, JobSpec
from towpath.contracts.operators import FieldType, Filter, Operator
from towpath.operators.kind import PACKAGE, OperatorKind, keeps_state, kind_of
from towpath.protocols.choice import choose

FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def job(operator: Operator, name: str = "job", topic: str = "topic", **changes: Any) -> JobSpec:
    """A job that computes this, also where the operator is not on the wire."""
    body = {
        **EXAMPLE_SPEC,
        "name": name,
        "inputs": [{"site": "jfk", "topic": topic}],
        "output": {"topic": f"{name}/results"},
    }
    return JobSpec.model_validate({**body, **changes}).model_copy(update={"operator": operator})


def check_registration(kind: OperatorKind[Any], operator: Operator) -> None:
    """Its file is named like it, and its model is found by what stands on the wire."""
    assert kind_of(operator) is kind
    assert isinstance(operator, kind.model)
    assert kind.model.model_validate_json(operator.model_dump_json()) == operator
    assert importlib.import_module(f"{PACKAGE}.{kind.name}").__doc__.startswith(f"The `{kind.name}` operator")


def check_field_names(kind: OperatorKind[Any], operator: Operator) -> None:
    """Its inputs and outputs are fields. One that passes events on has no outputs of its own."""
    reads, writes = kind.reads(operator), kind.writes(operator)
    assert all(FIELD.fullmatch(name) for name in [*reads, *(writes or {})])
    assert {*reads.values()} <= {*FieldType}
    assert {*(writes or {}).values()} <= {*FieldType, None}
    if kind.passes_on:
        assert (reads, writes) == ({}, None)


def check_readers(kind: OperatorKind[Any], operator: Operator) -> None:
    """A job may read the fields that it writes, and no others."""
    writer = job(operator)
    known = {"job": SimpleNamespace(spec=writer)}
    written = ResultFields({writer.name: writer}).of(writer.name) or {}
    for name, type_ in written.items():
        wanted = Filter(fields={name: type_ or FieldType.STRING}, where="true")
        check_fields(job(wanted, "reader", writer.output.topic), known)
    unknown = job(Filter(fields={"unheard_of": FieldType.LONG}, where="true"), "reader", writer.output.topic)
    if written:
        with pytest.raises(TowpathError, match="does not write"):
            check_fields(unknown, known)
    else:
        check_fields(unknown, known)


def check_state(kind: OperatorKind[Any], operator: Operator) -> None:
    """State survives what does not concern the computation; what keeps none survives everything."""
    assert is_state_compatible(job(operator), job(operator, trigger_s=7.0, max_events_per_batch=5))
    stateless = Filter(fields={"a": FieldType.LONG}, where="a > 0")
    assert is_state_compatible(job(operator), job(stateless)) is not keeps_state(operator)
    assert keeps_state(operator) or not kind.watermarked(operator)


def check_batches(kind: OperatorKind[Any], operator: Operator) -> None:
    """Only results that cover a micro-batch say how micro-batches are cut, and none of them is repeatable."""
    asks = kind.batch_s(operator) is not None or kind.batch_events(operator) is not None
    assert kind.covers_batches or not asks
    if kind.covers_batches:
        assert not keeps_state(operator)
        assert kind.nondeterminism(operator) is not None


def check_strategies(kind: OperatorKind[Any], operator: Operator) -> None:
    """`auto` runs a job at two sites at once only where both publish the same, or a monitor joins them."""
    chosen, reason = choose(job(operator), StrategyName.AUTO)
    assert reason
    assert not (keeps_state(operator) and chosen.loses_state)
    if kind.covers_batches:
        assert chosen.name == StrategyName.PARALLEL
    elif kind.nondeterminism(operator) is not None:
        assert chosen.name == StrategyName.GENERAL


CHECKS = (
    check_registration,
    check_field_names,
    check_readers,
    check_state,
    check_batches,
    check_strategies,
)
