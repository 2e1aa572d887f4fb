"""The data model of one kind of report: from the bytes of a device to events, in six stages.

The stages are those of IRONEDGE's generic pipeline (section 3.2): input, mapping, windowing, aggregation, a
predictive model, and output. One data model becomes one job, a `chain` at the node.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from towpath.contracts.event_formats import Binary, Csv, EventFormat
from towpath.contracts.fields import FieldName, Fields, FieldType
from towpath.contracts.job import Input
from towpath.contracts.message import JobName, Model, SiteName
from towpath.contracts.operators import Aggregate
from towpath.contracts.prediction import PredictionModel, PredictOutput, RollingAggregate


class ModelInput(Model):
    """Stage 1: where reports come in. Each is tagged with the time at which the node stored it."""

    topic: str
    """A device topic of the node: `site/…`."""
    format: EventFormat | None = None
    """Null: one JSON object each."""
    identity: list[FieldName] = []
    """See `Input.identity`."""
    repeats_within: int = Input.model_fields["repeats_within"].default
    """See `Input.repeats_within`."""


class Calibration(Model):
    """The measured value of a raw one: raw × `scale` + `offset`."""

    scale: float = 1.0
    offset: float = 0.0
    unit: str = ""
    """Unit of the measured value, for readers."""


class Area(Model):
    """Squares of a grid of latitudes and longitudes, to group reports by where they come from."""

    latitude: FieldName
    longitude: FieldName
    cell_degrees: float = Field(gt=0, le=90)
    """Length of a square's side: 0.01 degrees of latitude are 1.1 km."""


class Mapping(Model):
    """Stage 2: a report becomes a data point with fields, units and context."""

    fields: Fields = {}
    """Fields of a report, with their types. Those of the columns of a CSV unless given."""
    calibration: dict[FieldName, Calibration] = {}
    context: dict[FieldName, float | str] = {}
    """Fields with the same value in each data point: what the node knows, and the device does not say."""
    select: dict[FieldName, str] = {}
    """Further fields: Spark SQL expressions over those before, with their types in `types`."""
    types: Fields = {}
    """The types of the fields in `select`; `double` unless given."""
    area: Area | None = None
    """Adds the field `area`, which may be part of the key."""
    where: str | None = None
    """A Spark SQL condition over the fields of a report: others are left out."""

    @model_validator(mode="after")
    def _names_known_fields(self) -> Mapping:
        unknown = [name for name in self.types if name not in self.select]
        if unknown:
            raise ValueError(f"types names {unknown[0]!r}, which is not among select")
        return self


class RollingWindowing(Model):
    """Stage 3: with each report, the last ones of its key."""

    shape: Literal["rolling"]
    size_s: float | None = Field(default=None, gt=0)
    """Seconds before the newest report."""
    size_events: int | None = Field(default=None, ge=1)
    """Number of reports, instead of seconds."""
    aggregates: dict[FieldName, RollingAggregate] = Field(min_length=1)
    """Stage 4: aggregates of the window."""


class TumblingWindowing(Model):
    """Stage 3: windows of time that follow each other, with one result each, when it closes."""

    shape: Literal["tumbling"]
    size_s: float = Field(gt=0)
    watermark_s: float = Field(default=0.0, ge=0)
    """Delay with which a report still counts, seconds of the reports' own time."""
    aggregates: dict[FieldName, Aggregate] = Field(min_length=1)
    """Stage 4: aggregates of the window."""


Windowing = Annotated[RollingWindowing | TumblingWindowing, Field(discriminator="shape")]


class ModelOutput(Model):
    """Stage 6: where events go, and which."""

    topic: str
    when: PredictOutput = PredictOutput.EACH
    """One event per report, or only with a reason. Without a predictive stage there is one for each report or
    window."""
    above: float | None = None
    """Only events with a statistic above this."""
    dead_letter: str | None = None
    """Topic of reports that do not fit; `<topic>/rejected` unless given."""


class DataModel(Model):
    """A kind of report, and what a node makes of it."""

    name: JobName
    """Name of the job, too."""
    node: SiteName
    input: ModelInput
    mapping: Mapping = Mapping()
    key: list[FieldName] = []
    """Fields of a data point whose values have windows and models of their own, such as the sensor."""
    time: FieldName | None = None
    """The field with the time of a report. Null: when the node stored it."""
    windowing: Windowing | None = None
    predictive: PredictionModel | None = None
    """Stage 5: a model that detects events, see docs/models.md."""
    output: ModelOutput
    trigger_s: float = Field(default=1.0, ge=0, le=3600)
    """See `JobSpec.trigger_s`."""

    @property
    def report(self) -> dict[str, FieldType]:
        """The fields of a report, with their types."""
        form = self.input.format
        if isinstance(form, Csv):
            return {**form.columns, **self.mapping.fields}
        return dict(self.mapping.fields)

    @model_validator(mode="after")
    def _stages_fit(self) -> DataModel:
        report, mapping = self.report, self.mapping
        if not report:
            told = "the types of its columns" if isinstance(self.input.format, Binary) else "its fields"
            raise ValueError(f"mapping.fields says nothing of a report: give {told}")
        area = [] if mapping.area is None else [mapping.area.latitude, mapping.area.longitude]
        missing = [name for name in [*mapping.calibration, *area] if name not in report]
        if missing:
            raise ValueError(f"{missing[0]!r} is not a field of a report: {', '.join(report)}")
        if isinstance(self.windowing, RollingWindowing) and self.predictive is None:
            raise ValueError("rolling windows are for a predictive stage; without one, use tumbling ones")
        if self.predictive is None and (self.output.when is not PredictOutput.EACH or self.output.above):
            raise ValueError("output.when and output.above select what a predictive stage says")
        return self


EXAMPLE_MODEL: dict[str, Any] = {
    "name": "axles",
    "node": "train-7",
    "input": {
        "topic": "site/axles",
        "format": {"kind": "csv", "columns": {"carriage": "string", "x": "double"}},
    },
    "mapping": {"calibration": {"x": {"scale": 0.001, "unit": "g"}}},
    "key": ["carriage"],
    "windowing": {"shape": "rolling", "size_s": 5, "aggregates": {"rms": {"function": "rms", "field": "x"}}},
    "predictive": {"kind": "cusum", "of": "rms"},
    "output": {"topic": "axles/events", "when": "changes"},
}
