"""A site may change what a job's state, readers and streams do not depend on."""

from __future__ import annotations

from typing import Any

import pytest

from towpath.composition.adjustments import adjusted, complete, inputs_of
from towpath.contracts.data_model import DataModel
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import JobContainer, JobSpec, ResolvedInput
from towpath.edge.compilation import job_of

MODEL: dict[str, Any] = {
    "name": "axles",
    "node": "train",
    "input": {"topic": "site/axles"},
    "mapping": {"fields": {"carriage": "string", "x": "double"}},
    "key": ["carriage"],
    "windowing": {"shape": "rolling", "size_s": 5, "aggregates": {"rms": {"function": "rms", "field": "x"}}},
    "predictive": {"kind": "cusum", "of": "rms", "threshold": 5.0},
    "output": {"topic": "axles/events"},
}


def spec(**changes: Any) -> JobSpec:
    return job_of(DataModel.model_validate({**MODEL, **changes}))


RUNNING = complete(spec())

ALLOWED = {
    "threshold": spec(predictive={"kind": "cusum", "of": "rms", "threshold": 9.0}),
    "what is published": spec(output={"topic": "axles/events", "when": "changes"}),
    "calibration": spec(mapping={**MODEL["mapping"], "calibration": {"x": {"scale": 0.5}}}),
    "trigger": spec(trigger_s=5.0),
    "bound": spec().model_copy(update={"max_events_per_batch": 10}),
    "repeats": spec(input={"topic": "site/axles", "identity": ["x"]}),
}
REFUSED = {
    "key": (spec(key=[]), "operator"),
    "window": (spec(windowing={**MODEL["windowing"], "size_s": 6}), "operator"),
    "kind of model": (spec(predictive={"kind": "shewhart", "of": "rms"}), "operator"),
    "topic": (spec(output={"topic": "axles/others"}), "output.topic"),
    "input": (spec(input={"topic": "site/others"}), "inputs[0].topic"),
    "site": (spec(node="tram"), "site"),
    "fields": (
        spec(mapping={**MODEL["mapping"], "context": {"line": "north"}}),
        "operator",
    ),
    "engine": (spec().model_copy(update={"container": JobContainer()}), "container"),
}


@pytest.mark.parametrize("wanted", ALLOWED.values(), ids=ALLOWED)
def test_job_when_only_a_parameter_changes_then_the_site_may_do_it_alone(wanted: JobSpec) -> None:
    assert adjusted(wanted, RUNNING, "train") == complete(wanted, RUNNING)


@pytest.mark.parametrize(("wanted", "field"), REFUSED.values(), ids=REFUSED)
def test_job_when_state_readers_or_streams_depend_on_a_change_then_it_needs_the_hub(
    wanted: JobSpec, field: str
) -> None:
    with pytest.raises(TowpathError) as refused:
        adjusted(wanted, RUNNING, "train")
    detail = refused.value.detail
    assert (detail.code, detail.field) == (ErrorCode.NOT_ALLOWED, field)
    assert detail.allowed


def test_job_when_it_runs_elsewhere_than_first_then_either_site_may_be_named() -> None:
    moved = RUNNING.model_copy(update={"site": "station"})
    assert adjusted(spec(), moved, "train").site == "station"


def test_inputs_when_a_job_says_something_else_of_them_then_only_that_changes() -> None:
    before = ResolvedInput(
        name="train/site/axles", site="train", stream="IN", subject="site.axles", from_device=True
    )
    (after,) = inputs_of(ALLOWED["repeats"], [before])
    assert after == before.model_copy(update={"identity": ["x"], "repeats_within": 20_000})
