"""Data models: the job that each becomes, and the errors of those that contradict themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from running.places import ROOT
from towpath.composition.export import jobs_to_yaml
from towpath.contracts.data_model import EXAMPLE_MODEL, DataModel
from towpath.contracts.errors import TowpathError
from towpath.contracts.fields import FieldType
from towpath.contracts.job import JobSpec
from towpath.contracts.operators import Chain, Filter, Map, Window, step_names
from towpath.contracts.prediction import Predict, PredictOutput
from towpath.edge.compilation import job_of, point_fields
from towpath.edge.documents import read_models

EXAMPLES = sorted((ROOT / "examples" / "edge").glob("*.yaml"))


def model(**changes: Any) -> DataModel:
    return DataModel.model_validate({**EXAMPLE_MODEL, **changes})


def steps(of: DataModel) -> dict[str, Any]:
    operator = job_of(of).operator
    assert isinstance(operator, Chain)
    return dict(zip(step_names(operator), operator.steps, strict=True))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_when_read_then_becomes_a_job_of_its_node(path: Path) -> None:
    for each in read_models(path.read_text()):
        assert (each.job.name, each.job.site) == (each.model.name, each.model.node)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_job_when_written_as_a_file_then_reads_back_as_it_was(path: Path) -> None:
    jobs = [each.job for each in read_models(path.read_text())]

    written = yaml.safe_load(jobs_to_yaml(jobs))["jobs"]

    assert [JobSpec.model_validate(body) for body in written] == jobs


def test_stages_when_all_are_given_then_are_steps_in_their_order() -> None:
    mapping = {
        "calibration": {"x": {"scale": 0.001, "offset": -1}},
        "context": {"line": "it's 7", "limit": 3},
        "select": {"twice": "x * 2"},
        "where": "x > 0",
    }

    found = steps(model(mapping=mapping))

    assert [*found] == ["choosing", "mapping", "deriving", "predictive"]
    assert isinstance(found["choosing"], Filter)
    assert found["choosing"].where == "x > 0"
    assert isinstance(found["mapping"], Map)
    assert found["mapping"].select == {
        "carriage": "`carriage`",
        "x": "cast(`x` as double) * 0.001 + -1.0",
        "line": r"'it\'s 7'",
        "limit": "cast(3.0 as double)",
    }
    assert found["deriving"].select["twice"] == "cast((x * 2) as double)"
    predict = found["predictive"]
    assert isinstance(predict, Predict)
    assert predict.rolling is not None
    assert (predict.key, predict.rolling.size_s, predict.output) == (["carriage"], 5, PredictOutput.CHANGES)


def test_windows_when_they_follow_each_other_then_the_predictive_stage_reads_their_aggregates() -> None:
    aggregates = {"mean": {"function": "avg", "field": "x"}}
    windowing = {"shape": "tumbling", "size_s": 60, "aggregates": aggregates}

    found = steps(model(windowing=windowing, predictive={"kind": "cusum", "of": "mean"}))

    assert [*found] == ["mapping", "windowing", "predictive"]
    assert isinstance(found["windowing"], Window)
    assert found["windowing"].key == ["carriage"]
    assert found["predictive"].fields["mean"] is FieldType.DOUBLE
    assert found["predictive"].time == "window_end"


def test_area_when_given_then_is_a_field_that_may_be_the_key() -> None:
    area = {"latitude": "lat", "longitude": "lon", "cell_degrees": 0.01}
    mapping = {"fields": {"lat": "double", "lon": "double"}, "area": area}
    columns = {"carriage": "string", "x": "double", "lat": "double", "lon": "double"}
    reads = {"topic": "site/axles", "format": {"kind": "csv", "columns": columns}}

    found = model(input=reads, mapping=mapping, key=["area"])

    assert point_fields(found)["area"] is FieldType.STRING
    assert (
        steps(found)["mapping"].select["area"] == "concat_ws(',', floor(`lat` / 0.01), floor(`lon` / 0.01))"
    )


@pytest.mark.parametrize(
    ("changes", "place", "why"),
    [
        ({"mapping": {"calibration": {"y": {}}}}, None, "'y' is not a field of a report: carriage, x"),
        ({"input": {"topic": "site/a"}, "mapping": {}}, None, "mapping.fields says nothing of a report"),
        ({"predictive": None, "output": {"topic": "a"}}, None, "rolling windows are for a predictive stage"),
        ({"predictive": {"kind": "cusum", "of": "nothing"}}, None, "'nothing' is not among the fields"),
        ({"key": ["axle"]}, None, "'axle' is not among the fields"),
        (
            {"windowing": {"shape": "rolling", "size_s": -1, "aggregates": {}}},
            "windowing.size_s",
            "greater than 0",
        ),
        ({"output": {"topic": "site/a"}}, None, "belong to devices"),
    ],
)
def test_model_when_its_stages_do_not_fit_then_is_refused_with_the_reason(
    changes: dict[str, Any], place: str | None, why: str
) -> None:
    with pytest.raises(TowpathError) as refused:
        read_models(yaml.safe_dump({**EXAMPLE_MODEL, **changes}))

    errors = refused.value.detail.errors
    assert any(why in error.message for error in errors), errors
    assert place is None or place in {error.field for error in errors}


def test_models_when_two_have_one_name_then_are_refused() -> None:
    with pytest.raises(TowpathError, match="two models have this name"):
        read_models(yaml.safe_dump({"models": [EXAMPLE_MODEL, EXAMPLE_MODEL]}))
