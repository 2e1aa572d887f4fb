"""The computation of a job: one model per operator. The tag is `kind`.

Column names: every operator sees the event's own fields plus `serial` (its serial number in the
input), `input` (position of the input in the job) and `stored_at` (when the site stored it).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from towpath.contracts.fields import EntryName, FieldName, Fields, FieldType, StepModel, own_names
from towpath.contracts.message import Model
from towpath.contracts.prediction import Predict
from towpath.contracts.spark_expressions import Expression

MAX_QUERY_TEXT = 200_000
"""Characters of all queries of a job."""


class FieldRule(Model):
    """Demands of `clean` on one field."""

    type: FieldType
    required: bool = True
    """A missing or null field rejects the event."""
    minimum: float | None = None
    """Numbers below are rejected."""
    maximum: float | None = None
    """Numbers above are rejected."""
    pattern: str | None = None
    """Regular expression (Java syntax) that the whole string must match."""
    one_of: list[str] | None = None
    """The only strings accepted."""

    @model_validator(mode="after")
    def _rules_fit_the_type(self) -> FieldRule:
        numeric = self.type in (FieldType.LONG, FieldType.DOUBLE)
        if not numeric and (self.minimum is not None or self.maximum is not None):
            raise ValueError(f"minimum and maximum need a number, not {self.type}")
        if self.type is not FieldType.STRING and (self.pattern is not None or self.one_of is not None):
            raise ValueError(f"pattern and one_of need a string, not {self.type}")
        if self.minimum is not None and self.maximum is not None and self.minimum > self.maximum:
            raise ValueError("minimum is larger than maximum")
        return self


class Clean(StepModel):
    """Keeps events that fit; the others go to the dead-letter topic with the reason."""

    kind: Literal["clean"] = "clean"
    fields: dict[FieldName, FieldRule] = Field(min_length=1)
    identity: list[FieldName] = []
    """Fields that together identify an event. A device that repeats one after a lost
    acknowledgement is then counted once, if it repeats within the output's duplicate window."""

    _names = field_validator("fields")(own_names)

    @model_validator(mode="after")
    def _identity_is_declared(self) -> Clean:
        missing = [name for name in self.identity if name not in self.fields]
        if missing:
            raise ValueError(f"identity names {missing[0]!r}, which is not among the fields")
        return self


class Filter(StepModel):
    """Keeps events for which a Spark SQL condition holds."""

    kind: Literal["filter"] = "filter"
    fields: Fields = Field(min_length=1)
    where: Expression = Field(min_length=1)
    """Spark SQL condition over the fields, for example `delay > 15 and carrier <> 'AA'`."""

    _names = field_validator("fields")(own_names)


class Map(StepModel):
    """Computes new fields from old ones."""

    kind: Literal["map"] = "map"
    fields: Fields = Field(min_length=1)
    select: dict[FieldName, Expression] = Field(min_length=1)
    """New field → Spark SQL expression over the fields."""

    _names = field_validator("fields", "select")(own_names)


class Forward(Model):
    """Passes every event on unchanged, to another topic or another site."""

    kind: Literal["forward"] = "forward"


class Merge(Model):
    """Several inputs become one output; events are passed on unchanged."""

    kind: Literal["merge"] = "merge"


class AggregateFunction(StrEnum):
    """Aggregates a window can compute."""

    COUNT = "count"
    SUM = "sum"
    TOTAL = "total"
    """A sum of doubles as they come, for a seventh of the cost of `sum`: two runs may differ in its last
    digits."""
    AVG = "avg"
    MIN = "min"
    MAX = "max"
    STDDEV = "stddev"
    """Sample standard deviation; null for a single event."""
    PERCENTILE = "percentile"
    """Exact, linearly interpolated."""
    DISTINCT = "distinct"
    """Exact number of distinct values."""
    SERIES = "series"
    """Every value with its event, in their order, as JSON text: `[{"t": time in microseconds, "i": position
    of the input, "s": serial number, "v": value}, …]`. Only of windows over event time."""


class Aggregate(Model):
    """One aggregate over one field."""

    function: AggregateFunction
    field: FieldName | None = None
    """Not needed for `count`, which counts events."""
    q: float | None = Field(default=None, ge=0, le=1)
    """Which percentile, as a fraction: 0.95."""

    @model_validator(mode="after")
    def _complete(self) -> Aggregate:
        if self.field is None and self.function is not AggregateFunction.COUNT:
            raise ValueError(f"{self.function} needs a field")
        if (self.q is None) == (self.function is AggregateFunction.PERCENTILE):
            raise ValueError("q belongs to percentile, and percentile needs it")
        return self


def _check_declared(fields: dict[str, FieldType], key: list[str], aggregates: dict[str, Aggregate]) -> None:
    used = [*key, *(a.field for a in aggregates.values() if a.field is not None)]
    missing = [name for name in used if name not in fields]
    if missing:
        raise ValueError(f"{missing[0]!r} is not among the fields")


class Precision(Model):
    """The error that a sum, mean or number of values may have in so many tumbling windows together."""

    of: Literal["mean", "sum", "count"]
    weight: FieldName
    """The aggregate that has the sum of the weights of events with a value."""
    sum: FieldName | None = None
    """The aggregate that has the sum of values times weights; null for a number of values."""
    squares: FieldName | None = None
    """The aggregate that has the sum of squares times weights."""
    max_error: float = Field(gt=0, lt=1)
    """Relative error."""
    confidence: float = Field(gt=0, lt=1)
    """Probability of no larger error."""
    windows: int = Field(ge=1)
    key: list[FieldName] = []
    """Fields of the window's key by whose values the results are told apart."""


class WindowShape(StrEnum):
    """Position of windows in time."""

    TUMBLING = "tumbling"
    SLIDING = "sliding"
    SESSION = "session"


class Window(StepModel):
    """Aggregates per window and key. The result of a window appears once, when it closes."""

    kind: Literal["window"] = "window"
    fields: Fields = {}
    shape: WindowShape = WindowShape.TUMBLING
    size_s: float | None = Field(default=None, gt=0)
    """Length of tumbling and sliding windows, seconds."""
    slide_s: float | None = Field(default=None, gt=0)
    """Distance of the starts of sliding windows, seconds."""
    gap_s: float | None = Field(default=None, gt=0)
    """A session closes when its key was silent for so long, seconds."""
    event_time: FieldName | None = None
    """Timestamp field that places an event. Without it, the time the site stored the event does."""
    watermark_s: float = Field(default=0.0, ge=0)
    """Delay behind the newest event with which an event still counts, seconds of event time.
    Results do not depend on how events were cut into batches only if this covers the disorder."""
    key: list[FieldName] = []
    aggregates: dict[FieldName, Aggregate] = Field(min_length=1)
    punctuates: bool = False
    """Whenever time is past another end of windows, an empty window follows them as a punctuation: all that
    end until then are stored before it (Tucker et al., 2003). So readers need not wait for a later one. For
    the last step of tumbling windows."""
    precision: list[Precision] = []
    """Promises that the shares of `Input.thinning` must keep."""

    _names = field_validator("fields")(own_names)

    @model_validator(mode="after")
    def _consistent(self) -> Window:
        needs = {
            WindowShape.TUMBLING: {"size_s"},
            WindowShape.SLIDING: {"size_s", "slide_s"},
            WindowShape.SESSION: {"gap_s"},
        }[self.shape]
        given = {n for n in ("size_s", "slide_s", "gap_s") if getattr(self, n) is not None}
        if given != needs:
            raise ValueError(f"a {self.shape} window takes exactly {', '.join(sorted(needs))}")
        if self.event_time is not None and self.fields.get(self.event_time) is not FieldType.TIMESTAMP:
            raise ValueError(f"event_time {self.event_time!r} must be a declared field of type timestamp")
        if self.punctuates and self.shape is not WindowShape.TUMBLING:
            raise ValueError("only tumbling windows punctuate")
        _check_declared(self.fields, self.key, self.aggregates)
        return self


class ProcessingWindow(Model):
    """Aggregates per key of the events that one micro-batch finds: a tumbling window by the operator's own
    time, or by number of events. Exactly one of `size_s` and `size_events` is given.

    Where a window ends depends on when the operator runs: two runs of the job cut the same input
    differently. Each result says which serial numbers its window covers, in `after` and `through`; no
    state is kept between windows. Takes one input. A window without accepted events has no result.
    """

    kind: Literal["processing_window"] = "processing_window"
    fields: Fields = {}
    size_s: float | None = Field(default=None, gt=0)
    """Seconds between the ends of windows, instead of the job's `trigger_s`. A window holds whatever came
    since the last one ended; `max_events_per_batch`, if given, ends it earlier."""
    size_events: int | None = Field(default=None, ge=1)
    """Serial numbers in a window, rejected events included. The input must be the output of a job: a
    device topic shares its serial numbers with the site's other topics, so forward it first. At most one
    window ends per `trigger_s`; with 0, windows keep up with any rate."""
    key: list[FieldName] = []
    aggregates: dict[FieldName, Aggregate] = Field(min_length=1)

    _names = field_validator("fields")(own_names)

    @model_validator(mode="after")
    def _consistent(self) -> ProcessingWindow:
        if (self.size_s is None) == (self.size_events is None):
            raise ValueError("a processing window takes exactly one of size_s and size_events")
        _check_declared(self.fields, self.key, self.aggregates)
        return self


class Query(StepModel):
    """Answers queries from panes, which a `window` makes of their streams. See `towpath query`."""

    kind: Literal["query"] = "query"
    text: str = Field(min_length=1, max_length=MAX_QUERY_TEXT)
    """Streams and queries, as `docs/query-language.md` describes them."""
    filled: dict[str, str] = {}
    """Name → the text in place of `{name}` in the parameters of streams."""


class Python(StepModel):
    """User code: `module:function` takes a DataFrame and the parameters, and returns a DataFrame.

    The result must keep the columns `serial`, `input` and `stored_at` of the event each row comes
    from, or `identity` must name the fields that identify a row: it must if one event becomes several rows.
    Only append mode.

    Without `fields` the DataFrame has, besides those three columns, `value`: a string, the event's JSON
    object, and of a job's result its values. If the result then has `value` as its only further column,
    a string that holds a JSON object, that object is published, and not one with a member `value`.
    """

    kind: Literal["python"] = "python"
    fields: Fields = {}
    entry: EntryName
    """`package.module:function`."""
    artefact: str | None = None
    """Path of a wheel, a zip or a directory that holds the code, in the mesh's artefact root; a relative
    one begins there. Null: a module that the engines' environment has. What counts is what lies there
    when the job is deployed or updated."""
    parameters: dict[str, Any] = {}
    identity: list[FieldName] = []

    _names = field_validator("fields")(own_names)


Step = Annotated[Clean | Filter | Map | Window | Predict | Query | Python, Field(discriminator="kind")]
"""An operator that may be a step of a chain."""


class Chain(Model):
    """Several operators in a row, as one job with one checkpoint. Each step reads what the one before makes.

    Results are those that the steps would make as jobs that read each other, with two differences. After a
    `window`, results keep its window and key. The event of a rejected one is that of the job's input.
    """

    kind: Literal["chain"] = "chain"
    steps: list[Step] = Field(min_length=1)
    """In their order. At most one `window`, and at most one that runs code of the user."""

    @property
    def step_names(self) -> list[str]:
        """The name of each step: the given one, or its kind, with its position where that is taken."""
        taken = [step.name for step in self.steps if step.name is not None]
        names: list[str] = []
        for position, step in enumerate(self.steps, 1):
            is_free = step.kind not in taken and step.kind not in names
            names.append(step.name or (step.kind if is_free else f"{step.kind}-{position}"))
        return names

    @model_validator(mode="after")
    def _steps_fit(self) -> Chain:
        if len(set(self.step_names)) < len(self.steps):
            raise ValueError(f"two steps have one name: {', '.join(self.step_names)}")
        for kind, advice in (("window", "a second job"), ("python", "one function that calls the other")):
            if [step.kind for step in self.steps].count(kind) > 1:
                raise ValueError(f"a chain has at most one {kind} step; use {advice}")
        if sum(_has_user_code(step) for step in self.steps) > 1:
            raise ValueError("a chain has at most one step with code of the user; use a second job")
        for number, step in enumerate(self.steps):
            _check_place(step, self.steps[:number], self.steps[number + 1 :])
        return self


def _has_user_code(step: Step) -> bool:
    return isinstance(step, Python) or (isinstance(step, Predict) and step.user_model is not None)


def _check_place(step: Step, before: list[Step], after: list[Step]) -> None:
    """Raise `ValueError` if a step cannot stand where it does."""
    if isinstance(step, Clean) and step.identity:
        for later in after:
            if isinstance(later, Window | Predict):
                raise ValueError(
                    f"clean with an identity stands in front of a {later.kind}, which would count repetitions"
                )
    if isinstance(step, Python) and before and not step.fields:
        raise ValueError("a python step after another needs fields")
    if isinstance(step, Python) and any(isinstance(one, Window) for one in before) and not step.identity:
        raise ValueError("a python step after a window needs an identity, such as window_end and the key")


Operator = Annotated[
    Clean | Filter | Map | Forward | Merge | Window | ProcessingWindow | Predict | Query | Python | Chain,
    Field(discriminator="kind"),
]
"""Each kind has a module in `towpath.operators.kinds`, which says what it does."""


def last_step(operator: Operator) -> Operator:
    """Return the operator whose results are the job's: of a chain its last step."""
    return operator.steps[-1] if isinstance(operator, Chain) else operator


def step_names(operator: Operator) -> list[str]:
    """Return the names of an operator's steps; none if it is no chain."""
    return operator.step_names if isinstance(operator, Chain) else []


def plain_operator(operator: Operator | Step) -> dict[str, Any]:
    """Return an operator as JSON data without default values. `kind` always stands: readers need it."""
    body = {"kind": operator.kind, **operator.model_dump(mode="json", exclude_defaults=True)}
    if isinstance(operator, Chain):
        body["steps"] = [plain_operator(step) for step in operator.steps]
    return body
