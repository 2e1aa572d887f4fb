"""Compile an assignment to the Spark plan of its results, with its events read as the operator wants them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import Assignment, ResolvedInput
from towpath.contracts.operators import FieldType
from towpath.operators.columns import first_line
from towpath.operators.expressions import check_names
from towpath.operators.kind import kind_of
from towpath.operators.processing_windows import MicroBatchWindow
from towpath.operators.rejections import without_rejected
from towpath.streams.reading import Reading

Read = Callable[[ResolvedInput, Reading], DataFrame]
"""Reads an input, with the columns of `Reading.schema`, streaming or not."""


def compile_job(assignment: Assignment, read: Read) -> DataFrame:
    """The results of a job, in columns that `towpath.streams.encoding` names.

    Rejected events are observed, see `rejections`. Where there is a `micro_batch_window`, these are the rows
    from which it makes the results of one micro-batch. The query must run in append mode, in a session whose
    time zone is UTC. Raises `TowpathError` that names the part of the spec at fault.
    """
    operator = assignment.spec.operator
    try:
        return kind_of(operator).compile(operator, JobEvents(assignment, read))
    except AnalysisException as error:
        raise TowpathError(ErrorCode.SCHEMA_MISMATCH, first_line(error), field="operator") from error


def micro_batch_window(assignment: Assignment) -> MicroBatchWindow | None:
    """The maker of results from a micro-batch's rows; None for operators whose plan makes them itself."""
    operator = assignment.spec.operator
    batch_window = kind_of(operator).batch_window
    return None if batch_window is None else batch_window(operator)


@dataclass(frozen=True)
class JobEvents:
    """The events of a job's inputs. Each method returns a frame for each input."""

    assignment: Assignment
    read: Read

    def typed(self, fields: dict[str, FieldType], required: Sequence[str] = ()) -> list[DataFrame]:
        """The events that have these fields, as columns beside `serial`, `input` and `stored_at`."""
        frames = self._frames(fields, required=tuple(required))
        return [without_rejected(frame, position) for position, frame in enumerate(frames)]

    def judged(self, fields: dict[str, FieldType]) -> list[DataFrame]:
        """The same with the events that do not fit, for operators that reject more of them themselves.

        They go through `without_rejected` when their `reading.REASON` is complete.
        """
        return self._frames(fields, keeps_text=True)

    def whole(self) -> list[DataFrame]:
        """The events with their JSON as it came, in the columns `VALUES`, `KEY`… of `streams.reading`."""
        return [without_rejected(frame, position) for position, frame in enumerate(self._frames(None))]

    def _frames(
        self, fields: dict[str, FieldType] | None, *, required: tuple[str, ...] = (), keeps_text: bool = False
    ) -> list[DataFrame]:
        check_names([*(fields or ())], "operator.fields")
        return [
            self.read(source, Reading(fields, source.from_device, position, required, keeps_text))
            for position, source in enumerate(self.assignment.inputs)
        ]
