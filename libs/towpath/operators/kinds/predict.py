"""The `predict` operator: rolling aggregates per key, and a model that detects events in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from towpath.contracts.fields import FieldType
from towpath.contracts.prediction import Predict, RollingFunction
from towpath.operators.kind import OperatorKind, register
from towpath.prediction.registry import KINDS, VERDICT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from towpath.operators.job_events import JobEvents


def compile_predict(operator: Predict, events: JobEvents) -> DataFrame:
    """The events that have a result, with what the model says."""
    from towpath.operators.predictions import predictions_of

    check_names(operator)
    return predictions_of(events, operator, written(operator))


def written(operator: Predict) -> dict[str, FieldType]:
    """The fields that the operator adds to those of the event."""
    rolled = operator.rolling.aggregates if operator.rolling else {}
    counts = {name for name, one in rolled.items() if one.function is RollingFunction.COUNT}
    own = KINDS[operator.model.kind].writes(operator.model)
    return {
        **{name: FieldType.LONG if name in counts else FieldType.DOUBLE for name in rolled},
        **{name: FieldType(kind) for name, kind in {**VERDICT, **own}.items()},
    }


def check_names(operator: Predict) -> None:
    """Raise `TowpathError` if a field has the name of one that the operator adds."""
    from towpath.contracts.errors import ErrorCode, TowpathError

    rolled = operator.rolling.aggregates if operator.rolling else {}
    own = {*VERDICT, *KINDS[operator.model.kind].writes(operator.model)}
    for place, names in (("fields", operator.fields), ("rolling.aggregates", rolled)):
        for name in sorted(own & names.keys()):
            raise TowpathError(
                ErrorCode.INVALID,
                f"{name!r} is a field that the model {operator.model.kind} adds to results",
                field=f"operator.{place}.{name}",
                value=name,
                allowed="another name; a map step in front can rename a field",
            )


def state(operator: Predict) -> dict[str, Any]:
    """Key, time, rolling window, and the model without the parameters that only judge."""
    model = operator.model
    rolling = operator.rolling.model_dump(mode="json") if operator.rolling else None
    return {
        "kind": operator.kind,
        "key": operator.key,
        "time": operator.time,
        "types": {name: str(operator.fields[name]) for name in operator.key},
        "rolling": rolling,
        "model": model.model_dump(mode="json", exclude={*KINDS[model.kind].judging}),
    }


PREDICT = register(
    OperatorKind(
        model=Predict,
        compile=compile_predict,
        reads=lambda operator: operator.fields,
        writes=lambda operator: {**operator.fields, **written(operator)},
        rejects=lambda operator: bool(operator.key or operator.time),
        state=state,
        nondeterminism=lambda operator: (
            "user code may give other results in another run" if operator.user_model else None
        ),
        user_code=lambda operator: operator.user_model,
        with_code_at=lambda operator, path: operator.model_copy(
            update={"model": operator.model.model_copy(update={"artefact": path})}
        ),
    )
)
