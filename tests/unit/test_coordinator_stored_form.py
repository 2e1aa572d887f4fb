"""Jobs and operations in the registry are read as they were written, and hold no defaults."""

from __future__ import annotations

import json
from typing import Any

import pytest
from operation_trial import OPERATIONS, entry, operation

from running.operator_examples import EXAMPLES
from towpath.contracts.job import JobSpec
from towpath.coordinator.registry.stored_form import entry_text, record_text
from towpath.operators.kind import kinds
from towpath.protocols.record import JobEntry, OperationRecord


def job_with(kind: str) -> JobEntry:
    body = {
        "name": "counts",
        "site": "jfk",
        "inputs": [{"site": "jfk", "topic": "site/x", "start": 0}],
        "output": {"topic": "y"},
        "operator": {"kind": kind, **EXAMPLES[kind]},
    }
    return entry().model_copy(update={"spec": JobSpec.model_validate(body)})


@pytest.mark.parametrize("kind", sorted(kinds()))
def test_job_when_kept_then_the_same_job_is_read(kind: str) -> None:
    job = job_with(kind)
    assert JobEntry.model_validate_json(entry_text(job)) == job


@pytest.mark.parametrize("changes", [{"running": False}, {"used_epoch": 7, "generation": 3, "pipeline": "p"}])
def test_job_when_it_differs_from_the_defaults_then_that_is_kept(changes: dict[str, Any]) -> None:
    job = entry().model_copy(update=changes)
    assert JobEntry.model_validate_json(entry_text(job)) == job


def test_job_when_kept_then_defaults_are_left_out_and_what_scripts_look_at_is_there() -> None:
    body = json.loads(entry_text(job_with("forward")))
    assert body["epoch"] == 1
    assert not {"used_epoch", "generation", "artefact", "closed", "running"} & body.keys()
    assert body["spec"]["operator"] == {"kind": "forward"}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operation_when_kept_then_the_same_operation_is_read(name: str) -> None:
    record = operation(name).model_copy(
        update={"begun": ("stop-job",), "facts": {"stop-job": {"batch": None}}}
    )
    assert OperationRecord.model_validate_json(record_text(record)) == record
