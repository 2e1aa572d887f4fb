"""The operator `predict`: rolling aggregates per key, and a model that detects events in them.

A statistic of a model is in the unit of the number that it watches, unless its model says otherwise.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from towpath.contracts.fields import EntryName, FieldName, Fields, FieldType, StepModel, own_names
from towpath.contracts.message import Model

NUMERIC = (FieldType.LONG, FieldType.DOUBLE)


class RollingFunction(StrEnum):
    """Aggregates over a rolling window."""

    COUNT = "count"
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"
    STDDEV = "stddev"
    """Sample standard deviation; null for a single number."""
    RMS = "rms"
    """Root of the mean square."""


class RollingAggregate(Model):
    """One aggregate over one field. Events without the field do not count."""

    function: RollingFunction
    field: FieldName | None = None
    """Not needed for `count`, which then counts events."""

    @model_validator(mode="after")
    def _complete(self) -> RollingAggregate:
        if self.field is None and self.function is not RollingFunction.COUNT:
            raise ValueError(f"{self.function} needs a field")
        return self


class Rolling(Model):
    """Aggregates over a key's last events, again with each event. Exactly one of the two sizes is given."""

    size_s: float | None = Field(default=None, gt=0)
    """Seconds: the window holds events that are younger than so much, seen from the newest. An event that is
    older than one before it counts as if it had the time of that one."""
    size_events: int | None = Field(default=None, ge=1)
    """Events in the window, the newest one included."""
    max_events: int = Field(default=100_000, ge=1)
    """The most events in a window of seconds: the oldest leave first. They are the job's state, 8 bytes each
    and 8 for each aggregated field, which every micro-batch writes again."""
    aggregates: dict[FieldName, RollingAggregate] = Field(min_length=1)

    @model_validator(mode="after")
    def _one_size(self) -> Rolling:
        if (self.size_s is None) == (self.size_events is None):
            raise ValueError("a rolling window takes exactly one of size_s and size_events")
        return self


class Side(StrEnum):
    """Direction of the changes that a model looks for."""

    BOTH = "both"
    UPPER = "upper"
    LOWER = "lower"


class Unit(StrEnum):
    """Unit of a model's limits."""

    DEVIATIONS = "deviations"
    """Standard deviations of the reference."""
    ABSOLUTE = "absolute"
    """The unit of the number that is watched."""


class Chart(Model):
    """A model with a reference: the mean and standard deviation of numbers while nothing is wrong.

    Both are given, or learnt from a key's first events and then frozen: a reference that went on learning
    would follow a slow change, and hide it.
    """

    of: FieldName
    """The number that is watched: a field, or a rolling aggregate. An event without it leaves the model as it
    is."""
    side: Side = Side.BOTH
    mean: float | None = None
    """The reference's mean. Learnt unless given."""
    deviation: float | None = Field(default=None, gt=0)
    """The reference's standard deviation, which goes with `mean`. Not needed if `unit` is `absolute`."""
    learn_events: int = Field(default=100, ge=2)
    """Events of a key to learn mean and deviation from, unless they are given. None of them is an alarm."""
    unit: Unit = Unit.DEVIATIONS

    @model_validator(mode="after")
    def _reference(self) -> Chart:
        if self.deviation is not None and self.mean is None:
            raise ValueError("deviation is given without mean")
        if self.mean is not None and self.deviation is None and self.unit is Unit.DEVIATIONS:
            raise ValueError("limits in deviations need the deviation that goes with mean")
        return self


class Cusum(Chart):
    """Cumulative sums: detects small shifts of the mean that last."""

    kind: Literal["cusum"]
    slack: float | None = Field(default=None, ge=0)
    """Distance from the mean that adds nothing to a sum, in `unit`: half of the shift to be detected. 0.5
    deviations unless given."""
    threshold: float | None = Field(default=None, gt=0)
    """The sum above which there is an alarm, in `unit`. 5 deviations unless given."""
    head_start: float = Field(default=0.0, ge=0, lt=1)
    """Value at which sums start, as a fraction of the threshold. 0.5 finds sooner what is wrong already."""
    reset: bool = True
    """After an alarm the sums start again. Otherwise each event above the threshold is an alarm."""

    @model_validator(mode="after")
    def _limits(self) -> Cusum:
        if self.unit is Unit.ABSOLUTE and (self.slack is None or self.threshold is None):
            raise ValueError("absolute limits have no defaults: give slack and threshold")
        return self


class Shewhart(Chart):
    """Control limits on each number: detects single outliers and large shifts at once."""

    kind: Literal["shewhart"]
    limit: float = Field(default=3.0, gt=0)
    """Distance from the mean above which there is an alarm, in `unit`."""


class Ewma(Chart):
    """Exponentially weighted moving average: detects small shifts, and is less sensitive to outliers."""

    kind: Literal["ewma"]
    weight: float = Field(default=0.2, gt=0, le=1)
    """Weight of the newest number in the average. With 1 the model is a `shewhart`."""
    limit: float = Field(default=3.0, gt=0)
    """Distance of average and mean above which there is an alarm. In deviations it is one of the average,
    which varies less than single numbers by the factor √(weight / (2 - weight))."""


class PageHinkley(Model):
    """Page-Hinkley test: detects a change of the mean without a reference, against the mean so far."""

    kind: Literal["page_hinkley"]
    of: FieldName
    """The number that is watched: a field, or a rolling aggregate."""
    side: Side = Side.BOTH
    learn_events: int = Field(default=30, ge=1)
    """Events before the first alarm, and after each."""
    tolerance: float = Field(default=0.005, ge=0)
    """Distance from the mean so far that counts for nothing, in the unit of the number."""
    threshold: float = Field(default=50.0, gt=0)
    """The sum of distances above which there is an alarm, in the unit of the number."""
    memory: float = Field(default=0.9999, gt=0, le=1)
    """The part that remains of the sum with each event."""


class Adwin(Model):
    """Adaptive window: detects that the recent part of a window has another mean than its older part."""

    kind: Literal["adwin"]
    of: FieldName
    """The number that is watched: a field, or a rolling aggregate."""
    confidence: float = Field(default=0.002, gt=0, lt=1)
    """The probability of a false alarm at a test, an upper bound."""
    every_events: int = Field(default=32, ge=1)
    """Events between two tests."""
    buckets: int = Field(default=5, ge=2)
    """The most buckets of one size. More find a change sooner, and take more state."""
    least_events: int = Field(default=5, ge=1)
    """Events that each of the two parts has at least."""
    learn_events: int = Field(default=10, ge=1)
    """Events before the first test."""


class Kswin(Model):
    """Kolmogorov-Smirnov test in a sliding window: detects a change of the whole distribution."""

    kind: Literal["kswin"]
    of: FieldName
    """The number that is watched: a field, or a rolling aggregate."""
    significance: float = Field(default=0.005, gt=0, lt=1)
    """Lower values give fewer alarms. It is that of each test, and each event is a test."""
    window_events: int = Field(default=100, ge=4)
    """Events in the sliding window."""
    recent_events: int = Field(default=30, ge=2)
    """The newest of them, which are compared with as many of the others."""

    @model_validator(mode="after")
    def _fits(self) -> Kswin:
        if 2 * self.recent_events > self.window_events:
            raise ValueError("window_events holds recent_events twice: those, and as many older ones")
        return self


class FlatWheel(Model):
    """Flat spots of a wheel: detects impacts that come at one angle of the wheel, turn after turn.

    The statistic has no unit: it is the crest factor of the averaged turn.
    """

    kind: Literal["flat_wheel"]
    of: FieldName
    """The vertical acceleration of the wheel's axle box, in any unit."""
    speed: FieldName
    """The field with the speed of the wheel's circumference, m/s: turns of the axle times its circumference.
    The train's speed from a satellite receiver is too inexact."""
    diameter_m: float = Field(default=0.92, gt=0)
    """Diameter of the wheel, metres."""
    sample_rate_hz: float | None = Field(default=None, gt=0)
    """Measurements per second. Null: the time between two events counts."""
    angles: int = Field(default=64, ge=8, le=4096)
    """Parts into which a turn is divided. A turn needs more measurements than that."""
    turns: int = Field(default=20, ge=2)
    """Turns over which a measurement at an angle fades. So many pass before the first alarm."""
    crest_factor: float = Field(default=5.0, gt=1)
    """Largest distance from the mean in the averaged turn, divided by its root mean square, above which there
    is an alarm."""


class UserModel(Model):
    """A class of the user: one object per key, whose method `predict` takes the values of an event."""

    kind: Literal["python"]
    entry: EntryName
    """`package.module:Class`. The class is called with `parameters`, and its object has the method `predict`.
    That takes a mapping (fields and rolling aggregates by name), and returns a number or a mapping."""
    artefact: str | None = None
    """Path of a wheel, a zip or a directory that holds the code, in the mesh's artefact root; a relative
    one begins there. Null: a module that the engines' environment has."""
    parameters: dict[str, Any] = {}
    writes: dict[FieldName, FieldType] = {}
    """Members of the returned mapping that become fields of the result, with their types. Its members
    `statistic` and `alarm` need no mention."""
    threshold: float | None = None
    """The statistic above which there is an alarm, unless the mapping has the member `alarm`."""

    _names = field_validator("writes")(own_names)


PredictionModel = Annotated[
    Cusum | Shewhart | Ewma | PageHinkley | Adwin | Kswin | FlatWheel | UserModel,
    Field(discriminator="kind"),
]
"""Each kind has a module in `towpath.prediction.models`, which says how it works."""


class PredictOutput(StrEnum):
    """Events that have a result."""

    EACH = "each"
    """Each one: its result tells the state of the model."""
    ALARMS = "alarms"
    """Those that are an alarm."""
    CHANGES = "changes"
    """Those at which `state` or `side` differs from the event before."""


class Predict(StepModel):
    """Keeps rolling aggregates and a model per key, and tells with each event what the model says.

    Events of a key count in the order of their serial numbers, and those of each input for themselves: merge
    inputs that share a key. A result has the declared fields of its event, the rolling aggregates, and what
    the model says.
    """

    kind: Literal["predict"] = "predict"
    fields: Fields = Field(min_length=1)
    key: list[FieldName] = []
    """An event that lacks one of these fields is rejected."""
    time: FieldName | None = None
    """The timestamp field with the time of an event; one that lacks it is rejected. Null: the time at which
    the site stored the event."""
    rolling: Rolling | None = None
    model: PredictionModel
    output: PredictOutput = PredictOutput.EACH
    above: float | None = None
    """Of the events that `output` selects, only those with a statistic above this have a result."""

    _names = field_validator("fields")(own_names)

    @property
    def user_model(self) -> UserModel | None:
        """The model, if it is a class of the user."""
        return self.model if isinstance(self.model, UserModel) else None

    @property
    def watched(self) -> list[str]:
        """The numbers that the model needs: fields or rolling aggregates."""
        model = self.model
        if isinstance(model, UserModel):
            return []
        return [model.of, model.speed] if isinstance(model, FlatWheel) else [model.of]

    @model_validator(mode="after")
    def _consistent(self) -> Predict:
        rolled = self.rolling.aggregates if self.rolling else {}
        named = [*self.key, *(each.field for each in rolled.values() if each.field is not None)]
        missing = [name for name in named if name not in self.fields]
        missing += [name for name in self.watched if name not in self.fields and name not in rolled]
        if missing:
            raise ValueError(f"{missing[0]!r} is not among the fields")
        if self.time is not None and self.fields.get(self.time) is not FieldType.TIMESTAMP:
            raise ValueError(f"time {self.time!r} must be a declared field of type timestamp")
        for name in [*(each.field for each in rolled.values() if each.field), *self.watched]:
            if name in self.fields and name not in rolled and self.fields[name] not in NUMERIC:
                raise ValueError(f"{name!r} is of type {self.fields[name]}, and must be a number")
        taken = sorted(self.fields.keys() & rolled.keys())
        if taken:
            raise ValueError(f"{taken[0]!r} is a field; name the rolling aggregate otherwise")
        return self
