"""The changes that a running query can take."""

from __future__ import annotations

from typing import Any

import pytest

from towpath.contracts.job import JobSpec
from towpath.operators.live_changes import is_live

SPEC: dict[str, Any] = {
    "name": "job",
    "site": "jfk",
    "inputs": [{"site": "jfk", "topic": "site/a"}],
    "output": {"topic": "out"},
    "operator": {"kind": "forward"},
    "max_events_per_batch": 100,
}


def job(**changes: Any) -> JobSpec:
    return JobSpec.model_validate({**SPEC, **changes})


@pytest.mark.parametrize("bound", [50, 5000, None])
def test_change_when_only_the_bound_of_micro_batches_is_another_then_is_live(bound: int | None) -> None:
    assert is_live(job(), job(max_events_per_batch=bound))
    assert is_live(job(max_events_per_batch=bound), job())


def test_change_when_there_is_none_then_is_not_live() -> None:
    assert not is_live(job(), job())


@pytest.mark.parametrize(
    "changes",
    [
        {"trigger_s": 5.0},
        {"output": {"topic": "elsewhere"}},
        {"inputs": [{"site": "jfk", "topic": "site/b"}]},
        {"operator": {"kind": "filter", "fields": {"v": "double"}, "where": "v > 1"}},
        {"site": "cloud"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_change_when_of_anything_else_too_then_is_not_live(changes: dict[str, Any]) -> None:
    assert not is_live(job(), job(max_events_per_batch=5, **changes))
