"""The description of a prediction: what is refused, what results have, which updates keep the state."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from running.operator_facts import job
from towpath.composition.job_changes import is_state_compatible
from towpath.contracts.operators import Chain, FieldType, Operator, Predict, plain_operator
from towpath.operators.kind import kind_of, user_code, with_code_at

CUSUM: dict[str, Any] = {"kind": "cusum", "of": "v"}
FIELDS = {"k": "string", "v": "double", "at": "timestamp"}
OF_3: dict[str, Any] = {"size_events": 3, "aggregates": {"mean_of_3": {"function": "avg", "field": "v"}}}
CLASS = {"kind": "python", "entry": "own:Model", "artefact": "code", "writes": {"kind_of_day": "string"}}


def predict(model: dict[str, Any] = CUSUM, **changes: Any) -> Predict:
    body = {"kind": "predict", "fields": FIELDS, "model": model, **changes}
    made = TypeAdapter[Operator](Operator).validate_python(body)
    assert isinstance(made, Predict)
    return made


@pytest.mark.parametrize(
    ("model", "changes", "message"),
    [
        ({**CUSUM, "of": "w"}, {}, "'w' is not among the fields"),
        ({**CUSUM, "of": "k"}, {}, "'k' is of type string, and must be a number"),
        (CUSUM, {"key": ["w"]}, "'w' is not among the fields"),
        (CUSUM, {"time": "v"}, "must be a declared field of type timestamp"),
        (CUSUM, {"rolling": {**OF_3, "size_s": 5}}, "exactly one of size_s and size_events"),
        (CUSUM, {"rolling": {**OF_3, "aggregates": {"v": {"function": "count"}}}}, "'v' is a field"),
        (CUSUM, {"rolling": {**OF_3, "aggregates": {"s": {"function": "sum"}}}}, "sum needs a field"),
        (
            CUSUM,
            {"rolling": {**OF_3, "aggregates": {"s": {"function": "sum", "field": "k"}}}},
            "must be a number",
        ),
        ({**CUSUM, "deviation": 1}, {}, "deviation is given without mean"),
        ({**CUSUM, "mean": 1}, {}, "need the deviation that goes with mean"),
        ({**CUSUM, "mean": 1, "unit": "absolute"}, {}, "give slack and threshold"),
        ({**CUSUM, "head_start": 1}, {}, "less than 1"),
        ({"of": "v"}, {}, "kind"),
        ({"kind": "kswin", "of": "v", "recent_events": 60}, {}, "window_events holds recent_events twice"),
        ({"kind": "flat_wheel", "of": "v", "speed": "w"}, {}, "'w' is not among the fields"),
        ({**CLASS, "writes": {"serial": "long"}}, {}, "are columns of every event"),
    ],
)
def test_prediction_when_it_makes_no_sense_then_is_refused(
    model: dict[str, Any], changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValidationError, match=message):
        predict(model, **changes)


def test_prediction_when_written_without_defaults_then_reads_back_as_the_same() -> None:
    for model in (CUSUM, {**CUSUM, "mean": 0, "unit": "absolute", "slack": 0.5, "threshold": 5}, CLASS):
        made = predict(model, rolling=OF_3, key=["k"])
        assert predict(**{n: v for n, v in plain_operator(made).items() if n != "kind"}) == made


def test_results_when_a_prediction_is_asked_then_have_its_fields_the_aggregates_and_the_verdict() -> None:
    rolling = {**OF_3, "aggregates": {**OF_3["aggregates"], "seen": {"function": "count"}}}
    operator = predict({**CLASS, "threshold": 3}, rolling=rolling)

    written = kind_of(operator).writes(operator)

    assert written == {
        **{name: FieldType(kind) for name, kind in FIELDS.items()},
        "mean_of_3": FieldType.DOUBLE,
        "seen": FieldType.LONG,
        "model": FieldType.STRING,
        "state": FieldType.STRING,
        "side": FieldType.STRING,
        "statistic": FieldType.DOUBLE,
        "limit": FieldType.DOUBLE,
        "since": FieldType.TIMESTAMP,
        "since_serial": FieldType.LONG,
        "kind_of_day": FieldType.STRING,
    }


@pytest.mark.parametrize(
    ("model", "changes", "keeps"),
    [
        ({**CUSUM, "threshold": 8, "slack": 1, "reset": False, "head_start": 0.5, "side": "upper"}, {}, True),
        (CUSUM, {"output": "alarms", "above": 2}, True),
        (CUSUM, {"fields": {**FIELDS, "more": "long"}}, True),
        (CUSUM, {"name": "watch"}, True),
        ({**CUSUM, "learn_events": 50}, {}, False),
        ({**CUSUM, "mean": 1, "deviation": 2}, {}, False),
        ({**CUSUM, "of": "mean_of_3"}, {}, False),
        ({"kind": "ewma", "of": "v"}, {}, False),
        (CUSUM, {"key": []}, False),
        (CUSUM, {"time": "at"}, False),
        (CUSUM, {"rolling": {**OF_3, "size_events": 4}}, False),
        (CUSUM, {"rolling": None}, False),
    ],
)
def test_state_when_a_prediction_changes_then_is_kept_if_only_the_judgement_is_another(
    model: dict[str, Any], changes: dict[str, Any], keeps: bool
) -> None:
    old = job(predict(rolling=OF_3, key=["k"]))
    new = job(predict(model, **{"rolling": OF_3, "key": ["k"], **changes}))

    assert is_state_compatible(old, new) is keeps


def test_code_of_a_model_when_it_is_put_elsewhere_then_the_operator_names_the_new_place() -> None:
    operator = predict(CLASS)

    moved = with_code_at(operator, "/kept/code.zip")

    code = user_code(moved)
    assert code is not None
    assert (code.artefact, code.entry) == ("/kept/code.zip", "own:Model")
    assert moved == predict({**CLASS, "artefact": "/kept/code.zip"})
    assert user_code(predict()) is None


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (
            [
                {"kind": "predict", "fields": FIELDS, "model": CLASS},
                {"kind": "python", "fields": FIELDS, "entry": "a:b"},
            ],
            "at most one step with code of the user",
        ),
        (
            [
                {"kind": "clean", "fields": {"v": {"type": "double"}}, "identity": ["v"]},
                {"kind": "predict", "fields": {"v": "double"}, "model": CUSUM},
            ],
            "in front of a predict, which would count repetitions",
        ),
    ],
)
def test_chain_when_a_prediction_cannot_stand_beside_a_step_then_is_refused(
    steps: list[dict[str, Any]], message: str
) -> None:
    with pytest.raises(ValidationError, match=message):
        Chain.model_validate({"steps": steps})
