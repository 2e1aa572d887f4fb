"""Compile a data model to a job: a chain whose steps are the model's stages."""

from __future__ import annotations

from towpath.contracts.data_model import Calibration, DataModel, RollingWindowing, TumblingWindowing
from towpath.contracts.fields import FieldType
from towpath.contracts.job import Input, JobSpec, Output
from towpath.contracts.operators import Chain, Filter, Map, Step, Window
from towpath.contracts.prediction import Predict, Rolling
from towpath.operators.kinds.window import aggregate_fields

AREA = "area"
"""The field that names a report's square of the grid."""

_ENDS_AT = "window_end"


def job_of(model: DataModel) -> JobSpec:
    """Return the job that runs a data model at its node.

    Its steps are called `choosing`, `mapping`, `deriving`, `windowing` and `predictive`, so their counts tell
    the rate of each stage. Raises `ValidationError` when the stages do not fit together.
    """
    reads = Input(
        site=model.node,
        topic=model.input.topic,
        format=model.input.format,
        identity=model.input.identity,
        repeats_within=model.input.repeats_within,
    )
    return JobSpec(
        name=model.name,
        site=model.node,
        inputs=[reads],
        output=Output(topic=model.output.topic, dead_letter=model.output.dead_letter),
        operator=Chain(steps=[*_stages(model)]),
        trigger_s=model.trigger_s,
    )


def point_fields(model: DataModel) -> dict[str, FieldType]:
    """Return the fields of a data point: those of a report, calibrated, and what the mapping adds."""
    mapping = model.mapping
    calibrated = dict.fromkeys(mapping.calibration, FieldType.DOUBLE)
    context = {
        name: FieldType.STRING if isinstance(value, str) else FieldType.DOUBLE
        for name, value in mapping.context.items()
    }
    made = {name: mapping.types.get(name, FieldType.DOUBLE) for name in mapping.select}
    area = {} if mapping.area is None else {AREA: FieldType.STRING}
    return {**model.report, **calibrated, **context, **area, **made}


def _stages(model: DataModel) -> list[Step]:
    steps: list[Step] = []
    if model.mapping.where is not None:
        steps.append(Filter(name="choosing", fields=model.report, where=model.mapping.where))
    steps.append(_mapping(model))
    if model.mapping.select:
        steps.append(_deriving(model))
    fields, time = point_fields(model), model.time
    if isinstance(model.windowing, TumblingWindowing):
        window = _tumbling(model, model.windowing, fields)
        steps.append(window)
        fields = {name: kind for name, kind in aggregate_fields(window).items() if kind is not None}
        fields, time = {**fields, _ENDS_AT: FieldType.TIMESTAMP}, _ENDS_AT
    if model.predictive is not None:
        predict = Predict(
            name="predictive",
            fields=fields,
            key=model.key,
            time=time,
            rolling=_rolling(model.windowing) if isinstance(model.windowing, RollingWindowing) else None,
            model=model.predictive,
            output=model.output.when,
            above=model.output.above,
        )
        steps.append(predict)
    return steps


def _mapping(model: DataModel) -> Map:
    mapping, report = model.mapping, model.report
    select = {
        name: _calibrated(name, mapping.calibration[name]) if name in mapping.calibration else f"`{name}`"
        for name in report
    }
    select |= {name: _literal(value) for name, value in mapping.context.items()}
    if mapping.area is not None:
        cells = [
            f"floor(`{name}` / {mapping.area.cell_degrees!r})"
            for name in (mapping.area.latitude, mapping.area.longitude)
        ]
        select[AREA] = f"concat_ws(',', {', '.join(cells)})"
    return Map(name="mapping", fields=report, select=select)


def _deriving(model: DataModel) -> Map:
    """Return the step that computes further fields: it sees the calibrated ones."""
    fields, derived = point_fields(model), model.mapping.select
    before = {name: kind for name, kind in fields.items() if name not in derived}
    select = {name: f"`{name}`" for name in before}
    select |= {name: f"cast(({text}) as {fields[name]})" for name, text in derived.items()}
    return Map(name="deriving", fields=before, select=select)


def _calibrated(name: str, calibration: Calibration) -> str:
    return f"cast(`{name}` as double) * {calibration.scale!r} + {calibration.offset!r}"


def _literal(value: float | str) -> str:
    if isinstance(value, str):
        quoted = value.replace("\\", "\\\\").replace("'", "\\'")
        return f"'{quoted}'"
    return f"cast({value!r} as double)"


def _tumbling(model: DataModel, windowing: TumblingWindowing, fields: dict[str, FieldType]) -> Window:
    used = {*model.key, *(a.field for a in windowing.aggregates.values()), model.time}
    return Window(
        name="windowing",
        fields={name: kind for name, kind in fields.items() if name in used},
        size_s=windowing.size_s,
        event_time=model.time,
        watermark_s=windowing.watermark_s,
        key=model.key,
        aggregates=windowing.aggregates,
    )


def _rolling(windowing: RollingWindowing) -> Rolling:
    return Rolling(**windowing.model_dump(exclude={"shape"}))
