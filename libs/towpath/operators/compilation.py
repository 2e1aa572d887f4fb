"""Compile an assignment to the Spark plan of its results, with its events read as the operator wants them."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import Assignment
from towpath.contracts.message import SiteName
from towpath.contracts.operators import FieldType
from towpath.operators.columns import first_line
from towpath.operators.expressions import check_names
from towpath.operators.kind import kind_of
from towpath.operators.parsing import parse
from towpath.operators.passage import pass_on
from towpath.operators.processing_windows import MicroBatchWindow
from towpath.operators.publication import Publication


def compile_job(assignment: Assignment, inputs: list[DataFrame], executed_at: SiteName) -> DataFrame:
    """The results and rejected events of a job: columns `position`, `message_id`, `rejected`, `body`.

    Messages of a micro-batch belong in the order of `position`. Where there is a `micro_batch_window`, these
    are the rows from which it makes the messages of one micro-batch.

    `inputs[i]` holds the messages of `assignment.inputs[i]` in columns `serial`, `topic`,
    `stored_at` and `value` (bytes), streaming or not. The query must run in append mode, in a
    session whose time zone is UTC. Raises `TowpathError` that names the part of the spec at fault.
    """
    if len(inputs) != len(assignment.inputs):
        raise TowpathError(
            ErrorCode.INVALID,
            "every input of the job needs its messages",
            field="inputs",
            value=len(inputs),
            allowed=str(len(assignment.inputs)),
        )
    operator = assignment.spec.operator
    events = JobEvents(assignment, inputs, Publication.of(assignment, executed_at))
    try:
        return kind_of(operator).compile(operator, events)
    except AnalysisException as error:
        raise TowpathError(ErrorCode.SCHEMA_MISMATCH, first_line(error), field="operator") from error


def micro_batch_window(assignment: Assignment, executed_at: SiteName) -> MicroBatchWindow | None:
    """The maker of messages from a micro-batch's rows; None for operators whose plan makes them itself."""
    operator = assignment.spec.operator
    batch_window = kind_of(operator).batch_window
    if batch_window is None:
        return None
    return batch_window(operator, Publication.of(assignment, executed_at))


@dataclass(frozen=True)
class JobEvents:
    """The messages of a job's inputs, and what makes results of them."""

    assignment: Assignment
    messages: list[DataFrame]
    """One frame for each input, see `compile_job`."""
    publication: Publication

    def typed(self, fields: dict[str, FieldType]) -> list[DataFrame]:
        """The events of each input with these fields as columns, see `parsing.parse`."""
        check_names([*fields], "operator.fields")
        inputs = zip(self.messages, self.assignment.inputs, strict=True)
        return [parse(frame, source, position, fields) for position, (frame, source) in enumerate(inputs)]

    def unchanged(self) -> list[DataFrame]:
        """The events of each input with their JSON as it came, see `passage.pass_on`."""
        inputs = zip(self.messages, self.assignment.inputs, strict=True)
        return [pass_on(frame, source, position) for position, (frame, source) in enumerate(inputs)]
