"""Which strategy a migration follows, and what it is expected to cost."""

from __future__ import annotations

from typing import Any

import pytest

from towpath.contracts.commands import StrategyName
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import JobSpec
from towpath.protocols.choice import ASKED_FOR, choose

RESTART, GENERAL = StrategyName.RESTART, StrategyName.GENERAL
PARALLEL, HANDOVER, AUTO = StrategyName.PARALLEL, StrategyName.HANDOVER, StrategyName.AUTO

OPERATORS: dict[str, dict[str, Any]] = {
    "clean": {"fields": {"delay": {"type": "double"}}},
    "filter": {"fields": {"delay": "double"}, "where": "delay > 15"},
    "map": {"fields": {"delay": "double"}, "select": {"twice": "delay * 2"}},
    "forward": {},
    "merge": {},
    "window": {"size_s": 60, "aggregates": {"events": {"function": "count"}}},
    "processing_window": {"size_s": 5, "aggregates": {"events": {"function": "count"}}},
    "python": {"fields": {"delay": "double"}, "entry": "module:function"},
}


def spec(kind: str, inputs: int = 1) -> JobSpec:
    return JobSpec.model_validate(
        {
            "name": "counts",
            "site": "jfk",
            "inputs": [{"site": "jfk", "topic": f"departures/{number}"} for number in range(inputs)],
            "output": {"topic": "departures/counts"},
            "operator": {"kind": kind, **OPERATORS[kind]},
        }
    )


def refusal(job: JobSpec, wanted: StrategyName) -> TowpathError:
    with pytest.raises(TowpathError) as refused:
        choose(job, wanted)
    return refused.value


@pytest.mark.parametrize(
    ("kind", "strategy", "because"),
    [
        ("processing_window", PARALLEL, "no state is carried"),
        ("python", GENERAL, "user code"),
        *(
            (kind, HANDOVER, "no downtime")
            for kind in OPERATORS
            if kind not in ("processing_window", "python")
        ),
    ],
)
def test_strategy_when_left_to_towpath_then_suits_the_operator_and_says_why(
    kind: str, strategy: StrategyName, because: str
) -> None:
    chosen, reason = choose(spec(kind), AUTO)
    assert chosen is strategy
    assert because in reason


def test_strategy_when_processing_windows_have_several_inputs_then_their_job_is_paused() -> None:
    assert choose(spec("processing_window", inputs=2), AUTO)[0] is GENERAL


@pytest.mark.parametrize("kind", OPERATORS)
@pytest.mark.parametrize("wanted", [RESTART, GENERAL])
def test_strategy_when_it_stops_the_source_then_works_for_every_operator(
    kind: str, wanted: StrategyName
) -> None:
    assert choose(spec(kind, inputs=2), wanted) == (wanted, ASKED_FOR)


@pytest.mark.parametrize("kind", [kind for kind in OPERATORS if kind != "processing_window"])
def test_parallel_when_asked_for_without_processing_windows_then_is_refused(kind: str) -> None:
    detail = refusal(spec(kind), PARALLEL).detail
    assert (detail.code, detail.field, detail.value) == (ErrorCode.NOT_ALLOWED, "strategy", "parallel")
    assert detail.allowed == ["restart", "general", "handover", "auto"]


def test_parallel_when_asked_for_with_several_inputs_then_is_refused() -> None:
    detail = refusal(spec("processing_window", inputs=2), PARALLEL).detail
    assert (detail.code, detail.field, detail.value) == (ErrorCode.NOT_ALLOWED, "strategy", "parallel")
    assert detail.allowed == ["restart", "general", "auto"]


def test_handover_when_asked_for_with_processing_windows_then_is_refused() -> None:
    detail = refusal(spec("processing_window"), HANDOVER).detail
    assert (detail.code, detail.field, detail.value) == (ErrorCode.NOT_ALLOWED, "strategy", "handover")
    assert detail.allowed == ["restart", "general", "parallel", "auto"]


@pytest.mark.parametrize("kind", OPERATORS)
@pytest.mark.parametrize("inputs", [1, 2])
def test_strategy_when_left_to_towpath_then_is_one_that_may_be_asked_for(kind: str, inputs: int) -> None:
    job = spec(kind, inputs)
    chosen, _ = choose(job, AUTO)
    assert choose(job, chosen) == (chosen, ASKED_FOR)
