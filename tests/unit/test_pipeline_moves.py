"""A pipeline's moves of its jobs."""

from __future__ import annotations

import pytest

from towpath.contracts.commands import StrategyName
from towpath.contracts.pipeline import PipelineJob
from towpath.coordinator.pipelines.apply_run import _move

JOB = {
    "name": "a",
    "site": "cloud",
    "inputs": [{"site": "jfk", "topic": "site/x"}],
    "output": {"topic": "t/a"},
    "operator": {"kind": "forward"},
}


@pytest.mark.parametrize(
    ("strategy", "hold_s"),
    [(StrategyName.TWIN, 0.0), (StrategyName.GENERAL, None), (StrategyName.AUTO, None)],
)
def test_move_when_twins_would_publish_without_end_then_they_do_for_no_time(
    strategy: StrategyName, hold_s: float | None
) -> None:
    moved = _move(PipelineJob.model_validate({**JOB, "strategy": strategy}))
    assert (moved.strategy, moved.hold_s) == (strategy, hold_s)
