"""The events that an operator computes on: of a job's inputs, or in a chain of the step before."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import Assignment, ResolvedInput
from towpath.contracts.operators import FieldType
from towpath.operators.columns import named
from towpath.operators.expressions import check_names
from towpath.operators.rejections import with_all_columns, without_rejected
from towpath.operators.results import carried_of, unpacked_results
from towpath.operators.step_fields import read_fields
from towpath.streams.reading import INPUT, REASON, SERIAL, STORED_AT, TEXT, Reading

Read = Callable[[ResolvedInput, Reading], DataFrame]
"""Reads an input, with the columns of `Reading.schema`, streaming or not."""


_OWN = (SERIAL, INPUT, STORED_AT)


class JobEvents(ABC):
    """The events that an operator computes on. Methods return one frame, or one for each input."""

    assignment: Assignment

    @abstractmethod
    def typed(self, fields: dict[str, FieldType], required: Sequence[str] = ()) -> list[DataFrame]:
        """The events that have these fields, as columns beside `serial`, `input` and `stored_at`.

        Those that lack a `required` one are rejected.
        """

    @abstractmethod
    def judged(self, fields: dict[str, FieldType]) -> list[DataFrame]:
        """The same with the events that do not fit, for operators that reject more of them themselves.

        They go through `accepted` when their `reading.REASON` is complete.
        """

    @abstractmethod
    def accepted(self, rows: DataFrame) -> DataFrame:
        """The rows of all frames of `judged` that have no reason. The others are rejected."""

    @abstractmethod
    def whole(self) -> list[DataFrame]:
        """The events with their JSON as it came, in the columns `VALUES`, `KEY`… of `streams.reading`."""


@dataclass(frozen=True)
class InputEvents(JobEvents):
    """The events of a job's inputs, as their source decodes them."""

    assignment: Assignment
    read: Read
    positions: tuple[int, ...]
    """The inputs that are read."""
    keeps_text: bool = False
    """Later steps of a chain may reject events: they keep their text in the column `TEXT`."""

    @classmethod
    def of(cls, assignment: Assignment, read: Read) -> InputEvents:
        """Return the events of all inputs of a job."""
        return cls(assignment, read, tuple(range(len(assignment.inputs))))

    def by_input(self) -> list[InputEvents]:
        """The events of each input for itself."""
        return [replace(self, positions=(position,)) for position in self.positions]

    def typed(self, fields: dict[str, FieldType], required: Sequence[str] = ()) -> list[DataFrame]:
        """See `JobEvents`."""
        return self._accepted_each(self._frames(fields, tuple(required)))

    def judged(self, fields: dict[str, FieldType]) -> list[DataFrame]:
        """See `JobEvents`."""
        return self._frames(fields, keeps_text=True)

    def accepted(self, rows: DataFrame) -> DataFrame:
        """See `JobEvents`."""
        return self._with_text(without_rejected(rows, branch=self.positions[0]))

    def whole(self) -> list[DataFrame]:
        """See `JobEvents`."""
        return self._accepted_each(self._frames(None))

    def _accepted_each(self, frames: list[DataFrame]) -> list[DataFrame]:
        pairs = zip(self.positions, frames, strict=True)
        return [self._with_text(without_rejected(frame, branch=position)) for position, frame in pairs]

    def _with_text(self, rows: DataFrame) -> DataFrame:
        return rows if self.keeps_text else rows.drop(TEXT)

    def _frames(
        self, fields: dict[str, FieldType] | None, required: tuple[str, ...] = (), *, keeps_text: bool = False
    ) -> list[DataFrame]:
        check_names([*(fields or ())], "operator.fields")
        inputs, text = self.assignment.inputs, keeps_text or self.keeps_text
        weighs = any(resolved.thinning is not None for resolved in inputs)
        return [
            self.read(
                inputs[at],
                Reading(fields, inputs[at].from_device, at, required, text, _form(inputs[at]), weighs),
            )
            for at in self.positions
        ]


def _form(resolved: ResolvedInput) -> dict[str, Any] | None:
    return None if resolved.format is None else resolved.format.model_dump(mode="json")


@dataclass(frozen=True)
class StepEvents(JobEvents):
    """The results of a step of a chain, as the next one reads them."""

    assignment: Assignment
    frames: Sequence[DataFrame]
    """The results of the step before."""
    step: int
    """Position of the step that reads."""
    branch: int = 0
    keeps_columns: bool = False
    """The step before keeps state: all that it computes stays in the plan, because state is laid out alike
    whatever the next step uses."""

    def typed(self, fields: dict[str, FieldType], required: Sequence[str] = ()) -> list[DataFrame]:
        """See `JobEvents`."""
        lacking = [
            F.when(F.col(name).isNull(), F.lit(f"field '{name}': missing or null")) for name in required
        ]
        frames = self._frames(fields)
        if lacking:
            frames = [frame.withColumn(REASON, F.coalesce(*lacking)) for frame in frames]
        return [self._accepted(frame, branch) for branch, frame in enumerate(frames, self.branch)]

    def judged(self, fields: dict[str, FieldType]) -> list[DataFrame]:
        """See `JobEvents`."""
        return [frame.withColumn(REASON, F.lit(None).cast("string")) for frame in self._frames(fields)]

    def accepted(self, rows: DataFrame) -> DataFrame:
        """See `JobEvents`."""
        return self._accepted(rows, self.branch)

    def whole(self) -> list[DataFrame]:
        """Raise `TowpathError`: between steps there is no JSON."""
        raise TowpathError(
            ErrorCode.INVALID,
            "a step that reads another one's results declares its fields",
            field="operator.fields",
            allowed="the fields that the step reads, with their types",
        )

    def _frames(self, fields: dict[str, FieldType]) -> list[DataFrame]:
        check_names([*fields], "operator.fields")
        frames = map(unpacked_results, self.frames)
        return [self._read(frame, fields, branch) for branch, frame in enumerate(frames, self.branch)]

    def _accepted(self, rows: DataFrame, branch: int) -> DataFrame:
        derived = TEXT not in rows.columns
        if derived and REASON in rows.columns:
            fields = [name for name in rows.columns if " " not in name and name not in _OWN]
            made = F.to_json(F.struct(*fields)) if fields else F.lit("{}")
            rows = rows.withColumn(TEXT, F.when(named(REASON).isNotNull(), made))
        good = without_rejected(rows, step=self.step, branch=branch, derived=derived)
        return good.drop(TEXT) if derived else good

    def _read(self, results: DataFrame, fields: dict[str, FieldType], branch: int) -> DataFrame:
        if self.keeps_columns:
            results = with_all_columns(results, self.step, branch)
        source = F.col(INPUT) if INPUT in results.columns else F.lit(None).cast("int").alias(INPUT)
        return results.select(
            SERIAL,
            source,
            STORED_AT,
            *read_fields(results, fields),
            *carried_of(results),
        )
